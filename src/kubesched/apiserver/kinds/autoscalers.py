"""HorizontalPodAutoscalers of autoscaling/v1, which are stored as autoscaling/v2.

What v1 cannot express is in annotations there, so that nothing is lost when such an object is read and written back.
"""

from __future__ import annotations

import json
from contextlib import suppress

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown
from kubesched.base.documents import REQUEST, DocumentError, read_json
from kubesched.base.types import JSON

V1, V2 = "autoscaling/v1", "autoscaling/v2"
_PREFIX = "autoscaling.alpha.kubernetes.io"
METRICS_ANNOTATION = f"{_PREFIX}/metrics"
_SPEC_PARTS = {"metrics": METRICS_ANNOTATION, "behavior": f"{_PREFIX}/behavior"}
_STATUS_PARTS = {"conditions": f"{_PREFIX}/conditions", "currentMetrics": f"{_PREFIX}/current-metrics"}


def is_old_autoscaler(resource: ApiResource) -> bool:
    """Whether the resource is the autoscaler of v1."""
    return resource.group_version == V1


def autoscaler_to_v1(obj: JSON) -> JSON:
    """A stored autoscaler in the form of v1."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    target = next((each for each in metrics if _is_cpu(each)), None)
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target["resource"]["target"]["averageUtilization"]
    others = [each for each in metrics if each is not target]
    conditions, measured = status.pop("conditions", None), status.pop("currentMetrics", None) or []
    current = next((_current_cpu(each) for each in measured if _current_cpu(each) is not None), None)
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    parts = {
        _SPEC_PARTS["metrics"]: others,
        _SPEC_PARTS["behavior"]: behavior,
        _STATUS_PARTS["conditions"]: conditions,
        _STATUS_PARTS["currentMetrics"]: measured,
    }
    kept = {name: json.dumps(part, separators=(",", ":")) for name, part in parts.items() if part}
    metadata = dict(obj["metadata"])
    if annotations := {**(metadata.get("annotations") or {}), **kept}:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": V1, "metadata": metadata, "spec": spec, "status": status}


def autoscaler_to_v2(obj: JSON) -> JSON:
    """An autoscaler of v1 in its stored form."""
    metadata, spec, status = dict(obj["metadata"]), dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(metadata.pop("annotations", None) or {})
    spec |= _taken(annotations, _SPEC_PARTS, "autoscaling.HorizontalPodAutoscalerSpec")
    status |= _taken(annotations, _STATUS_PARTS, "autoscaling.HorizontalPodAutoscalerStatus")
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    status.pop("currentCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        spec["metrics"] = [metric, *(spec.get("metrics") or [])]
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": V2, "metadata": metadata, "spec": spec, "status": status}


def _taken(annotations: JSON, names: dict[str, str], type_name: str) -> JSON:
    """Take the annotations with these names, read as parts of a type. Text that is none is dropped, as upstream."""
    found: JSON = {}
    for part, name in names.items():
        text = annotations.pop(name, None)
        type_ = type_of(type_name)
        if text is None or type_ is None:
            continue
        with suppress(DocumentError, WrongTypeError):
            read = {part: read_json(text, REQUEST)}
            drop_unknown(read, type_)
            found |= read
    return found


def _is_cpu(metric: JSON) -> bool:
    resource = metric.get("resource") or {}
    utilization = (resource.get("target") or {}).get("averageUtilization")
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and utilization is not None


def _current_cpu(metric: JSON) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get("current") or {}).get("averageUtilization")
    return found
