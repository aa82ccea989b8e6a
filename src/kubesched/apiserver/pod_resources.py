"""What a pod requests and may use in all, as a JSON resource list: for limit ranges and quotas."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api.quantity import nanos, plus
from kubesched.base.types import JSON

_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def containers_of(spec: JSON) -> Iterator[tuple[str, JSON]]:
    """Every container that counts, with its kind in messages."""
    for field, kind in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or []:
            yield kind, container


def pod_total(spec: JSON, field: str) -> JSON:
    """The requests or the limits of a pod, without overhead.

    Containers add up. Init containers run one after another before them, beside the sidecars started so far.
    """
    total: JSON = {}
    for container in spec.get("containers") or []:
        add(total, _amounts(container, field))
    sidecars: JSON = {}
    starting: JSON = {}
    for container in spec.get("initContainers") or []:
        amounts = dict(_amounts(container, field))
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
            amounts = sidecars
        else:
            add(amounts, sidecars)
        _raise_to(starting, amounts)
    _raise_to(total, starting)
    for name, amount in _amounts(spec, field).items():
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
            total[name] = amount
    return total


def _amounts(part: JSON, field: str) -> JSON:
    amounts: JSON = (part.get("resources") or {}).get(field) or {}
    return amounts


def add(total: JSON, amounts: JSON, sign: int = 1) -> None:
    """Add a resource list to another in place, or subtract it."""
    for name, amount in amounts.items():
        total[name] = plus(total.get(name, 0), amount, sign)


def _raise_to(total: JSON, amounts: JSON) -> None:
    for name, amount in amounts.items():
        if name not in total or nanos(total[name]) < nanos(amount):
            total[name] = amount
