"""Validation of containers: ports, variables, mounts, resources, probes and hooks."""

from __future__ import annotations

import re
from typing import Any

from kubesched.api.names import label_key_errors
from kubesched.api.quantity import QuantityError, canonical, nanos
from kubesched.apiserver.validation.naming import (
    ENVIRONMENT_RULE,
    config_key_errors,
    is_environment_name,
    label_errors,
    port_name_errors,
    subdomain_errors,
)
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_SCHEMES = ("HTTP", "HTTPS")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_STANDARD_RESOURCES = ("cpu", "ephemeral-storage", "memory")
HUGE_PAGES = "hugepages-"
STANDARD = frozenset(
    """cpu memory ephemeral-storage storage pods services replicationcontrollers resourcequotas secrets configmaps
    persistentvolumeclaims services.nodeports services.loadbalancers requests.cpu requests.memory requests.storage
    requests.ephemeral-storage limits.cpu limits.memory limits.ephemeral-storage""".split()  # noqa: SIM905
)
"""Resources, of containers or of other things, that need no domain."""
_FIELD_RESOURCES = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in _STANDARD_RESOURCES)
_FIELD_PATHS = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)(\['.+'\])?)|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIPs?|podIPs?)"
)
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_RULE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for"
    " validation is '[-A-Za-z0-9]+')"
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
            if kind == "initContainers":
                one_of(container, "restartPolicy", ("Always", "Never", "OnFailure"), where, problems)
            lasts = kind == "containers" or container.get("restartPolicy") == "Always"
            _check_handlers(container, where, lasts, problems)
            _check_sleep(container, _grace(spec), f"{where}.lifecycle.preStop.sleep", problems)
            _check_host_ports(container, where, host_ports, bool(spec.get("hostNetwork")), problems)


_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
"""Fields of containers that only last as long as a debugger does not have."""


