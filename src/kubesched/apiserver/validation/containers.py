"""Validation of containers: ports, variables, mounts, resources, probes and hooks."""

from __future__ import annotations

import re
from typing import Any

from kubesched.api.names import label_key_errors
from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.validation.naming import (
    ENVIRONMENT_RULE,
    config_key_errors,
    is_environment_name,
    label_errors,
    port_name_errors,
)
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_SCHEMES = ("HTTP", "HTTPS")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_STANDARD_RESOURCES = ("cpu", "ephemeral-storage", "memory")
_HUGE_PAGES = "hugepages-"
_FIELD_RESOURCES = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in _STANDARD_RESOURCES)
_FIELD_PATHS = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)(\['.+'\])?)|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIPs?|podIPs?)"
)
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_MAX_ID = 2**31 - 1
_WHOLE = 10**9

Seen = set[tuple[Any, ...]]


def one_of(part: JSON, field: str, supported: tuple[str, ...], path: str, problems: Problems) -> None:
    """Check that a field, if set, has one of a few values."""
    value = part.get(field)
    if value is not None and value not in supported:
        problems.unsupported(f"{path}.{field}" if path else field, value, supported)


def non_negative(part: JSON, field: str, path: str, problems: Problems) -> None:
    """Check that a number, if set, is not negative."""
    value = part.get(field)
    if isinstance(value, int) and value < 0:
        problems.invalid(f"{path}.{field}", value, "must be greater than or equal to 0")


