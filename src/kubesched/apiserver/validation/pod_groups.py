"""Validation of workloads and pod groups."""

from __future__ import annotations

from kubesched.api.names import label_key_errors
from kubesched.apiserver.validation.checks import Check, Comparison, fixed, require_name, too_many
from kubesched.apiserver.validation.naming import label_errors, path_segment_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
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
    too_many(templates, _MAX_TEMPLATES, "spec.podGroupTemplates", problems)
    seen = set()
    for index, template in enumerate(templates):
        path, name = f"spec.podGroupTemplates[{index}]", template.get("name") or ""
        if name in seen:
            problems.duplicate(path, {"name": name})
        seen.add(name)
        require_name(name, label_errors, f"{path}.name", problems)
        _group(template, path, problems)


def _controller(reference: JSON, path: str, problems: Problems) -> None:
    group = reference.get("apiGroup") or ""
    for error in subdomain_errors(group) if group else ():
        problems.invalid(f"{path}.apiGroup", group, error)
    for field in ("kind", "name"):
        require_name(reference.get(field) or "", path_segment_errors, f"{path}.{field}", problems)


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
    require_name(workload.get("workloadName") or "", subdomain_errors, f"{path}.workload.workloadName", problems)
    name = workload.get("podGroupTemplateName") or ""
    require_name(name, label_errors, f"{path}.workload.podGroupTemplateName", problems)


def _group(spec: JSON, path: str, problems: Problems) -> None:
    """What templates and groups have in common."""
    _policy(spec.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy", problems)
    constraints = (spec.get("schedulingConstraints") or {}).get("topology") or []
    where = f"{path}.schedulingConstraints.topology"
    too_many(constraints, 1, where, problems)
    for index, constraint in enumerate(constraints):
        require_name(constraint.get("key") or "", label_key_errors, f"{where}[{index}].key", problems)
    _claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims", problems)
    mode = spec.get("disruptionMode")
    if mode is not None and mode not in _MODES:
        problems.unsupported(f"{path}.disruptionMode", mode, _MODES)
    if (spec.get("priority") or 0) > _MAX_PRIORITY:
        problems.invalid(f"{path}.priority", spec["priority"], f"must be less than or equal to {_MAX_PRIORITY}")


def _claims(claims: list[JSON], path: str, problems: Problems) -> None:
    too_many(claims, _MAX_CLAIMS, path, problems)
    seen = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name") or ""
        if name in seen:
            problems.duplicate(where, {"name": name})
        seen.add(name)
        _one_of(_CLAIM_SOURCES, claim, where, problems)
        require_name(name, label_errors, f"{where}.name", problems)
        for source in _CLAIM_SOURCES:
            for error in subdomain_errors(claim[source]) if claim.get(source) is not None else ():
                problems.invalid(f"{where}.{source}", claim[source], error)


def _claim_statuses(old: JSON, new: JSON, problems: Problems) -> None:
    claims = {claim["name"] for claim in new["spec"].get("resourceClaims") or []}
    statuses = (new.get("status") or {}).get("resourceClaimStatuses") or []
    path, seen = "status.resourceClaimStatuses", set()
    too_many(statuses, _MAX_CLAIMS, path, problems)
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


CHECKS: dict[str, Check] = {
    "scheduling.k8s.io/workloads": _workload,
    "scheduling.k8s.io/podgroups": _pod_group,
}

COMPARISONS: dict[str, Comparison] = {
    "scheduling.k8s.io/workloads": fixed("spec.controllerRef", "spec.podGroupTemplates"),
    "scheduling.k8s.io/podgroups": fixed(
        "spec.podGroupTemplateRef",
        "spec.schedulingPolicy",
        "spec.schedulingConstraints",
        "spec.resourceClaims",
        "spec.disruptionMode",
        "spec.priorityClassName",
        "spec.priority",
    ),
}

STATUS: dict[str, Comparison] = {"scheduling.k8s.io/podgroups": _claim_statuses}
