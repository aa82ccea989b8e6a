"""Protection against privilege escalation: roles and bindings may only grant rights that their author has.

Otherwise a user who may write role bindings, such as the administrator of one namespace, could bind any role. Users
with the verb `escalate` or `bind` on the role are exempt, as are masters and the server itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kubesched.apiserver.auth.authentication import MASTERS
from kubesched.apiserver.auth.rbac import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLES,
    AccessRequest,
    Authorizer,
)
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import forbidden, not_found
from kubesched.base.types import JSON

_EVERYTHING: list[JSON] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
# Fields whose changes grant nothing: the garbage collector and the server write them.
_HARMLESS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class Escalation:
    """Refuses roles and bindings that grant more than their author has."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, resource: ApiResource, old: JSON | None, new: JSON, user: UserInfo | None) -> None:
        """Raise 403 if a write of a role or binding grants more than the user has."""
        if user is None or MASTERS in user.groups:
            return
        if old is not None and _without_harmless(old) == _without_harmless(new):
            return
        if resource.storage in (ROLES, CLUSTER_ROLES):
            self._check_role(resource, old or {}, new, user)
        elif resource.storage in (BINDINGS, CLUSTER_BINDINGS):
            self._check_binding(resource, new, user)

    def _check_role(self, resource: ApiResource, old: JSON, new: JSON, user: UserInfo) -> None:
        namespace, name = new["metadata"].get("namespace", ""), new["metadata"].get("name", "")
        # As upstream, authorization of a creation does not include the name.
        escalate = AccessRequest("escalate", GROUP, resource.plural, namespace=namespace, name=name if old else "")
        if self._authorizer.allows(user, escalate):
            return
        self._compare(resource, new, new.get("rules") or [], user)
        aggregates = any((role.get("aggregationRule") or {}).get("clusterRoleSelectors") for role in (old, new))
        if aggregates and self._lacking(_EVERYTHING, user, namespace):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(resource.plural, resource.group, name, why)

    def _check_binding(self, resource: ApiResource, binding: JSON, user: UserInfo) -> None:
        namespace, reference = binding["metadata"].get("namespace", ""), binding.get("roleRef") or {}
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        name = reference.get("name") or ""
        if self._authorizer.allows(user, AccessRequest("bind", GROUP, plural, namespace=namespace, name=name)):
            return
        role = self._authorizer.role(reference, namespace)
        if role is None:
            raise not_found(plural, GROUP, name)
        self._compare(resource, binding, role.get("rules") or [], user)

    def _compare(self, resource: ApiResource, obj: JSON, rules: list[JSON], user: UserInfo) -> None:
        if lacking := self._lacking(rules, user, obj["metadata"].get("namespace", "")):
            why = (
                f"user {_quoted([user.name])[1:-1]} (groups={_quoted(user.groups)}) is attempting to grant RBAC"
                " permissions not currently held:\n" + "\n".join(lacking)
            )
            raise forbidden(resource.plural, resource.group, obj["metadata"].get("name", ""), why)

    def _lacking(self, rules: list[JSON], user: UserInfo, namespace: str) -> list[str]:
        """The rights in the rules that the user lacks, as upstream prints them: grouped by resource."""
        own = tuple(self._authorizer.rules_of(user, namespace))
        found: dict[tuple[str, str], list[str]] = {}
        for rule in rules:
            for where, action in _permissions(rule):
                if not any(known.allows(action) for known in own):
                    found.setdefault((where, action.verb if action.path else ""), []).append(action.verb)
        return sorted(f"{{{where}, Verbs:{_quoted(dict.fromkeys(verbs))}}}" for (where, _), verbs in found.items())


def _without_harmless(obj: JSON) -> JSON:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in _HARMLESS}}


def _permissions(rule: JSON) -> Iterator[tuple[str, AccessRequest]]:
    """Each right in a rule: its resource in words, and the access request to check."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield f"NonResourceURLs:{_quoted([path])}", AccessRequest(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                plural, _, subresource = resource.partition("/")
                where = f"APIGroups:{_quoted([group])}, Resources:{_quoted([resource])}"
                for name in rule.get("resourceNames") or ("",):
                    named = f"{where}, ResourceNames:{_quoted([name])}" if name else where
                    yield named, AccessRequest(verb, group, plural, subresource, name=name)


def _quoted(words: Iterable[str]) -> str:
    """A list of words as Go prints it."""
    return f"[{' '.join(msgspec.json.encode(word).decode() for word in words)}]"
