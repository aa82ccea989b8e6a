"""Validation of pods and pod templates, and of updates to pods."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.part_cache import ENTRIES, key_of
from kubesched.apiserver.qos import qos_class
from kubesched.apiserver.storage.store import decode
from kubesched.apiserver.validation.containers import check_containers, check_ids, check_name, one_of
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.pod_claims import check_pod_claims
from kubesched.apiserver.validation.problems import Problems, check_address
from kubesched.base.types import JSON

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMES: dict[str, Callable[[str], Iterable[str]]] = {
    "nodeName": subdomain_errors,
    "serviceAccountName": subdomain_errors,
    "priorityClassName": subdomain_errors,
    "hostname": label_errors,
    "subdomain": label_errors,
}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
_ANY_TOKEN_VOLUME = b"kube-api-access-00000"


def check_pod(pod: JSON, problems: Problems) -> None:
    check_pod_spec(pod.get("spec") or {}, "spec", problems)


def check_new_pod(pod: JSON, problems: Problems) -> None:
    """A new pod has no ephemeral containers."""
    spec = pod.get("spec") or {}
    key = _key_of_spec(spec)
    if key is not None and _is_valid(key):
        return
    check_pod(pod, problems)
    if spec.get("ephemeralContainers"):
        problems.forbidden("spec.ephemeralContainers", "cannot be set on create")


@lru_cache(ENTRIES)
def _is_valid(spec: bytes) -> bool:
    """Whether the encoded spec of a new pod has no problems."""
    problems, found = Problems(), decode(spec)
    check_pod_spec(found, "spec", problems)
    return not problems.found and not found.get("ephemeralContainers")


def _key_of_spec(spec: JSON) -> bytes | None:
    """The key of a pod's spec, the same for all names that admission generates for the volume with the token."""
    key, volumes = key_of(spec), spec.get("volumes")
    name = volumes[-1].get("name") or "" if volumes else ""
    if key is None or not _TOKEN_VOLUME.fullmatch(name):
        return key
    return None if _ANY_TOKEN_VOLUME in key else key.replace(name.encode(), _ANY_TOKEN_VOLUME)


def check_pod_spec(spec: JSON, path: str, problems: Problems) -> None:
    """Check the spec of a pod or template at a path."""
    volumes = _check_volumes(spec, path, problems)
    check_containers(spec, path, volumes, problems)
    check_pod_claims(spec, path, problems)
    one_of(spec, "restartPolicy", _RESTART_POLICIES, path, problems)
    one_of(spec, "dnsPolicy", _DNS_POLICIES, path, problems)
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        problems.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector", problems)
    check_ids(spec.get("securityContext") or {}, f"{path}.securityContext", problems)
    _check_affinity(spec.get("affinity") or {}, f"{path}.affinity", problems)
    _check_names(spec, path, problems)
    _check_tolerations(spec, path, problems)
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 1 <= deadline < 2**31:
        problems.invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    _check_spread(spec, path, problems)
    _check_gates(spec, path, problems)


def _check_names(spec: JSON, path: str, problems: Problems) -> None:
    for field, errors in _NAMES.items():
        name = spec.get(field)
        for error in errors(name) if name else ():
            problems.invalid(f"{path}.{field}", name, error)
    group = spec.get("schedulingGroup")
    if group is not None:
        name, where = group.get("podGroupName"), f"{path}.schedulingGroup.podGroupName"
        rule = "must specify one of: `podGroupName`"
        for error in [rule] if name is None else subdomain_errors(name):
            problems.invalid(where, name, error)
    for index, gate in enumerate(spec.get("readinessGates") or []):
        for error in label_key_errors(gate.get("conditionType") or ""):
            problems.invalid(f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType") or "", error)
    for index, alias in enumerate(spec.get("hostAliases") or []):
        check_address(alias.get("ip") or "", f"{path}.hostAliases[{index}].ip", problems)
    system = (spec.get("os") or {}).get("name")
    if system not in (None, "linux", "windows"):
        problems.unsupported(f"{path}.os", system, ("linux", "windows"))


def check_labels(labels: JSON | None, path: str, problems: Problems) -> None:
    """Check keys and values of labels or of a simple selector."""
    for key, value in (labels or {}).items():
        for error in label_key_errors(key):
            problems.invalid(path, key, error)
        for error in label_value_errors(str(value)):
            problems.invalid(path, value, error)


# --- volumes ----------------------------------------------------------------------------------------------------------

_NAMED_SOURCES = {"persistentVolumeClaim": "claimName", "configMap": "name", "secret": "secretName", "hostPath": "path"}
"""Check the required fields of the most common volumes."""


def _check_volumes(spec: JSON, path: str, problems: Problems) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or []):
        where = f"{path}.volumes[{index}]"
        check_name(volume, where, names, problems)
        sources = [name for name, value in volume.items() if name != "name" and value is not None]
        for extra in sources[1:]:
            problems.forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        for source in sources[:1]:
            field = _NAMED_SOURCES.get(source)
            if field and not volume[source].get(field):
                problems.required(f"{where}.{source}.{field}")
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
                toleration.get("operator") or "",
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if operator not in _TOLERATION_OPERATORS:
            problems.unsupported(f"{where}.operator", operator, ("Equal", "Exists"))
        if operator == "Exists" and toleration.get("value"):
            problems.invalid(
                f"{where}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
            )
        for error in label_value_errors(toleration.get("value") or "") if operator == "Equal" else ():
            problems.invalid(f"{where}.operator", toleration["value"], error)
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
    if required is not None:
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        check_node_selector(required, where, problems)
    for index, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _check_weight(term, where, problems)
        _check_node_term(term.get("preference") or {}, f"{where}.preference", problems)
    for kind in ("podAffinity", "podAntiAffinity"):
        _check_pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}", problems)