def check_containers(spec: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    """Check all containers of a pod."""
    if not spec.get("containers"):
        problems.required(f"{path}.containers")
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        host_ports: Seen = set()
        for index, container in enumerate(spec.get(kind) or []):
            where = f"{path}.{kind}[{index}]"
            check_name(container, where, names, problems)
            _check_container(container, where, volumes, problems)
            lasts = kind == "containers" or container.get("restartPolicy") == "Always"
            _check_handlers(container, where, lasts, problems)
            _check_host_ports(container, where, host_ports, bool(spec.get("hostNetwork")), problems)


def check_name(part: JSON, path: str, names: set[str], problems: Problems) -> None:
    """Check the name of a container or volume, which must be unique."""
    name = part.get("name") or ""
    if not name:
        problems.required(f"{path}.name")
    for error in label_errors(name) if name else ():
        problems.invalid(f"{path}.name", name, error)
    if name in names:
        problems.duplicate(f"{path}.name", name)
    elif name:
        names.add(name)


def _check_container(container: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    image = container.get("image") or ""
    if not image:
        problems.required(f"{path}.image")
    elif image.strip() != image:
        problems.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    one_of(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path, problems)
    _check_ports(container, path, problems)
    _check_environment(container, path, problems)
    _check_mounts(container, path, volumes, problems)
    one_of(container, "imagePullPolicy", _PULL_POLICIES, path, problems)
    check_resources(container.get("resources") or {}, f"{path}.resources", problems)
    check_ids(container.get("securityContext") or {}, f"{path}.securityContext", problems)


def _check_mounts(container: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        where = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            problems.required(f"{where}.name")
        elif mount["name"] not in volumes:
            problems.not_found(f"{where}.name", mount["name"])
        place = mount.get("mountPath") or ""
        if not place:
            problems.required(f"{where}.mountPath")
        elif place in seen:
            problems.invalid(f"{where}.mountPath", place, "must be unique")
        seen.add(place)


def check_ids(context: JSON, path: str, problems: Problems) -> None:
    """Check numbers of users and groups."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(field)
        if isinstance(value, int) and not 0 <= value <= _MAX_ID:
            problems.invalid(f"{path}.{field}", value, f"must be between 0 and {_MAX_ID}, inclusive")


# --- ports ------------------------------------------------------------------------------------------------------------


def _check_ports(container: JSON, path: str, problems: Problems) -> None:
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or []):
        where = f"{path}.ports[{index}]"
        name = port.get("name") or ""
        errors = list(port_name_errors(name)) if name else []
        for error in errors:
            problems.invalid(f"{where}.name", name, error)
        if name and not errors:
            if name in names:
                problems.duplicate(f"{where}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            problems.required(f"{where}.containerPort")
        for field in ("containerPort", "hostPort"):
            value = port.get(field)
            if value and not 0 < value < 65536:
                problems.invalid(f"{where}.{field}", value, _PORT_RANGE)
        one_of(port, "protocol", _PROTOCOLS, where, problems)


def _check_host_ports(container: JSON, path: str, seen: Seen, host_network: bool, problems: Problems) -> None:
    for index, port in enumerate(container.get("ports") or []):
        number = port.get("hostPort")
        if not number:
            continue
        where = f"{path}.ports[{index}].hostPort"
        address = (port.get("protocol") or "TCP", port.get("hostIP") or "", number)
        if address in seen:
            problems.duplicate(where, "/".join(map(str, address)))
        seen.add(address)
        if host_network and number != port.get("containerPort"):
            problems.invalid(where, number, "must match `containerPort` when `hostNetwork` is true")


def check_port(port: Any, path: str, problems: Problems) -> None:
    """Check a port, given by number or name."""
    if isinstance(port, str):
        for error in port_name_errors(port):
            problems.invalid(path, port, error)
    elif not 0 < (port or 0) < 65536:
        problems.invalid(path, port or 0, _PORT_RANGE)


# --- variables --------------------------------------------------------------------------------------------------------


def _check_environment(container: JSON, path: str, problems: Problems) -> None:
    for index, variable in enumerate(container.get("env") or []):
        where = f"{path}.env[{index}]"
        name = variable.get("name") or ""
        if not name:
            problems.required(f"{where}.name")
        elif not is_environment_name(name):
            problems.invalid(f"{where}.name", name, ENVIRONMENT_RULE)
        source = variable.get("valueFrom")
        if source is not None:
            _check_value_from(source, bool(variable.get("value")), f"{where}.valueFrom", problems)
    for index, source in enumerate(container.get("envFrom") or []):
        for kind in ("configMapRef", "secretRef"):
            if source.get(kind) is not None and not source[kind].get("name"):
                problems.required(f"{path}.envFrom[{index}].{kind}.name")


def _check_value_from(source: JSON, has_value: bool, path: str, problems: Problems) -> None:
    kinds = [kind for kind, value in source.items() if value is not None]
    if "fieldRef" in kinds:
        place = source["fieldRef"].get("fieldPath") or ""
        where = f"{path}.fieldRef.fieldPath"
        if not place:
            problems.required(where)
        elif not _FIELD_PATHS.fullmatch(place):
            problems.invalid(where, place, f"error converting fieldPath: field label not supported: {place}")
    if "resourceFieldRef" in kinds:
        name = source["resourceFieldRef"].get("resource") or ""
        if not name:
            problems.required(f"{path}.resourceFieldRef.resource")
        elif name not in _FIELD_RESOURCES and _HUGE_PAGES not in name:
            problems.unsupported(f"{path}.resourceFieldRef.resource", name, _FIELD_RESOURCES)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in kinds:
            _check_key(source[kind], f"{path}.{kind}", problems)
    if not kinds:
        problems.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif has_value:
        problems.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(kinds) > 1:
        problems.invalid(path, "", "may not have more than one field specified at a time")


def _check_key(reference: JSON, path: str, problems: Problems) -> None:
    if not reference.get("name"):
        problems.required(f"{path}.name")
    if not reference.get("key"):
        problems.required(f"{path}.key")
    for error in config_key_errors(reference["key"]) if reference.get("key") else ():
        problems.invalid(f"{path}.key", reference["key"], error)


# --- amounts ----------------------------------------------------------------------------------------------------------


def check_resources(resources: JSON, path: str, problems: Problems) -> None:
    """Check requests and limits: known names, no negative amounts, no request above its limit."""
    if not resources:
        return
    limits = _amounts(resources.get("limits"), f"{path}.limits", problems)
    requests = _amounts(resources.get("requests"), f"{path}.requests", problems)
    for name, amount in requests.items():
        if name in limits:
            fixed = _is_extended(name) or name.startswith(_HUGE_PAGES)
            if fixed and amount != limits[name]:
                detail = f"must be equal to {name} limit of {resources['limits'][name]}"
            elif amount > limits[name]:
                detail = f"must be less than or equal to {name} limit of {resources['limits'][name]}"
            else:
                continue
            problems.invalid(f"{path}.requests", str(resources["requests"][name]), detail)
        elif _is_extended(name) or name.startswith(_HUGE_PAGES):
            problems.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    named = {*requests, *limits}
    if any(name.startswith(_HUGE_PAGES) for name in named) and not named & {"cpu", "memory"}:
        problems.forbidden(path, "HugePages require cpu or memory")


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _amounts(amounts: JSON | None, path: str, problems: Problems) -> dict[str, int]:
    found = {}
    for name, quantity in (amounts or {}).items():
        where = f"{path}[{name}]"
        _check_resource_name(name, where, problems)
        try:
            found[name] = nanos(quantity)
        except QuantityError as error:
            problems.invalid(where, quantity, str(error))
            continue
        if found[name] < 0:
            problems.invalid(where, str(quantity), "must be greater than or equal to 0")
        elif _is_extended(name) and found[name] % _WHOLE:
            problems.invalid(where, str(quantity), "must be an integer")
        elif name.startswith(_HUGE_PAGES) and found[name] % _page_size(name):
            problems.invalid(where, str(quantity), f"{quantity} is not positive integer multiple of {name}")
    return found


def _page_size(name: str) -> int:
    try:
        return nanos(name.removeprefix(_HUGE_PAGES)) or 1
    except QuantityError:
        return 1


def _check_resource_name(name: str, path: str, problems: Problems) -> None:
    if name in _STANDARD_RESOURCES or name.startswith(_HUGE_PAGES):
        return
    errors = label_key_errors(name)
    for error in errors:
        problems.invalid(path, name, error)
    if errors:
        return
    if "/" not in name:
        problems.invalid(path, name, "must be a standard resource type or fully qualified")
        problems.invalid(path, name, "must be a standard resource for containers")


# --- probes and hooks -------------------------------------------------------------------------------------------------


def _check_handlers(container: JSON, path: str, lasts: bool, problems: Problems) -> None:
    """An init container that is not restarted has no probes or lifecycle hooks."""
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        part = container.get(field)
        if part is None:
            continue
        where = f"{path}.{field}"
        if not lasts:
            problems.forbidden(where, "may not be set for init containers without restartPolicy=Always")
        elif field == "lifecycle":
            for hook in ("postStart", "preStop"):
                if part.get(hook) is not None:
                    _check_handler(part[hook], f"{where}.{hook}", problems)
        else:
            _check_probe(part, where, problems, once=field != "readinessProbe")


def _check_probe(probe: JSON, path: str, problems: Problems, *, once: bool) -> None:
    _check_handler(probe, path, problems)
    counts = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    for field in counts:
        non_negative(probe, field, path, problems)
    grace = probe.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace <= 0:
        problems.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if once and probe.get("successThreshold") not in (None, 1):
        problems.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _check_handler(handler: JSON, path: str, problems: Problems) -> None:
    kinds = [kind for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep") if handler.get(kind) is not None]
    if not kinds:
        problems.required(path, "must specify a handler type")
    for extra in kinds[1:]:
        problems.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    kind = kinds[0] if kinds else ""
    part = handler.get(kind) or {}
    if kind == "exec" and not part.get("command"):
        problems.required(f"{path}.exec.command")
    if kind in ("httpGet", "tcpSocket", "grpc"):
        check_port(part.get("port"), f"{path}.{kind}.port", problems)
    if kind == "httpGet":
        one_of(part, "scheme", _SCHEMES, f"{path}.httpGet", problems)
