"""Validation of Endpoints and EndpointSlices."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.validation.checks import (
    Check,
    Comparison,
    NameErrors,
    check_address,
    check_choice,
    check_endpoint_address,
    check_name,
    check_set_name,
    each,
    fixed,
    too_many,
)
from kubesched.apiserver.validation.containers import check_port
from kubesched.apiserver.validation.naming import label_errors, qualified_host_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_labels
from kubesched.base.types import JSON

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS, _MOST_TOPOLOGY = 1000, 100, 20000, 8, 16


def _endpoints(obj: JSON, problems: Problems) -> None:
    for subset, path in each(obj.get("subsets"), "subsets"):
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            problems.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for address, where in each(subset.get(field), f"{path}.{field}"):
                _address(address, where, problems)
        ports = subset.get("ports") or []
        for port, where in each(ports, f"{path}.ports"):
            if len(ports) > 1 and not port.get("name"):
                problems.required(f"{where}.name")
            check_name(port.get("name"), label_errors, f"{where}.name", problems)
            check_port(port.get("port"), f"{where}.port", problems)
            check_choice(port.get("protocol"), _PROTOCOLS, f"{where}.protocol", problems)
            _application_protocol(port, where, problems)


def _address(address: JSON, path: str, problems: Problems) -> None:
    text = address.get("ip") or ""
    check_address(text, f"{path}.ip", problems)
    check_name(address.get("hostname"), label_errors, f"{path}.hostname", problems)
    check_set_name(address.get("nodeName"), subdomain_errors, f"{path}.nodeName", problems)
    check_endpoint_address(text, f"{path}.ip", problems)


def _application_protocol(port: JSON, path: str, problems: Problems) -> None:
    check_set_name(port.get("appProtocol"), label_key_errors, f"{path}.appProtocol", problems)


def _slice(obj: JSON, problems: Problems) -> None:
    check_choice(obj.get("addressType"), _ADDRESS_TYPES, "addressType", problems)
    _slice_ports(obj.get("ports") or [], problems)
    endpoints = obj.get("endpoints") or []
    if not too_many(endpoints, _MOST_ENDPOINTS, "endpoints", problems):
        for endpoint, path in each(endpoints, "endpoints"):
            _endpoint(endpoint, obj.get("addressType") or "", path, problems)


def _slice_ports(ports: list[JSON], problems: Problems) -> None:
    if too_many(ports, _MOST_PORTS, "ports", problems):
        return
    names: set[str] = set()
    for port, path in each(ports, "ports"):
        name = port.get("name") or ""
        check_name(name, label_errors, f"{path}.name", problems)
        if name in names:
            problems.duplicate(f"{path}.name", name)
        names.add(name)
        if port.get("protocol") is None:
            problems.required(f"{path}.protocol")
        elif port["protocol"] not in _PROTOCOLS:
            problems.unsupported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
        _application_protocol(port, path, problems)


def _endpoint(endpoint: JSON, type_: str, path: str, problems: Problems) -> None:
    if not endpoint.get("addresses"):
        problems.required(f"{path}.addresses", "must contain at least 1 address")
    too_many(endpoint.get("addresses") or [], _MOST_ADDRESSES, f"{path}.addresses", problems)
    for text, where in each(endpoint.get("addresses"), f"{path}.addresses"):
        if type_ == "FQDN":
            _domain(text, where, problems)
        elif type_ in ("IPv4", "IPv6") and check_address(text, where, problems, canonical=type_ == "IPv6"):
            if f"IPv{ip_address(text).version}" != type_:
                problems.invalid(f"{path}.addresses", text, f"must be an {type_} address")
            check_endpoint_address(text, where, problems)
    named: tuple[tuple[str, NameErrors], ...] = (("nodeName", subdomain_errors), ("hostname", label_errors))
    for field, errors in named:
        check_set_name(endpoint.get(field), errors, f"{path}.{field}", problems)
        topology = endpoint.get("deprecatedTopology") or {}
        if field == "nodeName" and topology:
            too_many(list(topology), _MOST_TOPOLOGY, f"{path}.deprecatedTopology", problems)
            check_labels(topology, f"{path}.deprecatedTopology", problems)
    if endpoint.get("hints") is not None:
        _hints(endpoint["hints"], f"{path}.hints", problems)


def _domain(text: str, path: str, problems: Problems) -> None:
    if not text:
        problems.required(path)
        return
    plain = text.removesuffix(".")
    for error in qualified_host_errors(plain, 2):
        problems.invalid(path, plain, error)
        return
    for label in plain.split("."):
        if errors := ",".join(label_errors(label)):
            problems.invalid(path, label, errors)
            return


def _hints(hints: JSON, path: str, problems: Problems) -> None:
    kinds: dict[str, Any] = {"forZones": label_value_errors, "forNodes": subdomain_errors}
    for field, errors in kinds.items():
        items, names = hints.get(field) or [], set()
        if too_many(items, _MOST_HINTS, f"{path}.{field}", problems):
            return
        for item, where in each(items, f"{path}.{field}"):
            name = item.get("name") or ""
            if name in names:
                problems.duplicate(f"{where}.name", name)
            names.add(name)
            for error in errors(name):
                problems.invalid(f"{where}.name", name, error)


def _compare_endpoints(old: JSON, new: JSON, problems: Problems) -> None:
    """What has not changed may be wrong: rules were laxer once."""
    for field in ("subsets", "endpoints"):
        if old.get(field) == new.get(field):
            problems.found = [problem for problem in problems.found if not problem.field.startswith(field)]


def _compare_slices(old: JSON, new: JSON, problems: Problems) -> None:
    _compare_endpoints(old, new, problems)
    fixed("addressType")(old, new, problems)


CHECKS: dict[str, Check] = {"/endpoints": _endpoints, "discovery.k8s.io/endpointslices": _slice}
COMPARISONS: dict[str, Comparison] = {
    "/endpoints": _compare_endpoints,
    "discovery.k8s.io/endpointslices": _compare_slices,
}
