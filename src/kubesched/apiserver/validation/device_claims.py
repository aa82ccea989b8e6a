"""Rules for claims on devices, their templates, and device classes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kubesched.apiserver.validation.checks import too_long
from kubesched.apiserver.validation.device_names import (
    EFFECTS,
    check_binding_conditions,
    check_driver,
    check_fully_qualified,
    check_label,
    check_label_key,
    check_label_value,
    check_opaque,
    check_parameters,
    check_pool,
    limited,
    unique,
)
from kubesched.apiserver.validation.naming import subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.selectors import check_labels, check_node_selector
from kubesched.base.types import JSON
from kubesched.cel.devices import MAX_COST, MAX_LENGTH, DeviceSelectorError, compile_device_selector

_MAX_REQUESTS = _MAX_CONSTRAINTS = _MAX_CONFIG = _MAX_SELECTORS = _MAX_RESULTS = 32
_MAX_ALTERNATIVES, _MAX_TOLERATIONS = 8, 16
_MAX_RESERVED, _MAX_CONDITIONS = 256, 8
_MAX_INTERFACE, _MAX_HARDWARE_ADDRESS, _MAX_ADDRESSES = 256, 128, 16
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

Names = dict[str, set[str]]
"""The requests of a claim, each with its alternatives."""


def _claim(obj: JSON, problems: Problems) -> None:
    _check_spec(obj.get("spec") or {}, "spec", problems)


def _template(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    check_labels((spec.get("metadata") or {}).get("labels"), "spec.metadata.labels", problems)
    _check_spec(spec.get("spec") or {}, "spec.spec", problems)


def _device_class(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _check_selectors(spec, "spec", problems)
    for config, where in limited(spec.get("config"), _MAX_CONFIG, "spec.config", problems):
        check_opaque(config, where, problems)
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        problems.invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    native = not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    problems = Problems()
    check_label_key(f"requests.{name}", "", problems)
    return not native and not name.startswith("requests.") and not problems.found


# --- what is wanted ---------------------------------------------------------------------------------------------------


def _check_spec(spec: JSON, path: str, problems: Problems) -> None:
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    requests, names = devices.get("requests") or [], _names(spec)
    for request, where in limited(requests, _MAX_REQUESTS, f"{path}.requests", problems):
        _check_request(request, where, problems)
    unique(((each.get("name"), f"{path}.requests[{i}]") for i, each in enumerate(requests)), problems)
    for constraint, where in limited(devices.get("constraints"), _MAX_CONSTRAINTS, f"{path}.constraints", problems):
        _check_constraint(constraint, where, names, problems)
    for config, where in limited(devices.get("config"), _MAX_CONFIG, f"{path}.config", problems):
        _check_references(config, where, names, problems)
        check_opaque(config, where, problems)


def _names(spec: JSON) -> Names:
    requests = (spec.get("devices") or {}).get("requests") or []
    return {
        each.get("name") or "": {sub.get("name") or "" for sub in each.get("firstAvailable") or []} for each in requests
    }


def _check_request(request: JSON, path: str, problems: Problems) -> None:
    check_label(request.get("name"), f"{path}.name", problems)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        problems.invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")
    elif exactly is not None:
        _check_wanted(exactly, f"{path}.exactly", problems)
    elif alternatives:
        path = f"{path}.firstAvailable"
        for each, where in limited(alternatives, _MAX_ALTERNATIVES, path, problems):
            check_label(each.get("name"), f"{where}.name", problems)
            _check_wanted(each, where, problems)
        unique(((each.get("name"), f"{path}[{i}]") for i, each in enumerate(alternatives)), problems)
    else:
        problems.required(path, _ONE_KIND)


def _check_wanted(wanted: JSON, path: str, problems: Problems) -> None:
    name = wanted.get("deviceClassName")
    if not name:
        problems.required(f"{path}.deviceClassName")
    for error in subdomain_errors(name) if name else ():
        problems.invalid(f"{path}.deviceClassName", name, error)
    _check_selectors(wanted, path, problems)
    mode, count = wanted.get("allocationMode"), wanted.get("count") or 0
    if mode == "All" and count:
        problems.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        problems.invalid(f"{path}.count", count, "must be greater than zero")
    elif mode not in ("All", "ExactCount"):
        problems.unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    for each, where in limited(wanted.get("tolerations"), _MAX_TOLERATIONS, f"{path}.tolerations", problems):
        _check_toleration(each, where, problems)


def _check_selectors(part: JSON, path: str, problems: Problems) -> None:
    for selector, where in limited(part.get("selectors"), _MAX_SELECTORS, f"{path}.selectors", problems):
        if selector.get("cel") is None:
            problems.required(f"{where}.cel")
        else:
            _check_expression(selector["cel"].get("expression") or "", f"{where}.cel.expression", problems)


def _check_expression(expression: str, path: str, problems: Problems) -> None:
    if len(expression.encode()) > MAX_LENGTH:
        too_long(path, MAX_LENGTH, problems)
        return
    try:
        compiled = compile_device_selector(expression, stored=False)
    except DeviceSelectorError as error:
        problems.invalid(path, expression, str(error))
        return
    if compiled.program.cost.max > MAX_COST:
        problems.forbidden(path, "too complex, exceeds cost limit")


def _check_toleration(toleration: JSON, path: str, problems: Problems) -> None:
    operator, value, effect = (toleration.get(part) or "" for part in ("operator", "value", "effect"))
    if toleration.get("key"):
        check_label_key(toleration["key"], f"{path}.key", problems)
    if not operator:
        problems.required(f"{path}.operator")
    elif operator == "Exists" and value:
        problems.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        check_label_value(value, f"{path}.value", problems)
    elif operator != "Exists":
        problems.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        problems.unsupported(f"{path}.effect", effect, EFFECTS)


def _check_constraint(constraint: JSON, path: str, names: Names, problems: Problems) -> None:
    _check_references(constraint, path, names, problems)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            check_fully_qualified(constraint[field], f"{path}.{field}", problems)
            return
    problems.required(path, _ONE_ATTRIBUTE)


def _check_references(part: JSON, path: str, names: Names, problems: Problems) -> None:
    listed = part.get("requests") or []
    for name, where in limited(listed, _MAX_REQUESTS, f"{path}.requests", problems):
        _check_reference(name, where, names, problems)
    unique(((name, f"{path}.requests[{i}]") for i, name in enumerate(listed)), problems)


def _check_reference(name: str | None, path: str, names: Names, problems: Problems) -> None:
    request, slash, sub = (name or "").partition("/")
    if "/" in sub:
        problems.invalid(path, name, _NO_REQUEST)
        return
    check_label(request, path, problems)
    if slash:
        check_label(sub, path, problems)
    if request not in names or (slash and sub not in names[request]):
        problems.invalid(path, name or "", _NO_REQUEST)


# --- what was allocated -----------------------------------------------------------------------------------------------


def check_status(old: JSON, new: JSON, problems: Problems) -> None:
    """Check an update of a claim's status: who uses it, what was allocated, and the state of the devices."""
    before, status = old.get("status") or {}, new.get("status") or {}
    reserved, allocation = status.get("reservedFor") or [], status.get("allocation")
    for user, where in limited(reserved, _MAX_RESERVED, "status.reservedFor", problems):
        for field in ("resource", "name", "uid"):
            if not user.get(field):
                problems.required(f"{where}.{field}")
    unique(((user.get("uid"), f"status.reservedFor[{i}]") for i, user in enumerate(reserved)), problems)
    _check_device_statuses(status, problems)
    if reserved and allocation is None:
        problems.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif "deletionTimestamp" in new["metadata"] and any(u not in (before.get("reservedFor") or []) for u in reserved):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        problems.forbidden("status.reservedFor", detail)
    if allocation is not None and before.get("allocation") is not None:
        if allocation != before["allocation"]:
            problems.invalid("status.allocation", allocation, IMMUTABLE)
    elif allocation is not None:
        _check_allocation(allocation, _names(new.get("spec") or {}), problems)


