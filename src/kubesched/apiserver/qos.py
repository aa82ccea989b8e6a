"""A pod's quality-of-service class, which defaulting sets and validation of a resize keeps."""

from __future__ import annotations

from kubesched.api.quantity import QuantityError, nanos
from kubesched.base.types import JSON


def qos_class(spec: JSON) -> str:
    """Guaranteed, Burstable or BestEffort, from the CPU and memory of the pod as a whole or of all containers."""
    whole = spec.get("resources") or {}
    parts = [spec] if whole.get("requests") or whole.get("limits") else None
    asks, guaranteed = False, True
    for container in parts or (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
        asks = asks or bool(requests or limits)
        guaranteed = guaranteed and len(limits) == 2 and (requests or limits) == limits
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(amounts: JSON | None) -> dict[str, int]:
    found = {}
    for name in ("cpu", "memory"):
        try:
            value = nanos((amounts or {}).get(name, 0))
        except QuantityError:
            continue
        if value > 0:
            found[name] = value
    return found
