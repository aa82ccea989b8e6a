"""The report on a run: plain data from which tables, JSON and JUnit are made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from kubesched.library.live import READ
from kubesched.reconcile.access import PODS
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.expectations import Checked, is_pending, node_of, phase_of, why_pending
from kubesched.simulator.timeline import TimelineEntry
from kubesched.simulator.usage import Load, NodeUsage, UsageSample


class PodPlacement(msgspec.Struct, frozen=True, rename="camel"):
    """A pod with a node."""

    pod: str
    node: str
    phase: str
    bound_after: float
    """Seconds from its creation to its binding."""
    attempts: int


class PendingPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod without a node."""

    pod: str
    reason: str
    waiting: float
    attempts: int


class Fraction(msgspec.Struct, frozen=True):
    """The requested fraction of a resource: at the end, at its peak, and on average."""

    end: float
    peak: float
    mean: float


class Utilisation(msgspec.Struct, frozen=True, rename="camel"):
    """How full one node is."""

    node: str
    pods: int
    cpu: Fraction
    memory: Fraction


class Agreement(msgspec.Struct, frozen=True, rename="camel"):
    """How many of the pods that arrived went where the recording has them."""

    same: int
    moved: Sequence[tuple[str, str, str]]
    """Pod, recorded node, node here; an empty node if it had none."""


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The result of one run."""

    scenario: str
    seed: int
    passed: bool
    error: str
    """The error that ended the scenario early, if any."""
    virtual_seconds: float
    changes: int
    digest: str
    expectations: Sequence[Checked]
    timeline: Sequence[TimelineEntry]
    placements: Sequence[PodPlacement]
    pending: Sequence[PendingPod]
    utilisation: Sequence[Utilisation]
    bindings: int
    usage: Sequence[UsageSample] = ()
    """The cluster's requested shares over time."""
    agreement: Agreement | None = None
    """With the recording, if only its arrivals were replayed."""
    objects: Sequence[bytes] = ()
    """The objects that scheduling reads, at the end, as JSON: for explanations and for `kubesched ui`."""


def make_report(
    name: str,
    seed: int,
    cluster: SimulatedCluster,
    checked: Sequence[Checked],
    error: str = "",
    agreement: Agreement | None = None,
) -> Report:
    """Build the report from the cluster's current state."""
    timeline = cluster.timeline
    end = timeline.seconds
    placements: list[PodPlacement] = []
    pending: list[PendingPod] = []
    for record in sorted(cluster.api.store.records(PODS), key=lambda record: _natural(record.key)):
        pod, key = record.load(), record.key
        since, attempts = timeline.created_at.get(key, 0.0), timeline.attempts[key]
        if is_pending(pod):
            pending.append(PendingPod(key, why_pending(pod) or "not tried yet", _round(end - since), attempts))
        else:
            after = _round(timeline.bound_at.get(key, since) - since)
            placements.append(PodPlacement(key, node_of(pod), phase_of(pod), after, attempts))
    nodes = sorted(timeline.usage.nodes.items(), key=lambda item: _natural(item[0]))
    return Report(
        scenario=name,
        seed=seed,
        passed=not error and all(each.holds for each in checked),
        error=error,
        virtual_seconds=_round(end),
        changes=timeline.changes,
        digest=timeline.digest,
        expectations=tuple(checked),
        timeline=[each._replace(time=_round(each.time)) for each in timeline.entries],
        placements=placements,
        pending=pending,
        utilisation=[_utilisation(node, each, end) for node, each in nodes],
        bindings=timeline.bound,
        usage=list(timeline.usage.samples),
        agreement=agreement,
        objects=list(_objects(cluster)),
    )


def _objects(cluster: SimulatedCluster) -> Iterator[bytes]:
    read = {(kind.api_version, kind.kind) for kind in READ}
    for resource in cluster.api.registry:
        if resource.is_stored and (resource.group_version, resource.kind) in read:
            for record in sorted(cluster.api.store.records(resource.storage), key=lambda record: record.key):
                yield record.data


def _utilisation(name: str, usage: NodeUsage, end: float) -> Utilisation:
    cpu = _fraction(usage.cpu_load, usage.milli_cpu, usage.began, end)
    return Utilisation(
        name, round(usage.pods_load.now), cpu, _fraction(usage.memory_load, usage.memory, usage.began, end)
    )


def _fraction(load: Load, whole: int, began: float, end: float) -> Fraction:
    if not whole:
        return Fraction(0.0, 0.0, 0.0)
    return Fraction(*(round(each / whole, 6) for each in (load.now, load.peak, load.mean(began, end))))


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts node2 before node10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def _round(seconds: float) -> float:
    """Round to milliseconds, to drop floating-point noise."""
    return round(seconds, 3)