def _check_allocation(allocation: JSON, names: Names, problems: Problems) -> None:
    devices, path = allocation.get("devices") or {}, "status.allocation.devices"
    for result, where in limited(devices.get("results"), _MAX_RESULTS, f"{path}.results", problems):
        _check_reference(result.get("request"), f"{where}.request", names, problems)
        _check_id(result, where, problems)
        check_binding_conditions(result, where, problems)
    for config, where in limited(devices.get("config"), 2 * _MAX_CONFIG, f"{path}.config", problems):
        source = config.get("source")
        if not source:
            problems.required(f"{where}.source")
        elif source not in ("FromClaim", "FromClass"):
            problems.unsupported(f"{where}.source", source, ("FromClaim", "FromClass"))
        _check_references(config, where, names, problems)
        check_opaque(config, where, problems)
    if (selector := allocation.get("nodeSelector")) is not None:
        check_node_selector(selector, "status.allocation.nodeSelector", problems)


def _check_id(device: JSON, path: str, problems: Problems) -> None:
    check_driver(device.get("driver"), f"{path}.driver", problems)
    check_pool(device.get("pool"), f"{path}.pool", problems)
    check_label(device.get("device"), f"{path}.device", problems)
    share = device.get("shareID")
    if share is not None and not _UID.fullmatch(share):
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal"
            " characters"
        )
        problems.invalid(f"{path}.shareID", share, detail)


