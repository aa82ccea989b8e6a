"""Validation of HorizontalPodAutoscalers."""

from __future__ import annotations

from kubesched.api.quantity import canonical, nanos
from kubesched.apiserver.kinds.autoscalers import V1, autoscaler_to_v2
from kubesched.apiserver.validation.checks import Check, Comparison, check_amount, each, require_name
from kubesched.apiserver.validation.containers import check_resource_name, non_negative
from kubesched.apiserver.validation.naming import label_errors, path_segment_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""Types of metrics and the fields that describe them, in upstream's order."""
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800
_NOT_TO_ZERO = "must specify at least one Object or External metric to support scaling to zero replicas"
_RAW_OR_UTILIZATION = "a target raw value {} a target utilization"


def _autoscaler(obj: JSON, problems: Problems) -> None:
    if obj.get("apiVersion") == V1:
        obj = autoscaler_to_v2(obj)
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        problems.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if not most:
        problems.required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        problems.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        problems.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    _target(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", problems)
    for metric, path in each(spec.get("metrics"), "spec.metrics"):
        _metric(metric, path, problems)
    measures_work = any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or [])
    if least == 0 and not measures_work:
        problems.forbidden("spec.metrics", _NOT_TO_ZERO)
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            _rules(behavior[direction], f"spec.behavior.{direction}", problems)


def _target(reference: JSON, path: str, problems: Problems) -> None:
    for field in ("kind", "name"):
        require_name(reference.get(field), path_segment_errors, f"{path}.{field}", problems)
    version = reference.get("apiVersion") or ""
    core_allowed = reference.get("kind") == "ReplicationController" or path.endswith(".describedObject")
    if version.count("/") > 1:
        problems.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version and not core_allowed:
        problems.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


# --- metrics ----------------------------------------------------------------------------------------------------------


def _metric(metric: JSON, path: str, problems: Problems) -> None:
    kind = metric.get("type") or ""
    if not kind:
        problems.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        problems.unsupported(f"{path}.type", kind, sorted(_SOURCES))
    given = [field for field in _SOURCES.values() if metric.get(field) is not None]
    for field in given[:1]:
        _source(field, metric[field], f"{path}.{field}", problems)
    expected = _SOURCES.get(kind)
    if expected is None:
        problems.unsupported(f"{path}.type", kind, sorted(_SOURCES))
    elif expected not in given:
        problems.required(f"{path}.{expected}", "must populate information for the given metric source")
    for field in given if len(given) > 1 else ():
        if field != expected:
            problems.forbidden(f"{path}.{field}", "must populate the given metric source only")


def _source(field: str, source: JSON, path: str, problems: Problems) -> None:
    """Check what is measured, and the target in the terms that this kind of metric has."""
    if field == "object":
        _target(source.get("describedObject") or {}, f"{path}.describedObject", problems)
    if field in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name")
        require_name(name, path_segment_errors, f"{path}.metric.name", problems, "must specify a metric name")
    else:
        _measured(field, source, path, problems)
    target, where = source.get("target") or {}, f"{path}.target"
    _check_target(target, where, problems)
    value, average = target.get("value") is not None, target.get("averageValue") is not None
    if field == "object" and not value and not average:
        problems.required(f"{where}.averageValue", "must set either a target value or averageValue")
    elif field == "external" and not value and not average:
        detail = "must set either a target value for metric or a per-pod target"
        problems.required(f"{where}.averageValue", detail)
    elif field == "external" and value and average:
        problems.forbidden(f"{where}.value", "may not set both a target value for metric and a per-pod target")
    elif field == "pods" and not average:
        problems.required(f"{where}.averageValue", "must specify a positive target averageValue")
    elif field in ("resource", "containerResource"):
        _either(target.get("averageUtilization") is not None, average, where, problems)


def _either(utilization: bool, average: bool, path: str, problems: Problems) -> None:
    if not utilization and not average:
        problems.required(f"{path}.averageUtilization", f"must set either {_RAW_OR_UTILIZATION.format('or')}")
    elif utilization and average:
        problems.forbidden(f"{path}.averageValue", f"may not set both {_RAW_OR_UTILIZATION.format('and')}")


def _measured(field: str, source: JSON, path: str, problems: Problems) -> None:
    """Check the resource, and the container that uses it."""
    if not source.get("name"):
        problems.required(f"{path}.name", "must specify a resource name")
    elif field == "containerResource":
        check_resource_name(source["name"], f"{path}.name", problems)
    if field == "containerResource":
        require_name(source.get("container"), label_errors, f"{path}.container", problems, "must specify a container")


def _check_target(target: JSON, path: str, problems: Problems) -> None:
    kind = target.get("type") or ""
    if not kind:
        problems.required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        problems.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and nanos(target[field]) <= 0:
            problems.invalid(f"{path}.{field}", canonical(target[field]), "must be positive")
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        problems.invalid(f"{path}.averageUtilization", percent, "must be greater than 0")


# --- behavior ---------------------------------------------------------------------------------------------------------


def _rules(rules: JSON, path: str, problems: Problems) -> None:
    window = rules.get("stabilizationWindowSeconds")
    where = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        problems.invalid(where, window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        problems.invalid(where, window, f"must be less than or equal to {_LONGEST_WINDOW}")
    if rules.get("selectPolicy") is not None and rules["selectPolicy"] not in _SELECT_POLICIES:
        problems.unsupported(f"{path}.selectPolicy", rules["selectPolicy"], _SELECT_POLICIES)
    if not rules.get("policies"):
        problems.required(f"{path}.policies", "must specify at least one Policy")
    for policy, here in each(rules.get("policies"), f"{path}.policies"):
        _policy(policy, here, problems)
    check_amount(rules.get("tolerance"), f"{path}.tolerance", problems)


def _policy(policy: JSON, path: str, problems: Problems) -> None:
    if policy.get("type") not in _POLICY_TYPES:
        problems.unsupported(f"{path}.type", policy.get("type") or "", _POLICY_TYPES)
    for field in ("value", "periodSeconds"):
        number = policy.get(field) or 0
        if number <= 0:
            problems.invalid(f"{path}.{field}", number, "must be greater than zero")
    if (policy.get("periodSeconds") or 0) > _LONGEST_PERIOD:
        detail = f"must be less than or equal to {_LONGEST_PERIOD}"
        problems.invalid(f"{path}.periodSeconds", policy["periodSeconds"], detail)


def _status(_old: JSON, new: JSON, problems: Problems) -> None:
    for field in ("currentReplicas", "desiredReplicas"):
        non_negative(new.get("status") or {}, field, "status", problems)


CHECKS: dict[str, Check] = {"autoscaling/horizontalpodautoscalers": _autoscaler}
STATUS: dict[str, Comparison] = {"autoscaling/horizontalpodautoscalers": _status}
