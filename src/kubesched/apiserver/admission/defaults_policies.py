"""The defaults of autoscalers, network policies, admission policies, webhooks and flow control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubesched.apiserver.kinds.autoscalers import METRICS_ANNOTATION, V1
from kubesched.base.types import JSON


def _fill(part: JSON, **values: Any) -> None:
    for name, value in values.items():
        if part.get(name) is None:
            part[name] = value


def _spec(obj: JSON) -> JSON:
    if not isinstance(obj.get("spec"), dict):
        obj["spec"] = {}
    spec: JSON = obj["spec"]
    return spec


def _each(part: JSON, name: str) -> Iterator[JSON]:
    return (item for item in part.get(name) or [] if isinstance(item, dict))


def _autoscaler(obj: JSON) -> None:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec = _spec(obj)
    _fill(spec, minReplicas=1)
    if obj.get("apiVersion") == V1:
        if METRICS_ANNOTATION not in (obj["metadata"].get("annotations") or {}):
            _fill(spec, targetCPUUtilizationPercentage=80)
    elif not spec.get("metrics"):
        spec["metrics"] = [{"type": "Resource", "resource": cpu}]
    if isinstance(spec.get("behavior"), dict):
        _fill(spec["behavior"], scaleUp={}, scaleDown={})
        pods, percent = ({"type": kind, "value": size, "periodSeconds": 15} for kind, size in _STEPS)
        _fill(spec["behavior"]["scaleUp"], stabilizationWindowSeconds=0, selectPolicy="Max", policies=[pods, percent])
        _fill(spec["behavior"]["scaleDown"], selectPolicy="Max", policies=[percent])


_STEPS = (("Pods", 4), ("Percent", 100))
"""How far an autoscaler may go at once, unless it says something else."""


def _ingress_class(obj: JSON) -> None:
    parameters = _spec(obj).get("parameters")
    if isinstance(parameters, dict):
        _fill(parameters, scope="Cluster")


def _network_policy(obj: JSON) -> None:
    spec = _spec(obj)
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in _each(spec, direction):
            for port in _each(rule, "ports"):
                _fill(port, protocol="TCP")


# --- admission --------------------------------------------------------------------------------------------------------


def _policy(obj: JSON) -> None:
    spec = _spec(obj)
    _fill(spec, failurePolicy="Fail")
    if isinstance(spec.get("matchConstraints"), dict):
        _match(spec["matchConstraints"])


def _policy_binding(obj: JSON) -> None:
    match = _spec(obj).get("matchResources")
    if isinstance(match, dict):
        _match(match)


def _match(match: JSON) -> None:
    _fill(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in _each(match, field):
            _fill(rule, scope="*")


def _webhooks(obj: JSON) -> None:
    for hook in _each(obj, "webhooks"):
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        _fill(hook, timeoutSeconds=10)
        for rule in _each(hook, "rules"):
            _fill(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            _fill(service, port=443)


def _mutating_webhooks(obj: JSON) -> None:
    _webhooks(obj)
    for hook in _each(obj, "webhooks"):
        _fill(hook, reinvocationPolicy="Never")


# --- flow control -----------------------------------------------------------------------------------------------------


def _flow_schema(obj: JSON) -> None:
    spec = _spec(obj)
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _priority_level(obj: JSON) -> None:
    spec = _spec(obj)
    if isinstance(spec.get("exempt"), dict):
        _fill(spec["exempt"], nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if not isinstance(limited, dict):
        return
    _fill(limited, nominalConcurrencyShares=30, lendablePercent=0)
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if isinstance(queuing, dict):
        for field, number in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
            queuing[field] = queuing.get(field) or number


POLICY_DEFAULTS: dict[str, Callable[[JSON], None]] = {
    "autoscaling/horizontalpodautoscalers": _autoscaler,
    "networking.k8s.io/ingressclasses": _ingress_class,
    "networking.k8s.io/networkpolicies": _network_policy,
    "admissionregistration.k8s.io/validatingadmissionpolicies": _policy,
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": _policy_binding,
    "admissionregistration.k8s.io/mutatingadmissionpolicies": _policy,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": _policy_binding,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _webhooks,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _mutating_webhooks,
    "flowcontrol.apiserver.k8s.io/flowschemas": _flow_schema,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": _priority_level,
}