def _check_device_statuses(status: JSON, problems: Problems) -> None:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    allocated = {_id(result) for result in results}
    devices = status.get("devices") or []
    for index, device in enumerate(devices):
        path = f"status.devices[{index}]"
        _check_id(device, path, problems)
        if _id(device) not in allocated:
            problems.invalid(path, _id(device), "must be an allocated device in the claim")
        for condition, where in limited(device.get("conditions"), _MAX_CONDITIONS, f"{path}.conditions", problems):
            _check_condition(condition, where, problems)
        if device.get("data") is not None:
            check_parameters(device["data"], f"{path}.data", problems)
        _check_network(device.get("networkData") or {}, f"{path}.networkData", problems)
    unique(((_id(device), f"status.devices[{i}]") for i, device in enumerate(devices)), problems)


def _id(device: JSON) -> str:
    names = [str(device.get(part) or "") for part in ("driver", "pool", "device")]
    return "/".join([*names, device["shareID"]] if device.get("shareID") else names)


def _check_condition(condition: JSON, path: str, problems: Problems) -> None:
    check_label_key(condition.get("type"), f"{path}.type", problems)
    status = condition.get("status")
    if status not in ("True", "False", "Unknown"):
        problems.unsupported(f"{path}.status", status or "", ("False", "True", "Unknown"))
    for field in ("lastTransitionTime", "reason"):
        if not condition.get(field):
            problems.required(f"{path}.{field}", "must be set" if field == "lastTransitionTime" else "")


def _check_network(data: JSON, path: str, problems: Problems) -> None:
    for field, limit in (("interfaceName", _MAX_INTERFACE), ("hardwareAddress", _MAX_HARDWARE_ADDRESS)):
        if len((data.get(field) or "").encode()) > limit:
            too_long(f"{path}.{field}", limit, problems)
    addresses: list[Any] = data.get("ips") or []
    unique(limited(addresses, _MAX_ADDRESSES, f"{path}.ips", problems), problems)


def _same_spec(old: JSON, new: JSON, problems: Problems) -> None:
    if old.get("spec") != new.get("spec"):
        problems.invalid("spec", new.get("spec"), IMMUTABLE)


_CLAIMS, _TEMPLATES = "resource.k8s.io/resourceclaims", "resource.k8s.io/resourceclaimtemplates"

NEW: dict[str, Callable[[JSON, Problems], None]] = {_CLAIMS: _claim, _TEMPLATES: _template}
"""Checks of new objects only: later nothing but immutability matters."""

CHECKS: dict[str, Callable[[JSON, Problems], None]] = {"resource.k8s.io/deviceclasses": _device_class}

COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {_CLAIMS: _same_spec, _TEMPLATES: _same_spec}

STATUS: dict[str, Callable[[JSON, JSON, Problems], None]] = {_CLAIMS: check_status}
