"""Validation of Ingresses, their classes, network policies, addresses and ranges of services."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.validation.checks import (
    Check,
    Comparison,
    check_address,
    check_name,
    check_range,
    check_reference,
    check_set_name,
    each,
    fixed,
    require_name,
    too_long,
    value_at,
)
from kubesched.apiserver.validation.containers import check_port
from kubesched.apiserver.validation.naming import (
    domain_path_errors,
    host_errors,
    label_errors,
    path_segment_errors,
    port_name_errors,
    subdomain_errors,
)
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.selectors import check_label_selector
from kubesched.base.types import JSON

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_END_OF_PATHS = ("/..", "/.")
_SCOPES = ("Cluster", "Namespace")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_DIRECTIONS = {"ingress": "from", "egress": "to"}
_MAX_CONTROLLER = 250
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PORT_RANGE = "must be between 1 and 65535, inclusive"


# --- ingresses --------------------------------------------------------------------------------------------------------


def _ingress(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        problems.invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        _backend(spec["defaultBackend"], "spec.defaultBackend", problems)
    for rule, path in each(spec.get("rules"), "spec.rules"):
        _rule(rule, path, problems)
    for tls, path in each(spec.get("tls"), "spec.tls"):
        for host, where in each(tls.get("hosts"), f"{path}.hosts"):
            for error in host_errors(host):
                problems.invalid(where, host, error)
        check_name(tls.get("secretName"), subdomain_errors, f"{path}.secretName", problems)
    check_set_name(spec.get("ingressClassName"), subdomain_errors, "spec.ingressClassName", problems)


def _new_ingress(obj: JSON, problems: Problems) -> None:
    """The old annotation and the field may not name different classes."""
    _ingress(obj, problems)
    old = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    name = (obj.get("spec") or {}).get("ingressClassName")
    if None not in (old, name) and old != name:
        detail = "must match `ingressClassName` when both are specified"
        problems.invalid(f"annotations.{_CLASS_ANNOTATION}", old, detail)


def _rule(rule: JSON, path: str, problems: Problems) -> None:
    host, where = rule.get("host") or "", f"{path}.host"
    if host and check_address(host, where, Problems()):
        problems.invalid(where, host, "must be a DNS name, not an IP address")
    check_name(host, host_errors, where, problems)
    if (http := rule.get("http")) is None:
        return
    if not http.get("paths"):
        problems.required(f"{path}.http.paths")
    for part, here in each(http.get("paths"), f"{path}.http.paths"):
        _path(part, here, problems)


def _path(part: JSON, path: str, problems: Problems) -> None:
    kind, text = part.get("pathType"), part.get("path") or ""
    if kind is None:
        problems.required(f"{path}.pathType", "pathType must be specified")
        return
    exact = kind in ("Exact", "Prefix")
    if kind not in _PATH_TYPES:
        problems.unsupported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or exact):
        problems.invalid(f"{path}.path", text, "must be an absolute path")
    for sequence in _NOT_IN_PATHS if exact else ():
        if sequence in text:
            problems.invalid(f"{path}.path", text, f"must not contain '{sequence}'")
    for end in _NOT_AT_END_OF_PATHS if exact else ():
        if text.endswith(end):
            problems.invalid(f"{path}.path", text, f"cannot end with '{end}'")
    _backend(part.get("backend") or {}, f"{path}.backend", problems)


def _backend(backend: JSON, path: str, problems: Problems) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        problems.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        check_reference(resource, "apiGroup", f"{path}.resource", problems)
    elif service is not None:
        _service_backend(service, path, problems)
    else:
        problems.invalid(path, "", "resource or service backend is required")


def _service_backend(service: JSON, path: str, problems: Problems) -> None:
    require_name(service.get("name"), label_errors, f"{path}.service.name", problems)
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        problems.invalid(path, "", "cannot set both port name & port number")
    elif name:
        check_name(name, port_name_errors, f"{path}.service.port.name", problems)
    elif number:
        check_port(number, f"{path}.service.port.number", problems)
    else:
        problems.required(path, "port name or number is required")


def _ingress_status(_old: JSON, new: JSON, problems: Problems) -> None:
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    for point, path in each(balancer.get("ingress"), "status.loadBalancer.ingress"):
        if point.get("ip"):
            check_address(point["ip"], f"{path}.ip", problems)
        name = point.get("hostname") or ""
        check_name(name, subdomain_errors, f"{path}.hostname", problems)
        if name and check_address(name, path, Problems()):
            problems.invalid(f"{path}.hostname", name, "must be a DNS name, not an IP address")


def _ingress_class(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    controller, path = spec.get("controller") or "", "spec.controller"
    if len(controller) > _MAX_CONTROLLER:
        too_long(path, _MAX_CONTROLLER, problems)
    if not controller:
        problems.required(path)
    for part, error in domain_path_errors(controller) if controller else ():
        problems.invalid(path, part, error)
    if (parameters := spec.get("parameters")) is not None:
        _class_parameters(parameters, "spec.parameters", problems)


def _class_parameters(parameters: JSON, path: str, problems: Problems) -> None:
    scope, namespace, where = parameters.get("scope"), parameters.get("namespace"), f"{path}.namespace"
    check_reference(parameters, "apiGroup", path, problems)
    if scope is None:
        problems.required(f"{path}.scope")
    elif scope not in _SCOPES:
        problems.unsupported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Cluster" and namespace is not None:
        problems.forbidden(where, "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        problems.required(where, "`parameters.scope` is set to 'Namespace'")
    if scope == "Namespace":
        check_set_name(namespace, label_errors, where, problems)


# --- network policies -------------------------------------------------------------------------------------------------


def _network_policy(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    check_label_selector(spec.get("podSelector"), "spec.podSelector", problems)
    for direction, peers in _DIRECTIONS.items():
        for rule, path in each(spec.get(direction), f"spec.{direction}"):
            for port, where in each(rule.get("ports"), f"{path}.ports"):
                _policy_port(port, where, problems)
            for peer, where in each(rule.get(peers), f"{path}.{peers}"):
                _peer(peer, where, problems)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        problems.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
    for type_, path in each(types if len(types) <= 2 else (), "spec.policyTypes"):
        if type_ not in ("Ingress", "Egress"):
            problems.unsupported(path, type_, ("Ingress", "Egress"))


def _policy_port(port: JSON, path: str, problems: Problems) -> None:
    if port.get("protocol") is not None and port["protocol"] not in _PROTOCOLS:
        problems.unsupported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    number, end, where = port.get("port"), port.get("endPort"), f"{path}.endPort"
    if isinstance(number, str) and end is not None:
        problems.invalid(where, end, "may not be specified when `port` is non-numeric")
    if number is None and end is not None:
        problems.invalid(where, end, "may not be specified when `port` is not specified")
    if number is not None:
        check_port(number, f"{path}.port", problems)
    if isinstance(number, int) and end is not None:
        if end < number:
            problems.invalid(where, number, "must be greater than or equal to `port`")
        if not 0 < end < 65536:
            problems.invalid(where, end, _PORT_RANGE)


def _peer(peer: JSON, path: str, problems: Problems) -> None:
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    for field in given:
        if field != "ipBlock":
            check_label_selector(peer[field], f"{path}.{field}", problems)
        elif not peer[field].get("cidr"):
            problems.required(f"{path}.ipBlock.cidr")
        else:
            _block(peer[field], f"{path}.ipBlock", problems)
    if not given:
        problems.required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        problems.forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: JSON, path: str, problems: Problems) -> None:
    whole = check_range(block["cidr"], f"{path}.cidr", problems)
    for text, where in each(block.get("except") if whole else (), f"{path}.except"):
        part = check_range(text, where, problems)
        if whole is None or part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            problems.invalid(where, text, "must be a strict subset of `cidr`")


# --- addresses and ranges of services ---------------------------------------------------------------------------------


def address_name_errors(name: str) -> Iterator[str]:
    """The problems of the name of an IPAddress, which is the address."""
    problems = Problems()
    check_address(name, "", problems, canonical=True)
    return (found.message.split(": ", 2)[2] for found in problems.found)


def _address(obj: JSON, problems: Problems) -> None:
    parent, path = (obj.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if parent is None:
        problems.required(path)
        return
    check_name(parent.get("group"), subdomain_errors, f"{path}.group", problems)
    for field in ("resource", "name"):
        require_name(parent.get(field), path_segment_errors, f"{path}.{field}", problems)
    check_name(parent.get("namespace"), path_segment_errors, f"{path}.namespace", problems)


def _compare_addresses(old: JSON, new: JSON, problems: Problems) -> None:
    before, after = value_at(old, "spec.parentRef"), value_at(new, "spec.parentRef")
    if before != after:
        fields = ("group", "resource", "namespace", "name")
        shown = {field.capitalize(): (after or {}).get(field) or "" for field in fields}
        problems.invalid("spec.parentRef", shown, IMMUTABLE)


def _service_range(obj: JSON, problems: Problems) -> None:
    path, texts = "spec.cidrs", (obj.get("spec") or {}).get("cidrs") or []
    if not texts:
        problems.required(path, "at least one CIDR required")
        return
    if len(texts) > 2:
        problems.invalid(path, {"CIDRs": texts}, "may only hold up to 2 values")
        return
    ranges = [check_range(text, where, problems, canonical=True) for text, where in each(texts, path)]
    versions = [found.version for found in ranges if found]
    if len(versions) == 2 and versions[0] == versions[1]:
        example = "i.e 192.168.0.0/24 and 2001:db8::/64"
        problems.invalid(path, texts, f"may specify no more than one IP for each IP family, {example}")


def _compare_service_ranges(old: JSON, new: JSON, problems: Problems) -> None:
    """A second range may be added; nothing else may change."""
    before, after = (((each.get("spec") or {}).get("cidrs") or []) for each in (old, new))
    if len(after) != len(before) and (len(before), len(after)) != (1, 2):
        problems.invalid("spec.cidrs", after, IMMUTABLE)
        return
    for index, (was, now) in enumerate(zip(before, after, strict=False)):
        if was != now:
            problems.invalid(f"spec.cidrs[{index}]", now, IMMUTABLE)


CHECKS: dict[str, Check] = {
    "networking.k8s.io/ingresses": _ingress,
    "networking.k8s.io/ingressclasses": _ingress_class,
    "networking.k8s.io/networkpolicies": _network_policy,
    "networking.k8s.io/ipaddresses": _address,
    "networking.k8s.io/servicecidrs": _service_range,
}
NEW: dict[str, Check] = {"networking.k8s.io/ingresses": _new_ingress}
COMPARISONS: dict[str, Comparison] = {
    "networking.k8s.io/ingressclasses": fixed("spec.controller"),
    "networking.k8s.io/ipaddresses": _compare_addresses,
    "networking.k8s.io/servicecidrs": _compare_service_ranges,
}
STATUS: dict[str, Comparison] = {"networking.k8s.io/ingresses": _ingress_status}
