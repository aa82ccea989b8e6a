"""Amounts of resources in words: cores, binary units, pieces."""

from __future__ import annotations

from kubesched.api.resources import Requests

_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
BYTES = frozenset(("memory", "ephemeral-storage"))


def shown(resource: str, amount: int) -> str:
    """An amount in the scheduler's units (thousandths of a cpu, bytes, pieces) as people write it."""
    if resource == "cpu":
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if resource in BYTES or resource.startswith("hugepages-"):
        for suffix, size in _UNITS:
            if abs(amount) >= size:
                return f"{amount / size:.2f}".rstrip("0").rstrip(".") + suffix
    return str(amount)


def quantity(resource: str, amount: int) -> str:
    """The amount as an exact Kubernetes quantity."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in BYTES or resource.startswith("hugepages-"):
        for suffix, size in _UNITS:
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def number(resource: str, amount: int) -> int | float:
    """The amount for JSON: cores for cpu, else the plain number."""
    return amount / 1000 if resource == "cpu" else amount


def requested(requests: Requests) -> dict[str, int]:
    """What a pod asks for, by resource; the pod itself counts as one of "pods"."""
    named = {"cpu": requests.milli_cpu, "memory": requests.memory, "ephemeral-storage": requests.ephemeral_storage}
    return {"pods": 1, **{name: amount for name, amount in (named | requests.scalar).items() if amount}}
