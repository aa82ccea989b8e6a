"""Validation of LimitRanges and ResourceQuotas."""

from __future__ import annotations

from typing import Any

from kubesched.api.names import label_key_errors
from kubesched.api.quantity import canonical, nanos
from kubesched.apiserver.validation.checks import Check, Comparison, check_amount, each
from kubesched.apiserver.validation.containers import HUGE_PAGES, STANDARD, check_resource_name, is_extended
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.base.types import JSON

_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_QUOTA = STANDARD - {"storage"}
_COUNTED = frozenset(
    """pods services replicationcontrollers resourcequotas secrets persistentvolumeclaims configmaps
    services.nodeports services.loadbalancers""".split()  # noqa: SIM905
)
_OF_PODS = frozenset(
    """pods cpu memory ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage limits.cpu
    limits.memory limits.ephemeral-storage""".split()  # noqa: SIM905
)
_BY_PRIORITY = "PriorityClass"
_BY_ATTRIBUTES_CLASS = "VolumeAttributesClass"
_SCOPES = (
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    _BY_PRIORITY,
    "CrossNamespacePodAffinity",
    _BY_ATTRIBUTES_CLASS,
)
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
    " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


# --- limit ranges -----------------------------------------------------------------------------------------------------


def _limit_range(obj: JSON, problems: Problems) -> None:
    types: set[str] = set()
    for limit, path in each((obj.get("spec") or {}).get("limits"), "spec.limits"):
        type_ = limit.get("type") or ""
        errors = label_key_errors(type_)
        for error in errors:
            problems.invalid(f"{path}.type", type_, error)
        if not errors and "/" not in type_ and type_ not in _LIMIT_TYPES:
            problems.invalid(f"{path}.type", type_, "must be a standard limit type or fully qualified")
        if type_ in types:
            problems.duplicate(f"{path}.type", type_)
        types.add(type_)
        _limit(limit, type_, path, problems)


def _limit(limit: JSON, type_: str, path: str, problems: Problems) -> None:
    for field in _AMOUNTS:
        if field == "maxLimitRequestRatio" and type_ == "PersistentVolumeClaim":
            _check_storage(limit, path, problems)
        if field in ("default", "defaultRequest") and type_ == "Pod":
            if limit.get(field):
                problems.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name in limit.get(field) or {}:
            where = f"{path}.{field}[{name}]"
            if type_ in ("Pod", "Container"):
                check_resource_name(name, where, problems)
            else:
                _resource_name(name, where, problems)
    fields = [field for field in _AMOUNTS if type_ != "Pod" or not field.startswith("default")]
    for name in dict.fromkeys(name for field in fields for name in limit.get(field) or {}):
        _order(limit, name, fields, path, problems)


