"""What admission knows about one write: the operation, the object before and after, and who asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.wire.request import UserInfo
from kubesched.base.types import JSON

SERVER = UserInfo("system:apiserver", ("system:masters",))
"""The user of writes by this process itself: controllers and kubelets."""


_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def no_warning(_text: str) -> None:
    """For writes without a client."""


@dataclass(slots=True)
class AdmissionAttributes:
    """One write, before it is stored. Never changed, but not frozen: creating a frozen one takes four times as long."""

    operation: str
    resource: ApiResource
    obj: JSON | None
    old: JSON | None
    user: UserInfo = SERVER
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = no_warning
    """Sends a warning to the client."""

    @property
    def metadata(self) -> JSON:
        found: JSON = (self.obj or self.old or {}).get("metadata") or {}
        return found

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace of the object; of a namespace, itself."""
        if self.resource.storage == "/namespaces":
            return self.name
        return str(self.metadata.get("namespace", ""))

    def request(self) -> JSON:
        """The variable `request` of expressions."""
        resource = self.resource
        group_version = {"group": resource.group, "version": resource.version}
        kind, plural = {**group_version, "kind": resource.kind}, {**group_version, "resource": resource.plural}
        body = resource.subresource(self.subresource) if self.subresource else None
        if body is not None and body.kind:
            kind = {"group": body.group, "version": body.version, "kind": body.kind}
        user = self.user
        options: JSON = {"kind": _OPTIONS[self.operation], "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        # As upstream, what is empty is missing: has(request.subResource) is false, and reading it an error.
        parts = {"subResource": self.subresource, "requestSubResource": self.subresource}
        who = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        return {
            "kind": kind,
            "resource": plural,
            "requestKind": kind,
            "requestResource": plural,
            **_given({**parts, "name": self.name, "namespace": self.namespace}),
            "operation": self.operation,
            "userInfo": _given(who),
            "dryRun": self.dry_run,
            "options": options,
        }


def _given(fields: JSON) -> JSON:
    return {field: value for field, value in fields.items() if value}
