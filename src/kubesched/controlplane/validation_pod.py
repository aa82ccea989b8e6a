"""What a pod, or the pod in a template, must look like; and what of a pod may change once it exists."""

from __future__ import annotations

import copy
import re
from typing import Any

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.api.quantity import QuantityError, nanos
from kubesched.client.protocol import JSON
from kubesched.controlplane.problems import Problems

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def check_pod(pod: JSON, problems: Problems) -> None:
    check_pod_spec(pod.get("spec") or {}, "spec", problems)


def check_pod_spec(spec: JSON, path: str, problems: Problems) -> None:
    """The spec of a pod or of a template at a path."""
    volumes = _check_volumes(spec, path, problems)
    _check_containers(spec, path, volumes, problems)
    _one_of(spec, "restartPolicy", _RESTART_POLICIES, path, problems)
    _one_of(spec, "dnsPolicy", _DNS_POLICIES, path, problems)
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        problems.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
    check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector", problems)
    _check_tolerations(spec, path, problems)
    _check_affinity(spec.get("affinity") or {}, f"{path}.affinity", problems)
    _check_spread(spec, path, problems)
    _check_gates(spec, path, problems)


def _one_of(part: JSON, field: str, supported: tuple[str, ...], path: str, problems: Problems) -> None:
    value = part.get(field)
    if value is not None and value not in supported:
        problems.unsupported(f"{path}.{field}", value, supported)


def check_labels(labels: JSON | None, path: str, problems: Problems) -> None:
    """Keys and values of labels or a simple selector."""
    for key, value in (labels or {}).items():
        for error in label_key_errors(key):
            problems.invalid(path, key, error)
        for error in label_value_errors(str(value)):
            problems.invalid(path, value, error)


# --- containers -------------------------------------------------------------------------------------------------------


def _check_containers(spec: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    if not spec.get("containers"):
        problems.required(f"{path}.containers")
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or []):
            where = f"{path}.{kind}[{index}]"
            _check_name(container, where, names, problems)
            _check_container(container, where, volumes, problems)


def _check_name(container: JSON, path: str, names: set[str], problems: Problems) -> None:
    name = container.get("name") or ""
    if not name:
        problems.required(f"{path}.name")
    elif not _LABEL.fullmatch(name):
        problems.invalid(f"{path}.name", name, _LABEL_RULE)
    elif name in names:
        problems.duplicate(f"{path}.name", name)
    names.add(name)


def _check_container(container: JSON, path: str, volumes: set[str], problems: Problems) -> None:
    image = container.get("image") or ""
    if not image:
        problems.required(f"{path}.image")
    elif image.strip() != image:
        problems.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    _one_of(container, "imagePullPolicy", _PULL_POLICIES, path, problems)
    _check_ports(container, path, problems)
    check_resources(container.get("resources") or {}, f"{path}.resources", problems)
    for index, mount in enumerate(container.get("volumeMounts") or []):
        where = f"{path}.volumeMounts[{index}]"
        if not mount.get("mountPath"):
            problems.required(f"{where}.mountPath")
        if not mount.get("name"):
            problems.required(f"{where}.name")
        elif mount["name"] not in volumes:
            problems.not_found(f"{where}.name", mount["name"])
    for index, variable in enumerate(container.get("env") or []):
        if not variable.get("name"):
            problems.required(f"{path}.env[{index}].name")


def _check_ports(container: JSON, path: str, problems: Problems) -> None:
    for index, port in enumerate(container.get("ports") or []):
        where = f"{path}.ports[{index}]"
        number = port.get("containerPort")
        if not number:
            problems.required(f"{where}.containerPort")
        for field in ("containerPort", "hostPort"):
            value = port.get(field)
            if value and not 0 < value < 65536:
                problems.invalid(f"{where}.{field}", value, "must be between 1 and 65535, inclusive")
        _one_of(port, "protocol", _PROTOCOLS, where, problems)


def check_resources(resources: JSON, path: str, problems: Problems) -> None:
    """Requests and limits: no negative amounts, and no request above its limit."""
    limits = _amounts(resources.get("limits"), f"{path}.limits", problems)
    requests = _amounts(resources.get("requests"), f"{path}.requests", problems)
    for name, amount in requests.items():
        if name in limits and amount > limits[name]:
            value = str(resources["requests"][name])
            limit = resources["limits"][name]
            problems.invalid(f"{path}.requests", value, f"must be less than or equal to {name} limit of {limit}")


def _amounts(amounts: JSON | None, path: str, problems: Problems) -> dict[str, int]:
    found = {}
    for name, quantity in (amounts or {}).items():
        where = f"{path}[{name}]"
        for error in label_key_errors(name):
            problems.invalid(where, name, error)
        try:
            found[name] = nanos(quantity)
        except QuantityError as error:
            problems.invalid(where, quantity, str(error))
            continue
        if found[name] < 0:
            problems.invalid(where, str(quantity), "must be greater than or equal to 0")
    return found


def _check_volumes(spec: JSON, path: str, problems: Problems) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or []):
        where = f"{path}.volumes[{index}]"
        _check_name(volume, where, names, problems)
        sources = [name for name, value in volume.items() if name != "name" and value is not None]
        for extra in sources[1:]:
            problems.forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            problems.required(f"{where}.persistentVolumeClaim.claimName")
    return names


# --- placement --------------------------------------------------------------------------------------------------------