def _check_storage(limit: JSON, path: str, problems: Problems) -> None:
    if not any("storage" in (limit.get(field) or {}) for field in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        problems.required(f"{path}.limits", detail)


def _order(limit: JSON, name: str, fields: list[str], path: str, problems: Problems) -> None:
    """The least is below the default, and the default below the most."""
    words = {field: canonical((limit.get(field) or {})[name]) for field in fields if name in (limit.get(field) or {})}
    amounts = {field: nanos(word) for field, word in words.items()}
    for low, high, at, shown, text in _ORDER:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            problems.invalid(f"{path}.{at}[{name}]", words[shown], text.format(words[low], words[high]))
    ratio, where = amounts.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None and ratio < 10**9:
        word = words["maxLimitRequestRatio"]
        problems.invalid(where, word, f"ratio {word} is less than 1")
    if ratio is not None and amounts.get("min") and "max" in amounts:
        most = amounts["max"] / amounts["min"]
        if ratio / 10**9 > most:
            word = words["maxLimitRequestRatio"]
            problems.invalid(where, word, f"ratio {word} is greater than max/min = {most:f}")
    fixed = is_extended(name) or name.startswith(HUGE_PAGES)
    default, request = words.get("default"), words.get("defaultRequest")
    if fixed and None not in (default, request) and amounts["default"] != amounts["defaultRequest"]:
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        problems.invalid(f"{path}.defaultRequest[{name}]", request, detail)


_REQUEST = "defaultRequest"
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", _REQUEST, _REQUEST, _REQUEST, "min value {} is greater than default request value {}"),
    (_REQUEST, "max", _REQUEST, _REQUEST, "default request value {} is greater than max value {}"),
    (_REQUEST, "default", _REQUEST, _REQUEST, "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""The smaller and the larger field, the field that is blamed, the value that is shown, and the words."""


def _resource_name(name: str, path: str, problems: Problems) -> bool:
    errors = label_key_errors(name)
    for error in errors:
        problems.invalid(path, name, error)
    if not errors and "/" not in name and name not in STANDARD and not name.startswith(_HUGE_PREFIXES):
        problems.invalid(path, name, "must be a standard resource type or fully qualified")
    return not errors


_HUGE_PREFIXES = (HUGE_PAGES, f"requests.{HUGE_PAGES}")


# --- quotas -----------------------------------------------------------------------------------------------------------


def _quota(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _quota_amounts(spec.get("hard") or {}, "spec.hard", problems)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            problems.invalid("spec.scopes", scopes, "unsupported scope")
        for _ in range(_unfit(scope, spec)):
            problems.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    _conflicts(scopes, "spec.scopes", scopes, problems)
    if spec.get("scopeSelector") is not None:
        _scope_selector(spec, "spec.scopeSelector.matchExpressions", problems)


def _quota_amounts(amounts: JSON, path: str, problems: Problems) -> None:
    for name, amount in amounts.items():
        where = f"{path}[{name}]"
        _resource_name(name, where, problems)
        if "/" not in name and name not in _QUOTA and not name.startswith(_HUGE_PREFIXES):
            problems.invalid(where, name, "must be a standard resource for quota")
        before = len(problems.found)
        check_amount(amount, where, problems)
        counted = name in _COUNTED or is_extended(name)
        if counted and len(problems.found) == before and nanos(amount) % 10**9:
            problems.invalid(where, canonical(amount), "must be an integer")


def _unfit(scope: str, spec: JSON) -> int:
    """How many resources of a quota a scope does not apply to."""
    return sum(name in _QUOTA and not _fits(scope, name) for name in spec.get("hard") or {})


def _fits(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    if scope == _BY_ATTRIBUTES_CLASS:
        return name in ("persistentvolumeclaims", "requests.storage")
    return scope not in _SCOPES or name in _OF_PODS


def _conflicts(scopes: list[str], path: str, shown: Any, problems: Problems) -> None:
    for pair in _CONFLICTS:
        if pair <= set(scopes):
            problems.invalid(path, shown, "conflicting scopes")


def _scope_selector(spec: JSON, path: str, problems: Problems) -> None:
    selector = spec["scopeSelector"]
    terms = selector.get("matchExpressions") or []
    for term in terms:
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        if scope not in _SCOPES:
            problems.invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in range(_unfit(scope, spec)):
            problems.invalid(path, _internal(selector), "unsupported scope applied to resource")
        if scope in _SCOPES and scope not in (_BY_PRIORITY, _BY_ATTRIBUTES_CLASS) and operator != "Exists":
            problems.invalid(f"{path}.operator", operator, _EXISTS_ONLY)
        if operator in ("In", "NotIn") and not values:
            problems.required(
                f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            problems.invalid(f"{path}.values", values, detail)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            problems.invalid(f"{path}.operator", operator, "not a valid selector operator")
    _conflicts([term.get("scopeName") or "" for term in terms], path, spec.get("scopes"), problems)


def _internal(selector: JSON) -> JSON:
    """A scope selector in upstream's internal form, which messages show."""
    return {
        "MatchExpressions": [
            {
                "ScopeName": term.get("scopeName") or "",
                "Operator": term.get("operator") or "",
                "Values": term.get("values"),
            }
            for term in selector.get("matchExpressions") or []
        ]
    }


def _compare_quotas(old: JSON, new: JSON, problems: Problems) -> None:
    before, after = ((each_.get("spec") or {}).get("scopes") or [] for each_ in (old, new))
    if set(before) != set(after):
        problems.invalid("spec.scopes", (new.get("spec") or {}).get("scopes"), IMMUTABLE)


def _quota_status(_old: JSON, new: JSON, problems: Problems) -> None:
    for field in ("hard", "used"):
        _quota_amounts((new.get("status") or {}).get(field) or {}, f"status.{field}", problems)


CHECKS: dict[str, Check] = {"/limitranges": _limit_range, "/resourcequotas": _quota}
COMPARISONS: dict[str, Comparison] = {"/resourcequotas": _compare_quotas}
STATUS: dict[str, Comparison] = {"/resourcequotas": _quota_status}
