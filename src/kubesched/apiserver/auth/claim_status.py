"""Who may write which part of a ResourceClaim's status, as Kubernetes 1.36 has it by default.

Permission for ``resourceclaims/status`` is not enough. Allocation and reservations need ``resourceclaims/binding`` for
the whole cluster, and the status of a device needs ``resourceclaims/driver`` with the driver's name.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.auth.rbac import AccessRequest, Authorizer, denied
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import Cause
from kubesched.base.types import JSON

_GROUP, _CLAIMS = "resource.k8s.io", "resourceclaims"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT = "system:serviceaccount:"


class ClaimStatusAuthorization:
    """Finds what a user may not write."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def problems(self, verb: str, user: UserInfo | None, old: JSON, new: JSON) -> Iterator[Cause]:
        """Yield a cause for each part that the user may not change. Without a user it is the server itself."""
        if user is None:
            return
        before, after = old.get("status") or {}, new.get("status") or {}
        if any((before.get(part) or None) != (after.get(part) or None) for part in ("allocation", "reservedFor")):
            action = AccessRequest(verb, _GROUP, _CLAIMS, "binding")
            if not self._authorizer.allows(user, action):
                what = f'status.reservedFor requires resource="resourceclaims/binding", verb="{verb}" permission'
                why = f"changing status.allocation or {what}: {denied(user, action).message}"
                yield Cause("FieldValueForbidden", f"Forbidden: {why}", "status.allocation")
        if after.get("allocation"):
            yield from self._devices(verb, user, before, after, new["metadata"].get("namespace", ""))

    def _devices(self, verb: str, user: UserInfo, before: JSON, after: JSON, namespace: str) -> Iterator[Cause]:
        verbs = [f"arbitrary-node:{verb}"]
        if _runs_on(user, _node_of(after["allocation"])):
            verbs.insert(0, f"associated-node:{verb}")
        for driver in sorted(_changed_drivers(before, after)):
            actions = [AccessRequest(each, _GROUP, _CLAIMS, "driver", namespace, driver) for each in verbs]
            if not any(self._authorizer.allows(user, action) for action in actions):
                what = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
                why = f"changing status.devices requires {what}: {denied(user, actions[0]).message}"
                yield Cause("FieldValueForbidden", f"Forbidden: {why}", "status.devices")


def _changed_drivers(before: JSON, after: JSON) -> set[str]:
    """The drivers of devices whose status was added, changed or removed."""
    old, new = ({_id(each): each for each in status.get("devices") or []} for status in (before, after))
    return {key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _id(device: JSON) -> tuple[str, ...]:
    return tuple(device.get(part) or "" for part in ("driver", "pool", "device", "shareID"))


def _node_of(allocation: JSON) -> str:
    """The only node where the devices of an allocation are; empty if there may be others."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or []) != 1:
        return ""
    field = terms[0]["matchFields"][0]
    named = (field.get("key"), field.get("operator"), len(field.get("values") or [])) == ("metadata.name", "In", 1)
    return str(field["values"][0]) if named else ""


def _runs_on(user: UserInfo, node: str) -> bool:
    """Whether a user is the service account of a pod on a node."""
    return bool(node) and user.name.startswith(_SERVICE_ACCOUNT) and tuple(user.extra.get(_NODE_NAME, ())) == (node,)
