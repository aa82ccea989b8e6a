"""Rules for ResourceSlices, with their pools, devices, attributes, capacities and counters, and for taint rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kubesched.api.quantity import QuantityError, nanos, value
from kubesched.apiserver.validation.checks import too_long
from kubesched.apiserver.validation.device_names import (
    check_binding_conditions,
    check_driver,
    check_label,
    check_pool,
    check_qualified,
    check_taint,
    limited,
    unique,
)
from kubesched.apiserver.validation.naming import subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.selectors import check_node_selector
from kubesched.base.types import JSON

_MAX_DEVICES, _MAX_ADVANCED_DEVICES = 128, 64
_MAX_COUNTER_SETS, _MAX_COUNTERS, _MAX_CONSUMPTIONS = 8, 32, 2
_MAX_PROPERTIES, _MAX_VALUES, _MAX_TEXT, _MAX_TAINTS, _MAX_OPTIONS = 32, 48, 64, 16, 10
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_LISTS = ("bools", "ints", "strings", "versions")
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)


def _slice(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    check_driver(spec.get("driver"), "spec.driver", problems)
    _check_pool(spec.get("pool") or {}, problems)
    one_of = f"exactly one of {', '.join(f'`{place}`' for place in _PLACES)} is required"
    _check_place(spec, "spec", _PLACES, one_of, f"{one_of}, but multiple fields are set", problems)
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if spec.get("nodeSelector") is not None and len(terms) != 1:
        detail = "must have exactly one node selector term"
        problems.invalid("spec.nodeSelector.nodeSelectorTerms", terms, detail)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        problems.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _check_devices(spec, problems)
    counters = spec.get("sharedCounters") or []
    for each, where in limited(counters, _MAX_COUNTER_SETS, "spec.sharedCounters", problems):
        _check_counters(each, "name", where, problems)
    unique(((each.get("name"), f"spec.sharedCounters[{i}]") for i, each in enumerate(counters)), problems)


def _check_pool(pool: JSON, problems: Problems) -> None:
    check_pool(pool.get("name"), "spec.pool.name", problems)
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        problems.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if (generation := pool.get("generation") or 0) < 0:
        problems.invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _check_place(
    part: JSON, path: str, places: tuple[str, ...], none: str, several: str, problems: Problems, empty: str = ""
) -> None:
    """Check that a slice or device says in exactly one way on which nodes it is."""
    given = []
    for place in places:
        found = part.get(place)
        if found is None:
            continue
        if found is False:
            problems.invalid(f"{path}.{place}", False, "must be either unset or set to true")
        elif found == "" and place == "nodeName":
            detail = empty or "must be either unset or set to a non-empty string"
            problems.invalid(f"{path}.{place}", "", detail)
        else:
            given.append(f"`{place}`")
            _check_nodes(place, found, f"{path}.{place}", problems)
    if not given:
        problems.required(path, none)
    elif len(given) > 1:
        problems.invalid(path, f"{{{', '.join(given)}}}", several)


def _check_nodes(place: str, found: Any, path: str, problems: Problems) -> None:
    if place == "nodeName":
        for error in subdomain_errors(found):
            problems.invalid(path, found, error)
    elif place == "nodeSelector":
        check_node_selector(found, path, problems)


def _check_counters(part: JSON, name: str, path: str, problems: Problems) -> None:
    """Check a set of counters, or what a device consumes of one."""
    if not part.get(name):
        problems.required(f"{path}.{name}")
    else:
        check_label(part[name], f"{path}.{name}", problems)
    counters = part.get("counters") or {}
    if not counters:
        problems.required(f"{path}.counters")
    for key, _ in limited(list(counters), _MAX_COUNTERS, f"{path}.counters", problems):
        check_label(key, f"{path}.counters", problems)


# --- devices ----------------------------------------------------------------------------------------------------------


def _check_devices(spec: JSON, problems: Problems) -> None:
    devices = spec.get("devices") or []
    limit = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, devices)) else _MAX_DEVICES
    for device, where in limited(devices, limit, "spec.devices", problems):
        _check_device(device, where, problems)
        _check_device_place(device, where, bool(spec.get("perDeviceNodeSelection")), problems)
    unique(((each.get("name"), f"spec.devices[{i}]") for i, each in enumerate(devices)), problems)


def _is_advanced(device: JSON) -> bool:
    attributes = (device.get("attributes") or {}).values()
    has_lists = any(each.get(kind) is not None for each in attributes for kind in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters") or has_lists)


def _check_device(device: JSON, path: str, problems: Problems) -> None:
    check_label(device.get("name"), f"{path}.name", problems)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > _MAX_PROPERTIES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_PROPERTIES}"
        problems.invalid(path, count, detail)
    if (count := sum(map(_size, attributes.values()))) > _MAX_VALUES:
        problems.invalid(path, count, f"the total number of attribute values must not exceed {_MAX_VALUES}")
    for name, attribute in attributes.items():
        check_qualified(name, f"{path}.attributes", problems)
        _check_attribute(attribute, f"{path}.attributes[{name}]", problems)
    for name, amount in capacity.items():
        check_qualified(name, f"{path}.capacity", problems)
        _check_capacity(amount, bool(device.get("allowMultipleAllocations")), f"{path}.capacity[{name}]", problems)
    for taint, where in limited(device.get("taints"), _MAX_TAINTS, f"{path}.taints", problems):
        check_taint(taint, where, problems)
    consumed = device.get("consumesCounters") or []
    for each, where in limited(consumed, _MAX_CONSUMPTIONS, f"{path}.consumesCounters", problems):
        _check_counters(each, "counterSet", where, problems)
    unique(((each.get("counterSet"), f"{path}.consumesCounters[{i}]") for i, each in enumerate(consumed)), problems)
    check_binding_conditions(device, path, problems)


def _check_device_place(device: JSON, path: str, per_device: bool, problems: Problems) -> None:
    if per_device:
        one_of = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set"
            " to true in the ResourceSlice spec"
        )
        _check_place(device, path, _PLACES[:3], one_of, one_of, problems, "must not be empty")
    elif any(device.get(place) is not None for place in _PLACES[:3]):
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in"
            " the ResourceSlice spec"
        )
        problems.invalid(path, None, detail)


def _size(attribute: JSON) -> int:
    return sum(len(attribute.get(kind) or []) for kind in _LISTS) or 1


def _check_attribute(attribute: JSON, path: str, problems: Problems) -> None:
    given = [kind for kind in ("bool", "int", "string", "version", *_LISTS) if attribute.get(kind) is not None]
    for kind in given:
        found = attribute[kind]
        if kind in _LISTS and not found:
            problems.invalid(f"{path}.{kind}", found, "must not be empty if specified")
        texts = [(found, f"{path}.{kind}")]
        if kind in _LISTS:
            texts = [(each, f"{path}.{kind}[{i}]") for i, each in enumerate(found)]
        for text, where in texts:
            _check_text(text, kind.startswith("version"), where, problems)
    if len(given) != 1:
        problems.invalid(path, attribute if given else "", "exactly one value must be specified")


def _check_text(text: Any, is_version: bool, path: str, problems: Problems) -> None:
    if not isinstance(text, str):
        return
    if is_version and not _SEMVER.fullmatch(text):
        problems.invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    if len(text.encode()) > _MAX_TEXT:
        too_long(path, _MAX_TEXT, problems)


# --- capacities -------------------------------------------------------------------------------------------------------


def _check_capacity(capacity: JSON, shared: bool, path: str, problems: Problems) -> None:
    policy, path = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return
    if not shared:
        problems.forbidden(path, "allowMultipleAllocations must be true")
        return
    values, allowed = policy.get("validValues") or [], policy.get("validRange")
    if values and allowed is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        problems.forbidden(path, detail)
        return
    default, kind = policy.get("default"), "validValues" if values else "validRange"
    if (values or allowed is not None) and default is None:
        problems.required(f"{path}.default", f"required when {kind} is defined")
        return
    try:
        if values:
            _check_values(str(default), str(capacity.get("value")), list(map(str, values)), f"{path}.{kind}", problems)
        elif allowed is not None:
            texts = {name: str(amount) for name, amount in allowed.items() if amount is not None}
            _check_range(str(default), str(capacity.get("value")), texts, f"{path}.{kind}", problems)
    except QuantityError as error:
        problems.invalid(path, policy, str(error))


def _check_values(default: str, most: str, values: list[str], path: str, problems: Problems) -> None:
    for index in range(1, len(values)):
        if nanos(values[index - 1]) > nanos(values[index]):
            problems.invalid(f"{path}[{index}]", values[index], "values must be sorted in ascending order")
    for each, where in limited(values, _MAX_OPTIONS, path, problems):
        if nanos(each) > nanos(most):
            problems.invalid(where, each, f"option is larger than capacity value: {most}")
    unique(((str(value(each)), f"{path}[{i}]") for i, each in enumerate(values)), problems)
    if nanos(default) not in map(nanos, values):
        problems.invalid(path, default, "default value is not valid according to the requestPolicy")


def _check_range(default: str, most: str, allowed: dict[str, str], path: str, problems: Problems) -> None:
    least, highest, step = (allowed.get(name) for name in ("min", "max", "step"))
    if least is None:
        problems.required(f"{path}.min", "required when validRange is defined")
        return
    if nanos(least) > nanos(most):
        problems.invalid(f"{path}.min", least, f"min is larger than capacity value: {most}")
    if nanos(default) < nanos(least):
        problems.invalid(f"{path}.min", default, f"default is less than min: {least}")
    if highest is not None:
        if nanos(least) > nanos(highest):
            problems.invalid(f"{path}.max", least, f"min is larger than max: {highest}")
        if nanos(highest) > nanos(most):
            problems.invalid(f"{path}.max", highest, f"max is larger than capacity value: {most}")
        if nanos(default) > nanos(highest):
            problems.invalid(f"{path}.max", default, f"default is more than max: {highest}")
    if step is not None:
        for each in filter(None, (default, highest)):
            if value(step) == 0 or (value(each) - value(least)) % value(step):
                detail = f"value is not a multiple of a given step ({step}) from ({least})"
                problems.invalid(f"{path}.step", each, detail)


def _compare(old: JSON, new: JSON, problems: Problems) -> None:
    """The driver, the pool and the node of a slice never change."""
    before, after = old["spec"], new.get("spec") or {}
    named = {"pool.name": [(spec.get("pool") or {}).get("name") for spec in (before, after)]}
    named |= {field: [spec.get(field) for spec in (before, after)] for field in ("driver", "nodeName")}
    for field, (was, now) in named.items():
        if was != now:
            problems.invalid(f"spec.{field}", now, IMMUTABLE)


def _taint_rule(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    path, selector = "spec.deviceSelector", spec.get("deviceSelector") or {}
    for field, check in (("driver", check_driver), ("pool", check_pool), ("device", check_label)):
        if selector.get(field) is not None:
            check(selector[field], f"{path}.{field}", problems)
    check_taint(spec.get("taint") or {}, "spec.taint", problems)


_SLICES, _TAINT_RULES = "resource.k8s.io/resourceslices", "resource.k8s.io/devicetaintrules"

CHECKS: dict[str, Callable[[JSON, Problems], None]] = {_SLICES: _slice, _TAINT_RULES: _taint_rule}
COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {_SLICES: _compare}
