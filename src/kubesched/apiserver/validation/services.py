"""Validation of Services."""

from __future__ import annotations

from kubesched.api.names import label_key_errors
from kubesched.apiserver.validation.checks import (
    Check,
    check_address,
    check_choice,
    check_endpoint_address,
    check_name,
    check_range,
    check_set_name,
    each,
    require_name,
)
from kubesched.apiserver.validation.containers import check_port, one_of
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_labels
from kubesched.base.types import JSON

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
_LONGEST_AFFINITY = 86400
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
_NO_HEALTH_CHECK = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"


def _service(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    type_, ports = spec.get("type"), spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and type_ != "ExternalName":
        problems.required("spec.ports")
    if type_ == "ExternalName":
        _external_name(spec, problems)
    names: set[str] = set()
    for port, path in each(ports, "spec.ports"):
        _port(port, len(ports) > 1, names, path, problems)
    check_labels(spec.get("selector"), "spec.selector", problems)
    _affinity(spec, problems)
    _families(spec, problems)
    for address, path in each(spec.get("externalIPs"), "spec.externalIPs"):
        if check_address(address, path, problems):
            check_endpoint_address(address, path, problems)
    check_choice(type_, _TYPES, "spec.type", problems)
    _compare_ports(ports, type_, problems)
    _balancer(spec, type_, problems)
    _traffic(spec, type_, problems)


def _external_name(spec: JSON, problems: Problems) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            problems.forbidden(f"spec.{field}", "may not be set for ExternalName services")
    require_name((spec.get("externalName") or "").removesuffix("."), subdomain_errors, "spec.externalName", problems)


def _port(port: JSON, several: bool, names: set[str], path: str, problems: Problems) -> None:
    name = port.get("name") or ""
    if several and not name:
        problems.required(f"{path}.name")
    check_name(name, label_errors, f"{path}.name", problems)
    if name and name in names:
        problems.duplicate(f"{path}.name", name)
    names.add(name)
    check_port(port.get("port") or 0, f"{path}.port", problems)
    check_choice(port.get("protocol"), _PROTOCOLS, f"{path}.protocol", problems)
    check_port(port.get("targetPort"), f"{path}.targetPort", problems)
    check_set_name(port.get("appProtocol"), label_key_errors, f"{path}.appProtocol", problems)


def _compare_ports(ports: list[JSON], type_: str | None, problems: Problems) -> None:
    """No two ports of a service, or of its nodes, are the same."""
    for port, path in each(ports if type_ == "ClusterIP" else (), "spec.ports"):
        if port.get("nodePort"):
            problems.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
    for field in ("nodePort", "port"):
        seen = set()
        for port, path in each(ports, "spec.ports"):
            identity = (port.get("protocol"), port.get(field) or 0)
            if identity in seen and field == "nodePort":
                problems.duplicate(f"{path}.nodePort", identity[1])
            elif identity in seen:
                problems.duplicate(path, _internal(*identity))
            if identity[1] or field == "port":
                seen.add(identity)


def _internal(protocol: str | None, number: int) -> JSON:
    """A port in upstream's internal form, which messages show."""
    names = {"Name": "", "Protocol": protocol, "AppProtocol": None}
    return {**names, "Port": number, "TargetPort": 0, "NodePort": 0}


def _affinity(spec: JSON, problems: Problems) -> None:
    affinity, path = spec.get("sessionAffinity"), "spec.sessionAffinityConfig"
    check_choice(affinity, ("ClientIP", "None"), "spec.sessionAffinity", problems)
    config = spec.get("sessionAffinityConfig")
    if affinity == "None" and config is not None:
        problems.forbidden(path, "must not be set when session affinity is None")
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if affinity == "ClientIP" and seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        detail = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        problems.invalid(f"{path}.clientIP.timeoutSeconds", seconds, detail)


def _families(spec: JSON, problems: Problems) -> None:
    one_of(spec, "ipFamilyPolicy", _FAMILY_POLICIES, "spec", problems)
    families = spec.get("ipFamilies") or []
    for index, (family, path) in enumerate(each(families, "spec.ipFamilies")):
        if family not in _FAMILIES:
            problems.unsupported(path, family, _FAMILIES)
        if family in families[:index]:
            problems.duplicate(path, family)


def _balancer(spec: JSON, type_: str | None, problems: Problems) -> None:
    ranges, path = spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges"
    if ranges and type_ != "LoadBalancer":
        problems.forbidden(path, _ONLY_BALANCED)
    for text, where in each(ranges, path):
        check_range(text.strip(), where, problems)
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(field) is not None and type_ != "LoadBalancer":
            problems.forbidden(f"spec.{field}", _ONLY_BALANCED)
        elif field == "loadBalancerClass":
            check_set_name(spec.get(field), label_key_errors, f"spec.{field}", problems)


def _traffic(spec: JSON, type_: str | None, problems: Problems) -> None:
    policy, port = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort") or 0
    outside = type_ in ("LoadBalancer", "NodePort") or (type_ == "ClusterIP" and bool(spec.get("externalIPs")))
    if policy and not outside:
        problems.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    elif policy and policy not in _POLICIES:
        problems.unsupported("spec.externalTrafficPolicy", policy, _POLICIES)
    if port and (type_ != "LoadBalancer" or policy != "Local"):
        problems.invalid("spec.healthCheckNodePort", port, _NO_HEALTH_CHECK)
    elif port:
        check_port(port, "spec.healthCheckNodePort", problems)
    one_of(spec, "internalTrafficPolicy", _POLICIES, "spec", problems)
    one_of(spec, "trafficDistribution", _DISTRIBUTIONS, "spec", problems)


CHECKS: dict[str, Check] = {"/services": _service}
