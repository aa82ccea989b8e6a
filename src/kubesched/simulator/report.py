"""What a run came to, as plain data that tables, JSON and JUnit are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from kubesched.reconcile.access import PODS
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.expectations import Checked, is_pending, node_of, phase_of, why_pending
from kubesched.simulator.timeline import Entry
from kubesched.simulator.usage import Load, NodeUsage


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that has a node."""

    pod: str
    node: str
    phase: str
    bound_after: float
    """Seconds from its creation to its binding."""
    attempts: int


class Pending(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that has none."""

    pod: str
    reason: str
    waiting: float
    attempts: int


class Part(msgspec.Struct, frozen=True):
    """How much of something was requested: at the end, at most, and in the mean, as parts of 1."""

    end: float
    peak: float
    mean: float


class Utilisation(msgspec.Struct, frozen=True, rename="camel"):
    """One node, or all."""

    node: str
    pods: int
    cpu: Part
    memory: Part


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """A run."""

    scenario: str
    seed: int
    passed: bool
    error: str
    """What ended the scenario before its end, if something did."""
    virtual_seconds: float
    changes: int
    digest: str
    expectations: Sequence[Checked]
    timeline: Sequence[Entry]
    placements: Sequence[Placement]
    pending: Sequence[Pending]
    utilisation: Sequence[Utilisation]
    bindings: int


def make_report(name: str, seed: int, cluster: SimulatedCluster, checked: Sequence[Checked], error: str = "") -> Report:
    """The report on a cluster as it is now."""
    timeline = cluster.timeline
    end = timeline.seconds
    placements: list[Placement] = []
    pending: list[Pending] = []
    for record in cluster.api.store.records(PODS):
        pod, key = record.load(), record.key
        since, attempts = timeline.created_at.get(key, 0.0), timeline.attempts[key]
        if is_pending(pod):
            pending.append(Pending(key, why_pending(pod) or "not tried yet", _round(end - since), attempts))
        else:
            after = _round(timeline.bound_at.get(key, since) - since)
            placements.append(Placement(key, node_of(pod), phase_of(pod), after, attempts))
    nodes = sorted(timeline.usage.nodes.items(), key=_natural)
    return Report(
        scenario=name,
        seed=seed,
        passed=not error and all(each.holds for each in checked),
        error=error,
        virtual_seconds=_round(end),
        changes=timeline.changes,
        digest=timeline.digest,
        expectations=tuple(checked),
        timeline=[Entry(_round(time), *rest) for time, *rest in timeline.entries],
        placements=placements,
        pending=pending,
        utilisation=[_utilisation(node, each, end) for node, each in nodes],
        bindings=timeline.bound,
    )


def _utilisation(name: str, usage: NodeUsage, end: float) -> Utilisation:
    cpu = _part(usage.cpu_load, usage.milli_cpu, usage.began, end)
    return Utilisation(name, round(usage.pods_load.now), cpu, _part(usage.memory_load, usage.memory, usage.began, end))


def _part(load: Load, whole: int, began: float, end: float) -> Part:
    if not whole:
        return Part(0.0, 0.0, 0.0)
    return Part(*(round(each / whole, 6) for each in (load.now, load.peak, load.mean(began, end))))


def _natural(item: tuple[str, object]) -> list[tuple[int, str]]:
    """Sorts node2 before node10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", item[0])]


def _round(seconds: float) -> float:
    """To the millisecond: what is less is floating-point dust."""
    return round(seconds, 3)
