"""Which pods a quota with scopes counts. Other kinds have no scopes."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.qos import qos_class
from kubesched.apiserver.quota.usage import CLAIMS, PODS
from kubesched.base.types import JSON


def in_scope(spec: JSON, storage: str, obj: JSON) -> bool:
    """Whether a quota counts an object."""
    selectors = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or []]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not selectors:
        return True
    if storage == CLAIMS:
        name = (obj.get("spec") or {}).get("volumeAttributesClassName") or ""
        return all(s["scopeName"] == "VolumeAttributesClass" and _selects(s, name) for s in selectors)
    return storage == PODS and all(_matches(selector, obj["spec"]) for selector in selectors)


def _matches(selector: JSON, spec: JSON) -> bool:
    scope = selector["scopeName"]
    if scope in ("Terminating", "NotTerminating"):
        return bool((spec.get("activeDeadlineSeconds") is not None) == (scope == "Terminating"))
    if scope in ("BestEffort", "NotBestEffort"):
        return bool((qos_class(spec) == "BestEffort") == (scope == "BestEffort"))
    if scope == "PriorityClass":
        return _selects(selector, spec.get("priorityClassName") or "")
    if scope == "CrossNamespacePodAffinity":
        return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec))
    return False


def _selects(selector: JSON, value: str) -> bool:
    operator, values = selector.get("operator"), selector.get("values") or []
    if operator == "Exists":
        return bool(value)
    if operator == "DoesNotExist":
        return not value
    if operator == "In":
        return value in values
    return value not in values


def _terms(spec: JSON) -> Iterator[JSON]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield weighted.get("podAffinityTerm") or {}
