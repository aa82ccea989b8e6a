"""The roles that the embedded cluster begins with are those of a real one."""

from __future__ import annotations

import json
from itertools import product

from tests.e2e.control_plane import ControlPlane

from kubesched.apiserver.auth.bootstrap_roles import CLUSTER_ROLES
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.base.types import JSON

GATED = ("podgroups", "podgroups/status", "devicetaintrules")
"""Served here without a feature gate. A real kube-apiserver's roles have them only with the gate."""
SERVED = {resource.group for resource in BUILT_IN} | {"*"}


def _allowed(rules: list[JSON]) -> set[tuple[str, ...]]:
    """What rules allow, one by one; of groups that are not served here, nothing."""
    allowed: set[tuple[str, ...]] = set()
    for rule in rules:
        groups = [group for group in rule.get("apiGroups") or () if group in SERVED]
        resources = [resource for resource in rule.get("resources") or () if resource not in GATED]
        allowed |= set(product(rule["verbs"], groups, resources, rule.get("resourceNames") or ("",)))
        allowed |= set(product(rule["verbs"], rule.get("nonResourceURLs") or ()))
    return allowed


def test_cluster_roles_allow_the_same(plane: ControlPlane) -> None:
    """Every role that is no union of others allows what kube-apiserver's role of the same name does."""
    body = json.loads(plane.admin.ask("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles")[1])
    theirs = {role["metadata"]["name"]: _allowed(role.get("rules") or []) for role in body["items"]}
    own = {
        name: _allowed([rule.to_json() for rule in role.rules])
        for name, role in CLUSTER_ROLES.items()
        if not role.aggregates
    }
    assert own == {name: theirs[name] for name in own}
