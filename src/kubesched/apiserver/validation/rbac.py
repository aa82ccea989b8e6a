"""Validation of roles and their bindings."""

from __future__ import annotations

from kubesched.apiserver.validation.checks import Check, Comparison, check_name, each, require_name
from kubesched.apiserver.validation.naming import path_segment_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_label_selector
from kubesched.base.types import JSON

_GROUP = "rbac.authorization.k8s.io"
_SINGULAR = {"apiGroups": "api group", "resources": "resource"}


def _role(obj: JSON, problems: Problems) -> None:
    for rule, path in each(obj.get("rules"), "rules"):
        _rule(rule, obj["kind"] == "Role", path, problems)
    aggregated, path = obj.get("aggregationRule"), "aggregationRule.clusterRoleSelectors"
    if aggregated is not None and not aggregated.get("clusterRoleSelectors"):
        problems.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for selector, where in each((aggregated or {}).get("clusterRoleSelectors"), path):
        before = len(problems.found)
        check_label_selector(selector, where, problems)
        if len(problems.found) > before:
            problems.invalid(where, None, "invalid label selector.")


def _rule(rule: JSON, namespaced: bool, path: str, problems: Problems) -> None:
    if not rule.get("verbs"):
        problems.required(f"{path}.verbs", "verbs must contain at least one value")
    urls, where = rule.get("nonResourceURLs"), f"{path}.nonResourceURLs"
    if urls and namespaced:
        problems.invalid(where, urls, "namespaced rules cannot apply to non-resource URLs")
    if urls and (rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames")):
        problems.invalid(where, urls, "rules cannot apply to both regular resources and non-resource URLs")
    for field, one in _SINGULAR.items():
        if not urls and not rule.get(field):
            problems.required(f"{path}.{field}", f"resource rules must supply at least one {one}")


def _binding(obj: JSON, problems: Problems) -> None:
    role, namespaced = obj.get("roleRef") or {}, obj["kind"] == "RoleBinding"
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("apiGroup") != _GROUP:
        problems.unsupported("roleRef.apiGroup", role.get("apiGroup") or "", (_GROUP,))
    if role.get("kind") not in kinds:
        problems.unsupported("roleRef.kind", role.get("kind") or "", kinds)
    require_name(role.get("name"), path_segment_errors, "roleRef.name", problems)
    for subject, path in each(obj.get("subjects"), "subjects"):
        _subject(subject, namespaced, path, problems)


def _subject(subject: JSON, namespaced: bool, path: str, problems: Problems) -> None:
    kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
    if not subject.get("name"):
        problems.required(f"{path}.name")
    if kind == "ServiceAccount":
        check_name(subject.get("name"), subdomain_errors, f"{path}.name", problems)
        if group:
            problems.unsupported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            problems.required(f"{path}.namespace")
    elif kind not in ("User", "Group"):
        problems.unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
    elif group != _GROUP:
        problems.unsupported(f"{path}.apiGroup", group, (_GROUP,))


def _compare_bindings(old: JSON, new: JSON, problems: Problems) -> None:
    role = new.get("roleRef") or {}
    if old.get("roleRef") != role:
        shown = {name: role.get(field) or "" for name, field in (("APIGroup", "apiGroup"), ("Kind", "kind"))}
        problems.invalid("roleRef", {**shown, "Name": role.get("name") or ""}, "cannot change roleRef")


CHECKS: dict[str, Check] = {
    f"{_GROUP}/roles": _role,
    f"{_GROUP}/clusterroles": _role,
    f"{_GROUP}/rolebindings": _binding,
    f"{_GROUP}/clusterrolebindings": _binding,
}
COMPARISONS: dict[str, Comparison] = {
    f"{_GROUP}/rolebindings": _compare_bindings,
    f"{_GROUP}/clusterrolebindings": _compare_bindings,
}
