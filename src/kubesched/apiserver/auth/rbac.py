"""RBAC: roles and bindings evaluated as upstream's authorizer does.

Decisions are cached until a role or binding changes, so a busy client costs one dictionary lookup per request.
`system:masters` may do everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubesched.api.selectors import Selector
from kubesched.apiserver.auth.authentication import MASTERS
from kubesched.apiserver.storage.store import ChangeType, Store, StoreEvent
from kubesched.apiserver.validation.workloads import compiled
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import StatusError, qualified
from kubesched.base.types import JSON

GROUP = "rbac.authorization.k8s.io"
CLUSTER_ROLES = f"{GROUP}/clusterroles"
CLUSTER_BINDINGS = f"{GROUP}/clusterrolebindings"
ROLES = f"{GROUP}/roles"
BINDINGS = f"{GROUP}/rolebindings"
_CACHE_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """What a user wants to do: a verb on a resource, or on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule of a role."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, rule: JSON) -> PolicyRule:
        def words(field: str) -> frozenset[str]:
            return frozenset(rule.get(field) or ())

        return cls(
            words("verbs"),
            words("apiGroups"),
            words("resources"),
            words("resourceNames"),
            tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, action: AccessRequest) -> bool:
        if "*" not in self.verbs and action.verb not in self.verbs:
            return False
        if action.path:
            return any(_path_matches(pattern, action.path) for pattern in self.paths)
        if "*" not in self.groups and action.group not in self.groups:
            return False
        return self._has_resource(action) and (not self.names or action.name in self.names)

    def _has_resource(self, action: AccessRequest) -> bool:
        resources = self.resources
        if "*" in resources or action.full_resource in resources:
            return True
        return bool(action.subresource) and f"*/{action.subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


class Authorizer:
    """Decides what users may do."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decisions: dict[tuple[str, tuple[str, ...], AccessRequest], bool] = {}
        self._rules: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        for resource in (CLUSTER_ROLES, CLUSTER_BINDINGS, ROLES, BINDINGS):
            store.shelf(resource).observers.append(self._forget)

    def _forget(self, _event: StoreEvent) -> None:
        self._decisions.clear()
        self._rules.clear()

    def allows(self, user: UserInfo, action: AccessRequest) -> bool:
        if MASTERS in user.groups:
            return True
        key = (user.name, user.groups, action)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) > _CACHE_LIMIT:
                self._decisions.clear()
            known = any(rule.allows(action) for rule in self.rules_of(user, action.namespace))
            self._decisions[key] = known
        return known

    def check(self, user: UserInfo, action: AccessRequest) -> None:
        """Raise 403 unless the user may."""
        if not self.allows(user, action):
            raise denied(user, action)

    def rules_of(self, user: UserInfo, namespace: str) -> Iterator[PolicyRule]:
        """Every rule that applies to a user in a namespace, or in the whole cluster."""
        for record in self._store.records(CLUSTER_BINDINGS):
            binding = record.load()
            if _binds(binding, user, ""):
                yield from self._role_rules(binding["roleRef"], "")
        if not namespace:
            return
        for record in self._store.records(BINDINGS, namespace):
            binding = record.load()
            if _binds(binding, user, namespace):
                yield from self._role_rules(binding["roleRef"], namespace)

    def role(self, reference: JSON, namespace: str) -> JSON | None:
        """The role that a binding of a namespace, or of the whole cluster, refers to."""
        record = self._store.get(*_role_key(reference, namespace))
        return None if record is None else record.load()

    def _role_rules(self, reference: JSON, namespace: str) -> tuple[PolicyRule, ...]:
        key = _role_key(reference, namespace)
        known = self._rules.get(key)
        if known is None:
            rules = (self.role(reference, namespace) or {}).get("rules") or []
            known = self._rules[key] = tuple(PolicyRule.from_json(rule) for rule in rules)
        return known


def _role_key(reference: JSON, namespace: str) -> tuple[str, str]:
    """The storage name and key of the referenced role."""
    name = reference.get("name") or ""
    return (CLUSTER_ROLES, name) if reference.get("kind") == "ClusterRole" else (ROLES, f"{namespace}/{name}")


def _binds(binding: JSON, user: UserInfo, namespace: str) -> bool:
    return any(_is_subject(subject, user, namespace) for subject in binding.get("subjects") or ())


def _is_subject(subject: JSON, user: UserInfo, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"


def denied(user: UserInfo, action: AccessRequest) -> StatusError:
    """403 with upstream's message."""
    if action.path:
        message = f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"'
        return StatusError(403, message, details={})
    resource = qualified(action.full_resource, "")
    scope = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    named = f' "{action.name}"' if action.name else ""
    message = (
        f'{qualified(action.resource, action.group)}{named} is forbidden: User "{user.name}" cannot {action.verb}'
        f' resource "{resource}" in API group "{action.group}" {scope}'
    )
    details = {"name": action.name, "group": action.group, "kind": action.resource}
    return StatusError(403, message, details={key: value for key, value in details.items() if value})


# --- aggregation ------------------------------------------------------------------------------------------------------


class Aggregation:
    """Keeps aggregated cluster roles equal to the union of the roles that they select."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._busy = False
        store.shelf(CLUSTER_ROLES).observers.append(self._changed)

    def _changed(self, event: StoreEvent) -> None:
        if not self._busy and (event.change is not ChangeType.MODIFIED or not _same_rules(event)):
            self.refresh()

    def refresh(self) -> None:
        """Bring every aggregated role up to date; roles may aggregate roles that are aggregated themselves."""
        self._busy = True
        try:
            for _ in range(4):
                if not self._refresh_once():
                    return
        finally:
            self._busy = False

    def _refresh_once(self) -> bool:
        changed = False
        for record in self._store.records(CLUSTER_ROLES):
            if b'"aggregationRule"' not in record.data:
                continue
            role = record.load()
            selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
            if not selectors:
                continue
            rules = self._union(record.key, [compiled(selector) for selector in selectors])
            if rules != (role.get("rules") or []):
                self._store.put(CLUSTER_ROLES, record.key, {**role, "rules": rules})
                changed = True
        return changed

    def _union(self, own: str, selectors: list[Selector]) -> list[Any]:
        rules: list[Any] = []
        for record in self._store.records(CLUSTER_ROLES):
            if record.key != own and any(selector.matches(record.labels) for selector in selectors):
                rules += [rule for rule in record.load().get("rules") or [] if rule not in rules]
        return rules


def _same_rules(event: StoreEvent) -> bool:
    before = event.previous.load() if event.previous is not None else {}
    after = event.record.load()
    parts: tuple[str, ...] = ("rules", "aggregationRule")
    same = all(before.get(part) == after.get(part) for part in parts)
    return same and event.previous is not None and event.previous.labels == event.record.labels