def check_node_selector(selector: JSON, path: str, problems: Problems) -> None:
    """Check the node selector of a pod or volume."""
    if not selector.get("nodeSelectorTerms"):
        problems.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(selector.get("nodeSelectorTerms") or []):
        _check_node_term(term, f"{path}.nodeSelectorTerms[{index}]", problems)


def _check_node_term(term: JSON, path: str, problems: Problems) -> None:
    for index, expression in enumerate(term.get("matchExpressions") or []):
        check_expression(expression, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS, problems)
    for index, expression in enumerate(term.get("matchFields") or []):
        key = expression.get("key") or ""
        if key != "metadata.name":
            problems.invalid(f"{path}.matchFields[{index}].key", key, "not a valid field selector key")


def check_expression(expression: JSON, path: str, operators: tuple[str, ...], problems: Problems) -> None:
    """Check one requirement of a selector."""
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
    for namespace in term.get("namespaces") or []:
        for error in label_errors(namespace):
            problems.invalid(f"{path}.namespace", namespace, error)


def check_label_selector(selector: JSON | None, path: str, problems: Problems) -> None:
    """Check a label selector inside an object."""
    if selector is None:
        return
    check_labels(selector.get("matchLabels"), f"{path}.matchLabels", problems)
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        check_expression(expression, f"{path}.matchExpressions[{index}]", _LABEL_OPERATORS, problems)


def _check_spread(spec: JSON, path: str, problems: Problems) -> None:
    seen: dict[tuple[str, str], str] = {}
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
        domains = constraint.get("minDomains")
        if isinstance(domains, int) and domains <= 0:
            problems.invalid(f"{where}.minDomains", domains, "must be greater than zero")
        if constraint.get("minDomains") is not None and action != "DoNotSchedule":
            problems.invalid(
                f"{where}.minDomains",
                constraint["minDomains"],
                f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
            )
        identity = (constraint.get("topologyKey") or "", action or "")
        if identity in seen:
            first = f"{seen[identity]}.{{topologyKey, whenUnsatisfiable}}"
            problems.duplicate(first, f"{{{identity[0]}, {identity[1]}}}")
        seen.setdefault(identity, where)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            one_of(constraint, field, ("Honor", "Ignore"), where, problems)
        if constraint.get("matchLabelKeys") and constraint.get("labelSelector") is None:
            problems.forbidden(f"{where}.matchLabelKeys", "must not be specified when labelSelector is not set")
        check_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector", problems)


def _check_gates(spec: JSON, path: str, problems: Problems) -> None:
    gates: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        name = gate.get("name") or ""
        for error in label_key_errors(name):
            problems.invalid(f"{path}.schedulingGates[{index}]", name, error)
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
    """A pod's spec is immutable except images, deadlines, added tolerations and, while gated, node selection."""
    before, after = old["spec"], new["spec"]
    if before == after:
        return
    gates_before = _gates(before)
    for index, gate in enumerate(after.get("schedulingGates") or []):
        if gate.get("name", "") not in gates_before:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            problems.forbidden(f"spec.schedulingGates[{index}].name", detail)
    _compare_deadlines(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"), problems)
    kept = [t for t in before.get("tolerations") or [] if t not in (after.get("tolerations") or [])]
    if kept:
        problems.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if _fixed_part(before, bool(gates_before)) != _fixed_part(after, bool(gates_before)):
        problems.forbidden("spec", _CHANGEABLE)


def _compare_deadlines(before: int | None, after: int | None, problems: Problems) -> None:
    """A deadline may only be shortened."""
    if before is not None and after is None:
        problems.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif before is not None and after is not None and after > before:
        problems.invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")


def compare_resized(old: JSON, new: JSON, problems: Problems) -> None:
    """A resize may change amounts, but not the quality-of-service class."""
    before = qos_class(old["spec"])
    if before != qos_class(new["spec"]):
        problems.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")


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


def _check_status(_old: JSON, new: JSON, problems: Problems) -> None:
    for index, condition in enumerate((new.get("status") or {}).get("conditions") or []):
        path = f"status.conditions[{index}]"
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            problems.invalid(f"{path}.observedGeneration", generation, "must be a non-negative integer")
        for error in label_key_errors(condition.get("type") or ""):
            problems.invalid(f"{path}.Type", condition.get("type") or "", error)


STATUS: dict[str, Callable[[JSON, JSON, Problems], None]] = {"/pods": _check_status}
