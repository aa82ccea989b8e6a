"""Validation of workloads and pod groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.api.names import label_key_errors
from kubesched.apiserver.validation.naming import label_errors, path_segment_errors, subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.base.types import JSON

_MODES = ("Pod", "PodGroup")
_POLICIES = ("basic", "gang")
_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_MAX_TEMPLATES, _MAX_CLAIMS = 8, 4
_MAX_PRIORITY = 1_000_000_000
"""The highest priority that users may set."""


def _workload(obj: JSON, problems: Problems) -> None:
    controller = (obj.get("spec") or {}).get("controllerRef")
    if controller is not None:
        _controller(controller, "spec.controllerRef", problems)
    templates = (obj.get("spec") or {}).get("podGroupTemplates") or []
    if not templates:
        problems.required("spec.podGroupTemplates")
    _not_more_than(_MAX_TEMPLATES, templates, "spec.podGroupTemplates", problems)
    seen = set()
    for index, template in enumerate(templates):
        path, name = f"spec.podGroupTemplates[{index}]", template.get("name") or ""
        if name in seen:
            problems.duplicate(path, {"name": name})
        seen.add(name)
        _required(name, f"{path}.name", label_errors, problems)
        _group(template, path, problems)


def _controller(reference: JSON, path: str, problems: Problems) -> None:
    group = reference.get("apiGroup") or ""
    for error in subdomain_errors(group) if group else ():
        problems.invalid(f"{path}.apiGroup", group, error)
    for field in ("kind", "name"):
        _required(reference.get(field) or "", f"{path}.{field}", path_segment_errors, problems)


def _pod_group(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _group(spec, "spec", problems)
    reference = spec.get("podGroupTemplateRef")
    if reference is None:
        return
    path, workload = "spec.podGroupTemplateRef", reference.get("workload")
    if workload is None:
        problems.invalid(path, "", "must specify one of: `workload`")
        return
    _required(workload.get("workloadName") or "", f"{path}.workload.workloadName", subdomain_errors, problems)
    name = workload.get("podGroupTemplateName") or ""
    _required(name, f"{path}.workload.podGroupTemplateName", label_errors, problems)


def _group(spec: JSON, path: str, problems: Problems) -> None:
    """What templates and groups have in common."""
    _policy(spec.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy", problems)
    constraints = (spec.get("schedulingConstraints") or {}).get("topology") or []
    where = f"{path}.schedulingConstraints.topology"
    _not_more_than(1, constraints, where, problems)
    for index, constraint in enumerate(constraints):
        _required(constraint.get("key") or "", f"{where}[{index}].key", label_key_errors, problems)
    _claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims", problems)
    mode = spec.get("disruptionMode")
    if mode is not None and mode not in _MODES:
        problems.unsupported(f"{path}.disruptionMode", mode, _MODES)
    if (spec.get("priority") or 0) > _MAX_PRIORITY:
        problems.invalid(f"{path}.priority", spec["priority"], f"must be less than or equal to {_MAX_PRIORITY}")


def _claims(claims: list[JSON], path: str, problems: Problems) -> None:
    _not_more_than(_MAX_CLAIMS, claims, path, problems)
    seen = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name") or ""
        if name in seen:
            problems.duplicate(where, {"name": name})
        seen.add(name)
        _one_of(_CLAIM_SOURCES, claim, where, problems)
        _required(name, f"{where}.name", label_errors, problems)
        for source in _CLAIM_SOURCES:
            for error in subdomain_errors(claim[source]) if claim.get(source) is not None else ():
                problems.invalid(f"{where}.{source}", claim[source], error)


def _claim_statuses(old: JSON, new: JSON, problems: Problems) -> None:
    claims = {claim["name"] for claim in new["spec"].get("resourceClaims") or []}
    statuses = (new.get("status") or {}).get("resourceClaimStatuses") or []
    path, seen = "status.resourceClaimStatuses", set()
    _not_more_than(_MAX_CLAIMS, statuses, path, problems)
    for index, status in enumerate(statuses):
        name, claim = status.get("name") or "", status.get("resourceClaimName")
        if name in seen:
            problems.duplicate(f"{path}[{index}]", {"name": name})
        seen.add(name)
        if name not in claims:
            why = "must match the name of an entry in `spec.resourceClaims`"
            problems.invalid(f"{path}[{index}].name", name, why)
        for error in subdomain_errors(claim) if claim is not None else ():
            problems.invalid(f"{path}[{index}].resourceClaimName", claim, error)


def _one_of(members: tuple[str, ...], obj: JSON, path: str, problems: Problems) -> None:
    given = [each for each in members if obj.get(each) is not None]
    known = ", ".join(f"`{each}`" for each in members)
    if not given:
        problems.invalid(path, "", f"must specify one of: {known}")
    elif len(given) > 1:
        shown = ", ".join(f"`{each}`" for each in given)
        problems.invalid(path, f"{{{shown}}}", f"must specify exactly one of: {known}")


def _policy(policy: JSON, path: str, problems: Problems) -> None:
    _one_of(_POLICIES, policy, path, problems)
    gang = policy.get("gang")
    if gang is None:
        return
    count = gang.get("minCount") or 0
    if count == 0:
        problems.required(f"{path}.gang.minCount")
    elif count < 0:
        problems.invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")


def _required(text: str, path: str, errors: Callable[[str], Any], problems: Problems) -> None:
    if not text:
        problems.required(path)
        return
    for error in errors(text):
        problems.invalid(path, text, error)


def _not_more_than(limit: int, items: list[Any], path: str, problems: Problems) -> None:
    if len(items) > limit:
        items_ = "item" if limit == 1 else "items"
        problems.add("FieldValueTooMany", path, f"Too many: {len(items)}: must have at most {limit} {items_}")


def _fixed(*fields: str) -> Callable[[JSON, JSON, Problems], None]:
    """These fields of the spec cannot be changed."""

    def compare(old: JSON, new: JSON, problems: Problems) -> None:
        for field in fields:
            if old["spec"].get(field) != new["spec"].get(field):
                problems.invalid(f"spec.{field}", new["spec"].get(field), IMMUTABLE)

    return compare


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    "scheduling.k8s.io/workloads": _workload,
    "scheduling.k8s.io/podgroups": _pod_group,
}

COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "scheduling.k8s.io/workloads": _fixed("controllerRef", "podGroupTemplates"),
    "scheduling.k8s.io/podgroups": _fixed(
        "podGroupTemplateRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ),
}

STATUS: dict[str, Callable[[JSON, JSON, Problems], None]] = {"scheduling.k8s.io/podgroups": _claim_statuses}
