"""The roles that the embedded cluster begins with are those of a real one."""

from __future__ import annotations

import json
from itertools import product

from tests.e2e.control_plane import ControlPlane

from kubesched.apiserver.auth.bootstrap_roles import default_roles
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
    """There are the same roles, and every role that is no union of others allows what kube-apiserver's does."""
    theirs: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for plural in ("clusterroles", "roles"):
        body = json.loads(plane.admin.ask("GET", f"/apis/rbac.authorization.k8s.io/v1/{plural}")[1])
        for role in body["items"]:
            metadata = role["metadata"]
            theirs[metadata.get("namespace", ""), metadata["name"]] = _allowed(role.get("rules") or [])
    roles = default_roles(with_controllers=True)
    assert {(role.namespace, role.name) for role in roles} == set(theirs)
    for role in roles:
        if not role.aggregates:
            own = _allowed([rule.to_json() for rule in role.rules])
            assert own == theirs[role.namespace, role.name], role.name


def test_bindings_name_the_same_subjects(plane: ControlPlane) -> None:
    """Every default binding gives a role to the same subjects, except for nodes, which have an authorizer upstream."""
    theirs: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for plural in ("clusterrolebindings", "rolebindings"):
        body = json.loads(plane.admin.ask("GET", f"/apis/rbac.authorization.k8s.io/v1/{plural}")[1])
        for binding in body["items"]:
            key = binding["metadata"].get("namespace", ""), binding["metadata"]["name"]
            subjects = [_subject(each) for each in binding.get("subjects") or []]
            theirs[key] = binding["roleRef"]["name"], subjects
    roles = [role for role in default_roles(with_controllers=True) if role.subjects]
    own = {(role.namespace, role.binding): (role.name, role.subjects) for role in roles}
    for bindings in (own, theirs):
        del bindings["", "system:node"]
    assert own == theirs


def _subject(subject: JSON) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"account {subject['namespace']}:{subject['name']}"
    return f"{subject['kind'].lower()} {subject['name']}"