def check_ephemeral_containers(spec: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    """Check containers that are added for a while to look into a running pod."""
    lasting = {c.get("name") for kind in ("containers", "initContainers") for c in spec.get(kind) or []}
    names = set(lasting)
    for index, container in enumerate(spec.get("ephemeralContainers") or []):
        where, why = f"{path}[{index}]", "cannot be set for an Ephemeral Container"
        check_name(container, where, set(), problems)
        _check_container(container, where, volumes, problems)
        if container.get("name") in names:
            problems.duplicate(f"{where}.name", container.get("name", ""))
        names.add(container.get("name"))
        target = container.get("targetContainerName")
        if target and target not in lasting:
            problems.not_found(f"{where}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                problems.forbidden(f"{where}.{field}", why)
        for number, mount in enumerate(container.get("volumeMounts") or []):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    problems.forbidden(f"{where}.volumeMounts[{number}].{field}", why)


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
    _check_resize_policies(container, f"{path}.resizePolicy", problems)
    check_security(container.get("securityContext") or {}, f"{path}.securityContext", problems)


def _check_mounts(container: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        where = f"{path}.volumeMounts[{index}]"
        name = mount.get("name") or ""
        if not name:
            problems.required(f"{where}.name")
        if name not in volumes:
            problems.not_found(f"{where}.name", name)
        place = mount.get("mountPath") or ""
        if not place:
            problems.required(f"{where}.mountPath")
        if place in seen:
            problems.invalid(f"{where}.mountPath", place, "must be unique")
        seen.add(place)
        for field in ("subPath", "subPathExpr"):
            check_local_path(mount.get(field) or "", f"{path}.volumeMounts.{field}", problems)
        one_of(mount, "mountPropagation", _PROPAGATIONS, f"{path}.volumeMounts", problems)


def check_local_path(text: str, path: str, problems: Problems) -> None:
    """Check that a path in a volume stays inside."""
    if text.startswith("/"):
        problems.invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        problems.invalid(path, text, "must not contain '..'")


_RESIZED = {"resourceName": ("cpu", "memory"), "restartPolicy": ("NotRequired", "RestartContainer")}


def _check_resize_policies(container: JSON, path: str, problems: Problems) -> None:
    names: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or []):
        name = policy.get("resourceName") or ""
        if name in names:
            problems.duplicate(f"{path}[{index}]", name)
        names.add(name)
        for field, known in _RESIZED.items():
            if not policy.get(field):
                problems.required(path)
            elif policy[field] not in known:
                problems.unsupported(path, policy[field], known)


def check_security(context: JSON, path: str, problems: Problems) -> None:
    """Check the security context of a container or pod."""
    check_ids(context, path, problems)
    one_of(context, "procMount", ("Default", "Unmasked"), path, problems)
    for field, known in _PROFILES.items():
        if (profile := context.get(field)) is None:
            continue
        where, type_ = f"{path}.{field}", profile.get("type")
        if not type_:
            problems.required(f"{where}.type", f"type is required when {field} is set")
        elif type_ not in known:
            problems.unsupported(f"{where}.type", type_, known)
        elif type_ == "Localhost" and not profile.get("localhostProfile"):
            problems.required(f"{where}.localhostProfile", f"must be set when {field[:-7]} type is Localhost")


_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROFILES = {"seccompProfile": _PROFILE_TYPES, "appArmorProfile": _PROFILE_TYPES}


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
        if source.get("configMapRef") is None and source.get("secretRef") is None:
            problems.invalid(f"{path}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")
        for kind in ("configMapRef", "secretRef"):
            if source.get(kind) is None:
                continue
            name, where = source[kind].get("name") or "", f"{path}.envFrom[{index}].{kind}.name"
            if not name:
                problems.required(where)
            for error in subdomain_errors(name) if name else ():
                problems.invalid(where, name, error)


def _check_value_from(source: JSON, has_value: bool, path: str, problems: Problems) -> None:
    kinds = [kind for kind, value in source.items() if value is not None]
    if "fieldRef" in kinds:
        check_field_reference(source["fieldRef"], f"{path}.fieldRef", problems)
    if "resourceFieldRef" in kinds:
        check_resource_reference(source["resourceFieldRef"], f"{path}.resourceFieldRef", problems)
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


def check_field_reference(reference: JSON, path: str, problems: Problems, *, in_file: bool = False) -> None:
    """Check a reference to a field of the pod, for a variable or a file."""
    version, place, where = reference.get("apiVersion"), reference.get("fieldPath") or "", f"{path}.fieldPath"
    if not version:
        problems.required(f"{path}.apiVersion")
    elif not place:
        problems.required(where)
    elif version != "v1":
        problems.invalid(where, place, f"error converting fieldPath: unsupported pod version: {version}")
    elif not _FIELD_PATHS.fullmatch(place):
        problems.invalid(where, place, f"error converting fieldPath: field label not supported: {place}")
    elif in_file and place.startswith(("spec.", "status.")):
        known = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
        problems.unsupported(where, place, known)


def check_resource_reference(reference: JSON, path: str, problems: Problems, *, in_file: bool = False) -> None:
    """Check a reference to an amount of a container, for a variable or a file."""
    name, divisor = reference.get("resource") or "", reference.get("divisor")
    if in_file and not reference.get("containerName"):
        problems.required(f"{path}.containerName")
    elif not name:
        problems.required(f"{path}.resource")
    elif name not in _FIELD_RESOURCES and HUGE_PAGES not in name:
        problems.unsupported(f"{path}.resource", name, _FIELD_RESOURCES)
    if name.endswith(".cpu") and divisor and nanos(divisor) not in (0, 10**6, 10**9):
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
        problems.invalid(f"{path}.divisor", name if in_file else canonical(divisor), detail)


def _check_key(reference: JSON, path: str, problems: Problems) -> None:
    for error in subdomain_errors(reference.get("name") or ""):
        problems.invalid(f"{path}.name", reference.get("name") or "", error)
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
            if _is_fixed(name) and amount != limits[name]:
                detail = f"must be equal to {name} limit of {canonical(resources['limits'][name])}"
            elif amount > limits[name]:
                detail = f"must be less than or equal to {name} limit of {canonical(resources['limits'][name])}"
            else:
                continue
            problems.invalid(f"{path}.requests", canonical(resources["requests"][name]), detail)
        elif _is_fixed(name):
            problems.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    named = {*requests, *limits}
    if any(name.startswith(HUGE_PAGES) for name in named) and not named & {"cpu", "memory"}:
        problems.forbidden(path, "HugePages require cpu or memory")


def _is_fixed(name: str) -> bool:
    """Whether requests and limits of the resource must be the same, because nodes cannot give more than they have."""
    return not _is_native(name) or name.startswith(HUGE_PAGES)


def is_extended(name: str) -> bool:
    return not _is_native(name) and not name.startswith("requests.") and not label_key_errors(name)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _amounts(amounts: JSON | None, path: str, problems: Problems) -> dict[str, int]:
    found = {}
    for name, quantity in (amounts or {}).items():
        where = f"{path}[{name}]"
        check_resource_name(name, where, problems)
        try:
            found[name] = nanos(quantity)
        except QuantityError as error:
            problems.invalid(where, quantity, str(error))
            continue
        if found[name] < 0:
            problems.invalid(where, str(quantity), "must be greater than or equal to 0")
        elif is_extended(name) and found[name] % _WHOLE:
            problems.invalid(where, str(quantity), "must be an integer")
        elif name.startswith(HUGE_PAGES) and found[name] % _page_size(name):
            problems.invalid(where, str(quantity), f"{quantity} is not positive integer multiple of {name}")
    return found


def _page_size(name: str) -> int:
    try:
        return nanos(name.removeprefix(HUGE_PAGES)) or 1
    except QuantityError:
        return 1


def check_resource_name(name: str, path: str, problems: Problems) -> None:
    if name in _STANDARD_RESOURCES or name.startswith(HUGE_PAGES):
        return
    errors = label_key_errors(name)
    for error in errors:
        problems.invalid(path, name, error)
    if "/" in name:
        if not _is_native(name) and not is_extended(name):
            problems.invalid(path, name, "doesn't follow extended resource name standard")
        return
    if not errors and name not in STANDARD:
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


def _grace(spec: JSON) -> int:
    """How long a pod has to end. A negative time counts as a second."""
    seconds = spec.get("terminationGracePeriodSeconds")
    return 30 if seconds is None else seconds if seconds >= 0 else 1


def _check_sleep(container: JSON, grace: int, path: str, problems: Problems) -> None:
    sleep = ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep")
    seconds = (sleep or {}).get("seconds") or 0
    if sleep is not None and not 0 <= seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        problems.invalid(path, seconds, detail)


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
        for header in part.get("httpHeaders") or []:
            if not _HEADER.fullmatch(header.get("name") or ""):
                problems.invalid(f"{path}.httpGet.httpHeaders", header.get("name") or "", _HEADER_RULE)
