"""Columns of autoscalers, ingresses, network policies, certificate requests, metrics and other policies."""

from __future__ import annotations

from kubesched.apiserver.printing.table import NONE, UNKNOWN, Cell, Columns, age, columns, selector_text
from kubesched.base.types import JSON


def _autoscaler(obj: JSON, now: float) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    reference = f"{target.get('kind', '')}/{target.get('name', '')}"
    return [
        reference,
        _targets(spec, status),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _targets(spec: JSON, status: JSON) -> str:
    if "targetCPUUtilizationPercentage" in spec:
        current = status.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if current is None else f'{current}%'}/{spec['targetCPUUtilizationPercentage']}%"
    measured = status.get("currentMetrics") or []
    texts = [
        _target(each, measured[i] if i < len(measured) else {}) for i, each in enumerate(spec.get("metrics") or [])
    ]
    shown = ", ".join(texts[:2])
    return f"{shown} + {len(texts) - 2} more..." if len(texts) > 2 else shown or NONE


def _target(metric: JSON, measured: JSON) -> str:
    kind = str(metric.get("type", ""))
    field = kind[:1].lower() + kind[1:]
    source, current = metric.get(field) or {}, (measured.get(field) or {}).get("current") or {}
    target = source.get("target") or {}
    name = f"{source['name']}: " if "name" in source else ""
    if target.get("averageUtilization") is not None:
        now = current.get("averageUtilization")
        return f"{name}{UNKNOWN if now is None else f'{now}%'}/{target['averageUtilization']}%"
    wanted = target.get("averageValue") or target.get("value") or UNKNOWN
    return f"{name}{current.get('averageValue') or current.get('value') or UNKNOWN}/{wanted}"


def _ingress(obj: JSON, now: float) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or [] if rule.get("host")]
    points = (status.get("loadBalancer") or {}).get("ingress") or []
    addresses = ",".join(each.get("ip") or each.get("hostname") or "" for each in points)
    shown = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")
    return [
        spec.get("ingressClassName") or NONE,
        shown or "*",
        addresses,
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


def _ingress_class(obj: JSON, now: float) -> list[Cell]:
    spec = obj.get("spec") or {}
    parameters = spec.get("parameters") or {}
    kind = ".".join(filter(None, (parameters.get("kind"), parameters.get("apiGroup"))))
    shown = f"{kind}/{parameters.get('name', '')}" if parameters else NONE
    return [spec.get("controller", ""), shown, age(obj, now)]


def _network_policy(obj: JSON, now: float) -> list[Cell]:
    return [selector_text((obj.get("spec") or {}).get("podSelector")), age(obj, now)]


def _request(obj: JSON, now: float) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kinds = [each.get("type") for each in status.get("conditions") or []]
    if "Denied" in kinds:
        state = "Denied"
    elif "Approved" in kinds:
        state = "Approved"
    else:
        state = "Pending"
    if "Failed" in kinds:
        state += ",Failed"
    if status.get("certificate"):
        state += ",Issued"
    seconds = spec.get("expirationSeconds")
    return [
        age(obj, now),
        spec.get("signerName", NONE),
        spec.get("username", ""),
        NONE if seconds is None else f"{seconds}s",
        state,
    ]


def _runtime_class(obj: JSON, now: float) -> list[Cell]:
    return [obj.get("handler", ""), age(obj, now)]


def _pod_metrics(obj: JSON, _now: float) -> list[Cell]:
    containers = obj.get("containers") or []
    usages = [each.get("usage") or {} for each in containers]
    return [
        ",".join(each.get("cpu", "") for each in usages),
        ",".join(each.get("memory", "") for each in usages),
        obj.get("window", ""),
    ]


def _node_metrics(obj: JSON, _now: float) -> list[Cell]:
    usage = obj.get("usage") or {}
    return [usage.get("cpu", ""), usage.get("memory", ""), obj.get("window", "")]


COLUMNS: dict[str, Columns] = {
    "autoscaling/horizontalpodautoscalers": columns("Reference, Targets, MinPods, MaxPods, Replicas, Age", _autoscaler),
    "networking.k8s.io/ingresses": columns("Class, Hosts, Address, Ports, Age", _ingress),
    "networking.k8s.io/ingressclasses": columns("Controller, Parameters, Age", _ingress_class),
    "networking.k8s.io/networkpolicies": columns("Pod-Selector, Age", _network_policy),
    "certificates.k8s.io/certificatesigningrequests": columns(
        "Age, SignerName, Requestor, RequestedDuration, Condition", _request
    ),
    "node.k8s.io/runtimeclasses": columns("Handler, Age", _runtime_class),
    "metrics.k8s.io/pods": columns("CPU, Memory, Window", _pod_metrics),
    "metrics.k8s.io/nodes": columns("CPU, Memory, Window", _node_metrics),
}
