"""Validation of updates to pods: of the pod itself, its status, its ephemeral containers, and of a resize."""

from __future__ import annotations

import copy
from typing import Any

from kubesched.api.names import label_key_errors
from kubesched.apiserver.qos import qos_class
from kubesched.apiserver.validation.checks import Comparison, each
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def compare_pods(old: JSON, new: JSON, problems: Problems) -> None:
    """A pod's spec is immutable except images, deadlines, added tolerations and, while gated, node selection."""
    before, after = old["spec"], new["spec"]
    if before == after:
        return
    gates_before = _gates(before)
    for index, gate in enumerate(after.get("schedulingGates") or []):
        if gate.get("name", "") not in gates_before:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            problems.forbidden(f"spec.schedulingGates[{index}].name", detail)
    _compare_deadlines(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"), problems)
    kept = [t for t in before.get("tolerations") or [] if t not in (after.get("tolerations") or [])]
    if kept:
        problems.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if gates_before:
        _compare_node_selection(before, after, problems)
    if _fixed_part(before, bool(gates_before)) != _fixed_part(after, bool(gates_before)):
        problems.forbidden("spec", _CHANGEABLE)


def _compare_deadlines(before: int | None, after: int | None, problems: Problems) -> None:
    """A deadline may only be shortened."""
    if before is not None and after is None:
        problems.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif before is not None and after is not None and after > before:
        problems.invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")


def _compare_node_selection(before: JSON, after: JSON, problems: Problems) -> None:
    """The node selector of a pod with scheduling gates may only become narrower."""
    wanted = after.get("nodeSelector")
    if any((wanted or {}).get(key) != value for key, value in (before.get("nodeSelector") or {}).items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        problems.invalid("spec.nodeSelector", wanted, detail)


def _gates(spec: JSON) -> set[str]:
    return {gate.get("name", "") for gate in spec.get("schedulingGates") or []}


def _fixed_part(spec: JSON, gated: bool) -> JSON:
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if gated:
        free |= {"nodeSelector", "affinity"}
    fixed: JSON = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [_without_image(container) for container in fixed[kind]]
    return fixed


def _without_image(container: Any) -> Any:
    copied = copy.copy(container)
    copied.pop("image", None)
    return copied


# --- ephemeral containers ---------------------------------------------------------------------------------------------

_MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a static pod's mirror."""
_WHOLE = "[]"
"""How upstream's messages name the whole object."""


def _is_static(pod: JSON) -> bool:
    return _MIRROR in (pod["metadata"].get("annotations") or {})


def compare_ephemeral(old: JSON, new: JSON, problems: Problems) -> None:
    """Ephemeral containers may only be added."""
    if _is_static(old):
        problems.found = []
        problems.forbidden(_WHOLE, "static pods do not support ephemeral containers")
        return
    wanted = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or []}
    for container in old["spec"].get("ephemeralContainers") or []:
        what = f'existing ephemeral containers "{container["name"]}" may not be'
        if container["name"] not in wanted:
            problems.forbidden("spec.ephemeralContainers", f"{what} removed\n")
        elif wanted[container["name"]] != container:
            problems.forbidden("spec.ephemeralContainers", f"{what} changed")


# --- resizes ----------------------------------------------------------------------------------------------------------

_RESIZABLE = ("cpu", "memory")


def compare_resized(old: JSON, new: JSON, problems: Problems) -> None:
    """A resize may change processors and memory of containers, but not the quality-of-service class."""
    why = "static pods" if _is_static(old) else "windows pods" if _is_windows(old) else ""
    if why:
        problems.found = []
        problems.forbidden(_WHOLE, f"{why} cannot be resized")
        return
    before = qos_class(old["spec"])
    if before != qos_class(new["spec"]):
        problems.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")
    _compare_pod_amounts(old["spec"].get("resources"), new["spec"].get("resources"), problems)
    if _compare_names(old["spec"], new["spec"], problems):
        for kind in ("initContainers", "containers"):
            for was, (now, path) in zip(
                old["spec"].get(kind) or [], each(new["spec"].get(kind), f"spec.{kind}"), strict=True
            ):
                _compare_amounts(was, now, kind, path, problems)


def _compare_pod_amounts(old: JSON | None, new: JSON | None, problems: Problems) -> None:
    """Compare the resources of pods as wholes."""
    if old is not None and new is None:
        problems.forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    was, now = old or {}, new or {}
    for field in ("requests", "limits"):
        if set(was.get(field) or ()) - set(now.get(field) or ()):
            problems.forbidden(f"spec.resources.{field}", f"pod-level resource {field} cannot be removed")
    if _fixed_amounts(was) != _fixed_amounts(now):
        problems.forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _is_windows(pod: JSON) -> bool:
    return (pod["spec"].get("os") or {}).get("name") == "windows"


def _compare_names(old: JSON, new: JSON, problems: Problems) -> bool:
    """Whether both have the same containers."""
    before = len(problems.found)
    for kind in ("containers", "initContainers"):
        was, now = ([each_.get("name") for each_ in spec.get(kind) or []] for spec in (old, new))
        if len(was) != len(now):
            problems.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for index, (name, other) in enumerate(zip(was, now, strict=True)):
            if name != other:
                problems.forbidden(f"spec.{kind}[{index}].name", f"{kind} may not be renamed or reordered on resize")
    return len(problems.found) == before


def _compare_amounts(old: JSON, new: JSON, kind: str, path: str, problems: Problems) -> None:
    was, now = old.get("resources") or {}, new.get("resources") or {}
    for field in ("requests", "limits"):
        if set(was.get(field) or ()) - set(now.get(field) or ()):
            problems.forbidden(f"{path}.resources.{field}", f"resource {field} cannot be removed")
    if {**old, "resources": _fixed_amounts(was)} != {**new, "resources": _fixed_amounts(now)}:
        if kind == "containers":
            problems.forbidden("spec", "only cpu and memory resources are mutable")
        else:
            problems.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
    restarts = any(policy.get("restartPolicy") == "RestartContainer" for policy in new.get("resizePolicy") or [])
    if kind == "initContainers" and old.get("restartPolicy") != "Always" and old != new and restarts:
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        problems.forbidden(path, detail)


def _fixed_amounts(resources: JSON) -> JSON:
    return {
        field: {name: amount for name, amount in (resources.get(field) or {}).items() if name not in _RESIZABLE}
        for field in ("requests", "limits")
    }


# --- status -----------------------------------------------------------------------------------------------------------


def _check_status(_old: JSON, new: JSON, problems: Problems) -> None:
    for index, condition in enumerate((new.get("status") or {}).get("conditions") or []):
        path = f"status.conditions[{index}]"
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            problems.invalid(f"{path}.observedGeneration", generation, "must be a non-negative integer")
        for error in label_key_errors(condition.get("type") or ""):
            problems.invalid(f"{path}.Type", condition.get("type") or "", error)


STATUS: dict[str, Comparison] = {"/pods": _check_status}
COMPARISONS: dict[str, Comparison] = {"/pods": compare_pods}
PARTS: dict[str, Comparison] = {"ephemeralcontainers": compare_ephemeral, "resize": compare_resized}