def _check_tolerations(spec: JSON, path: str, problems: Problems) -> None:
    for index, toleration in enumerate(spec.get("tolerations") or []):
        where = f"{path}.tolerations[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
        for error in label_key_errors(key) if key else ():
            problems.invalid(f"{where}.key", key, error)
        if not key and operator != "Exists":
            problems.invalid(
                f"{where}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if operator not in _TOLERATION_OPERATORS:
            problems.unsupported(f"{where}.operator", operator, ("Equal", "Exists"))
        if operator == "Exists" and toleration.get("value"):
            problems.invalid(f"{where}.operator", toleration, "value must be empty when `operator` is 'Exists'")
        effect = toleration.get("effect")
        if effect and effect not in _EFFECTS:
            problems.unsupported(f"{where}.effect", effect, _EFFECTS)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            problems.invalid(
                f"{where}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )


def _check_affinity(affinity: JSON, path: str, problems: Problems) -> None:
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if required is not None:
        if not required.get("nodeSelectorTerms"):
            problems.required(f"{where}.nodeSelectorTerms", "must have at least one node selector term")
        for index, term in enumerate(required.get("nodeSelectorTerms") or []):
            _check_node_term(term, f"{where}.nodeSelectorTerms[{index}]", problems)
    for index, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _check_weight(term, where, problems)
        _check_node_term(term.get("preference") or {}, f"{where}.preference", problems)
    for kind in ("podAffinity", "podAntiAffinity"):
        _check_pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}", problems)


def _check_node_term(term: JSON, path: str, problems: Problems) -> None:
    for index, expression in enumerate(term.get("matchExpressions") or []):
        check_expression(expression, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS, problems)


def check_expression(expression: JSON, path: str, operators: tuple[str, ...], problems: Problems) -> None:
    """One requirement of a selector."""
    operator, values = expression.get("operator"), expression.get("values") or []
    if operator not in operators:
        problems.invalid(f"{path}.operator", operator or "", "not a valid selector operator")
    if operator in ("In", "NotIn") and not values:
        problems.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and values:
        problems.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    if operator in ("Gt", "Lt") and len(values) != 1:
        problems.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    for error in label_key_errors(expression.get("key") or ""):
        problems.invalid(f"{path}.key", expression.get("key") or "", error)


def _check_weight(term: JSON, path: str, problems: Problems) -> None:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        problems.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_pod_affinity(affinity: JSON, path: str, problems: Problems) -> None:
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []):
        _check_pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", problems)
    for index, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _check_weight(term, where, problems)
        _check_pod_term(term.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm", problems)


def _check_pod_term(term: JSON, path: str, problems: Problems) -> None:
    if not term.get("topologyKey"):
        problems.required(f"{path}.topologyKey", "can not be empty")
    for error in label_key_errors(term.get("topologyKey") or ""):
        problems.invalid(f"{path}.topologyKey", term.get("topologyKey") or "", error)
    check_label_selector(term.get("labelSelector"), f"{path}.labelSelector", problems)


def check_label_selector(selector: JSON | None, path: str, problems: Problems) -> None:
    """A label selector inside an object."""
    if selector is None:
        return
    check_labels(selector.get("matchLabels"), f"{path}.matchLabels", problems)
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        check_expression(expression, f"{path}.matchExpressions[{index}]", _LABEL_OPERATORS, problems)


def _check_spread(spec: JSON, path: str, problems: Problems) -> None:
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        where = f"{path}.topologySpreadConstraints[{index}]"
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            problems.invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            problems.required(f"{where}.topologyKey", "can not be empty")
        action = constraint.get("whenUnsatisfiable")
        if action not in _UNSATISFIABLE:
            problems.unsupported(f"{where}.whenUnsatisfiable", action or "", _UNSATISFIABLE)
        if constraint.get("minDomains") is not None and action != "DoNotSchedule":
            problems.invalid(
                f"{where}.minDomains",
                constraint["minDomains"],
                f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
            )
        check_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector", problems)


def _check_gates(spec: JSON, path: str, problems: Problems) -> None:
    gates: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        name = gate.get("name") or ""
        if name in gates:
            problems.duplicate(f"{path}.schedulingGates[{index}]", name)
        gates.add(name)
    if gates and spec.get("nodeName"):
        problems.forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")


# --- updates ----------------------------------------------------------------------------------------------------------

_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def compare_pods(old: JSON, new: JSON, problems: Problems) -> None:
    """A pod's spec is fixed but for images, deadlines, more tolerations, and while it is gated its node selection."""
    before, after = old["spec"], new["spec"]
    if before == after:
        return
    gates_before, gates_after = _gates(before), _gates(after)
    if gates_after - gates_before:
        added = ", ".join(sorted(gates_after - gates_before))
        problems.forbidden("spec.schedulingGates", f"only deletion is allowed, but found new scheduling gate '{added}'")
    kept = [t for t in before.get("tolerations") or [] if t not in (after.get("tolerations") or [])]
    if kept:
        problems.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if _fixed_part(before, bool(gates_before)) != _fixed_part(after, bool(gates_before)):
        problems.forbidden("spec", _CHANGEABLE)


def _gates(spec: JSON) -> set[str]:
    return {gate.get("name", "") for gate in spec.get("schedulingGates") or []}


def _fixed_part(spec: JSON, gated: bool) -> JSON:
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if gated:
        free |= {"nodeSelector", "affinity"}
    fixed: JSON = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [_without_image(container) for container in fixed[kind]]
    return fixed


def _without_image(container: Any) -> Any:
    copied = copy.copy(container)
    copied.pop("image", None)
    return copied
