"""The report on a run: plain data from which tables, JSON and JUnit are made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.library.cluster import Cluster
from kubesched.library.live import READ
from kubesched.library.tables import as_frame, as_html
from kubesched.reconcile.access import PODS
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.expectations import ENDED, Checked, why_pending
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


class DecisionDifference(msgspec.Struct, frozen=True):
    """An attempt that did not end as recorded."""

    time: float
    pod: str
    recorded: str
    here: str


class Decisions(msgspec.Struct, frozen=True):
    """The decisions of a recording, made again."""

    same: int
    placed: int
    """How many of these found a node."""
    differences: Sequence[DecisionDifference]


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
    decisions: Decisions | None = None
    """If the recording has the scheduler's attempts: how many ended the same here."""
    objects: Sequence[bytes] = ()
    """The objects that scheduling reads, at the end, as JSON: for explanations and for `kubesched ui`."""
    measures: Mapping[str, float] = {}
    """What `kubesched compare` compares: pending pods, time to bind, utilisation, cost and more."""

    def to_dict(self) -> dict[str, Any]:
        """The report as a dict that can be written as JSON."""
        body = self.to_dict_without_timeline()
        body["timeline"] = list(self.timeline_dicts())
        return body

    def to_dict_without_timeline(self) -> dict[str, Any]:
        """The same with an empty timeline, which may have millions of entries."""
        body: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, objects=(), timeline=()))
        body["objects"] = [msgspec.Raw(each) for each in self.objects]
        body["expectations"] = [
            {**msgspec.to_builtins(each), "holds": each.holds, "message": each.message} for each in self.expectations
        ]
        for name in ("agreement", "decisions"):
            if body[name] is None:
                del body[name]
        return body

    def timeline_dicts(self) -> Iterator[dict[str, Any]]:
        """What happened, as JSON has it."""
        return (_without_empty(entry._asdict()) for entry in self.timeline)

    def cluster(self, **options: Any) -> Cluster:
        """The cluster at the end, for questions. `options` are those of `kubesched.Cluster`."""
        return Cluster(*self.objects, **options)

    def to_frame(self) -> Any:
        """A data frame with a row per pod that is there at the end; pending ones have no node."""
        return as_frame(self._rows())

    def timeline_frame(self) -> Any:
        """A data frame with everything that happened, in order."""
        return as_frame([entry._asdict() for entry in self.timeline])

    def nodes_frame(self) -> Any:
        """A data frame with a row per node: its requested shares at the end, at the peak and on average."""
        return as_frame(
            [
                {
                    "node": each.node,
                    "pods": each.pods,
                    **{f"cpu {name}": value for name, value in msgspec.structs.asdict(each.cpu).items()},
                    **{f"memory {name}": value for name, value in msgspec.structs.asdict(each.memory).items()},
                }
                for each in self.utilisation
            ]
        )

    def usage_frame(self) -> Any:
        """A data frame with the requested shares of the whole cluster over time."""
        return as_frame([msgspec.structs.asdict(each) for each in self.usage])

    def _rows(self) -> list[dict[str, object]]:
        placed: list[dict[str, object]] = [
            {"pod": each.pod, "node": each.node, "phase": each.phase, "bound after": each.bound_after, "reason": ""}
            for each in self.placements
        ]
        return placed + [
            {"pod": each.pod, "node": "", "phase": "Pending", "bound after": None, "reason": each.reason}
            for each in self.pending
        ]

    def _repr_html_(self) -> str:
        return as_html(str(self), self._rows())

    def __str__(self) -> str:
        end = f"failed: {self.error}" if self.error else "passed" if self.passed else "an expectation failed"
        counts = f"{self.bindings} pods bound, {len(self.pending)} pending"
        return f"{self.scenario}: {counts} in {self.virtual_seconds:g} virtual seconds; {end}"


def _without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value not in ("", 0) or name == "time"}


def make_report(
    name: str,
    seed: int,
    cluster: SimulatedCluster,
    checked: Sequence[Checked],
    error: str = "",
    agreement: Agreement | None = None,
    decisions: Decisions | None = None,
) -> Report:
    """Build the report from the cluster's current state."""
    timeline = cluster.timeline
    end = timeline.seconds
    placements: list[PodPlacement] = []
    pending: list[PendingPod] = []
    for record in sorted(cluster.api.store.records(PODS), key=lambda record: _natural(record.key)):
        key, node, phase = record.key, record.fields.get("spec.nodeName", ""), record.fields.get("status.phase", "")
        since, attempts = timeline.created_at.get(key, 0.0), timeline.attempts[key]
        if not node and phase not in ENDED:
            why = why_pending(record.load()) or "not tried yet"
            pending.append(PendingPod(key, why, _round(end - since), attempts))
        else:
            after = _round(timeline.bound_at.get(key, since) - since)
            placements.append(PodPlacement(key, node, phase, after, attempts))
    nodes = sorted(timeline.usage.nodes.items(), key=lambda item: _natural(item[0]))
    return Report(
        scenario=name,
        seed=seed,
        passed=not error and all(each.holds for each in checked) and (decisions is None or not decisions.differences),
        error=error,
        virtual_seconds=_round(end),
        changes=timeline.changes,
        digest=timeline.digest,
        expectations=tuple(checked),
        timeline=timeline.entries,
        placements=placements,
        pending=pending,
        utilisation=[_utilisation(node, each, end) for node, each in nodes],
        bindings=timeline.bound,
        usage=list(timeline.usage.samples),
        agreement=agreement,
        decisions=decisions,
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
