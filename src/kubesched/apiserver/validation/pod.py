"""Validation of pods and pod templates, and of updates to pods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.part_cache import ENTRIES, key_of
from kubesched.apiserver.storage.store import decode
from kubesched.apiserver.validation.checks import Check, check_address, check_set_name, each
from kubesched.apiserver.validation.containers import (
    check_containers,
    check_ephemeral_containers,
    check_security,
    one_of,
)
from kubesched.apiserver.validation.naming import label_errors, search_errors, subdomain_errors
from kubesched.apiserver.validation.pod_claims import check_pod_claims
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import (
    check_label_selector,
    check_labels,
    check_node_selector,
    check_node_term,
)
from kubesched.apiserver.validation.volumes import check_volumes
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
    for volume, path in each(spec.get("volumes"), "spec.volumes"):
        if volume.get("ephemeral") is not None:
            _check_claim_name(pod["metadata"].get("name") or "", volume.get("name") or "", path, problems)
    key = _key_of_spec(spec)
    if key is not None and _is_valid(key):
        return
    check_pod(pod, problems)
    if spec.get("ephemeralContainers"):
        problems.forbidden("spec.ephemeralContainers", "cannot be set on create")


def _check_claim_name(pod: str, volume: str, path: str, problems: Problems) -> None:
    """Check the name that the claim of an ephemeral volume will have."""
    name = f"{pod}-{volume}"
    for error in subdomain_errors(name) if pod and volume else ():
        problems.invalid(f"{path}.name", volume, f'PVC name "{name}": {error}')


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
    volumes = check_volumes(spec, path, problems)
    check_containers(spec, path, volumes, problems)
    check_ephemeral_containers(spec, f"{path}.ephemeralContainers", volumes, problems)
    check_pod_claims(spec, path, problems)
    one_of(spec, "restartPolicy", _RESTART_POLICIES, path, problems)
    one_of(spec, "dnsPolicy", _DNS_POLICIES, path, problems)
    _check_dns(spec, f"{path}.dnsConfig", problems)
    check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector", problems)
    _check_security(spec.get("securityContext") or {}, f"{path}.securityContext", problems)
    _check_affinity(spec.get("affinity") or {}, f"{path}.affinity", problems)
    _check_names(spec, path, problems)
    check_tolerations(spec, path, problems)
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
        for name, where in each(alias.get("hostnames"), f"{path}.hostAliases[{index}].hostnames"):
            check_set_name(name, subdomain_errors, where, problems)
    system = (spec.get("os") or {}).get("name")
    if system not in (None, "linux", "windows"):
        problems.unsupported(f"{path}.os", system, ("linux", "windows"))


def check_template(template: JSON, path: str, problems: Problems) -> None:
    """Check a template of pods."""
    metadata = template.get("metadata") or {}
    check_labels(metadata.get("labels"), f"{path}.labels", problems)
    for key in metadata.get("annotations") or {}:
        for error in label_key_errors(key.lower()):
            problems.invalid(f"{path}.annotations", key, error)
    check_pod_spec(template.get("spec") or {}, f"{path}.spec", problems)
    if (template.get("spec") or {}).get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        problems.forbidden(f"{path}.spec.ephemeralContainers", detail)


def _check_dns(spec: JSON, path: str, problems: Problems) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            problems.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            problems.required(f"{path}.nameservers", detail)
    if config is None:
        return
    for address, where in each(config.get("nameservers"), f"{path}.nameservers"):
        check_address(address, where, problems)
    for name, where in each(config.get("searches"), f"{path}.searches"):
        if name != ".":
            check_set_name(name.removesuffix("."), search_errors, where, problems)
    for option, where in each(config.get("options"), f"{path}.options"):
        if not option.get("name"):
            problems.required(where, "must not be empty")


_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_RULE = f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"


def _check_security(context: JSON, path: str, problems: Problems) -> None:
    check_security(context, path, problems)
    for group, where in each(context.get("supplementalGroups"), f"{path}.supplementalGroups"):
        if not 0 <= group < 2**31:
            problems.invalid(where, group, "must be between 0 and 2147483647, inclusive")
    names: set[str] = set()
    for sysctl, where in each(context.get("sysctls"), f"{path}.sysctls"):
        name = sysctl.get("name") or ""
        if not name:
            problems.required(f"{where}.name")
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            problems.invalid(f"{where}.name", name, _SYSCTL_RULE)
        elif name in names:
            problems.duplicate(f"{where}.name", name)
        names.add(name)
    one_of(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path, problems)


# --- placement --------------------------------------------------------------------------------------------------------


def check_tolerations(spec: JSON, path: str, problems: Problems) -> None:
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
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            problems.invalid(
                f"{where}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )
        if effect and effect not in _EFFECTS:
            problems.unsupported(f"{where}.effect", effect, _EFFECTS)


def _check_affinity(affinity: JSON, path: str, problems: Problems) -> None:
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        check_node_selector(required, where, problems)
    for index, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _check_weight(term, where, problems)
        check_node_term(term.get("preference") or {}, f"{where}.preference", problems)
    for kind in ("podAffinity", "podAntiAffinity"):
        _check_pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}", problems)


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
    check_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector", problems)
    _check_label_keys(term, path, problems)
    for namespace in term.get("namespaces") or []:
        for error in label_errors(namespace):
            problems.invalid(f"{path}.namespace", namespace, error)


def _check_label_keys(part: JSON, path: str, problems: Problems) -> None:
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if part.get(field) and part.get("labelSelector") is None:
            problems.forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        for key, where in each(part.get(field), f"{path}.{field}"):
            check_set_name(key, label_key_errors, where, problems)


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
                f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action or ''}",
            )
        identity = (constraint.get("topologyKey") or "", action or "")
        if identity in seen:
            first = f"{seen[identity]}.{{topologyKey, whenUnsatisfiable}}"
            problems.duplicate(first, f"{{{identity[0]}, {identity[1]}}}")
        seen.setdefault(identity, where)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            one_of(constraint, field, ("Honor", "Ignore"), where, problems)
        _check_label_keys(constraint, where, problems)
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


CHECKS: dict[str, Check] = {"/pods": check_pod}
NEW: dict[str, Check] = {"/pods": check_new_pod}
