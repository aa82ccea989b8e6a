"""Default values of claims on devices and of the devices themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.apiserver.meta import timestamp
from kubesched.base.types import JSON


def claim(obj: JSON, _now: float) -> None:
    _requests(obj.get("spec"))


def claim_template(obj: JSON, _now: float) -> None:
    spec = obj.get("spec")
    _requests(spec.get("spec") if isinstance(spec, dict) else None)


def resource_slice(obj: JSON, now: float) -> None:
    spec = obj.get("spec")
    for device in _each(spec, "devices"):
        for taint in _each(device, "taints"):
            _taint(taint, now)
        mappings = device.get("nodeAllocatableResourceMappings")
        for mapping in mappings.values() if isinstance(mappings, dict) else ():
            if isinstance(mapping, dict) and mapping.get("allocationMultiplier") is None:
                mapping["allocationMultiplier"] = "1"


def taint_rule(obj: JSON, now: float) -> None:
    spec = obj.get("spec")
    taint = spec.get("taint") if isinstance(spec, dict) else None
    if isinstance(taint, dict):
        _taint(taint, now)


def _taint(taint: JSON, now: float) -> None:
    if taint.get("timeAdded") is None:
        taint["timeAdded"] = timestamp(now)


def _requests(spec: Any) -> None:
    devices = spec.get("devices") if isinstance(spec, dict) else None
    for request in _each(devices, "requests"):
        exactly = request.get("exactly")
        for each in (*((exactly,) if isinstance(exactly, dict) else ()), *_each(request, "firstAvailable")):
            if not each.get("allocationMode"):
                each["allocationMode"] = "ExactCount"
            if each["allocationMode"] == "ExactCount" and not each.get("count"):
                each["count"] = 1


def _each(part: Any, name: str) -> Iterator[JSON]:
    found = part.get(name) if isinstance(part, dict) else None
    return (item for item in found or () if isinstance(item, dict))
