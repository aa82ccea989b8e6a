"""Numbers about a run: what is pending, how long binding took, how full, even and fragmented the nodes are."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Final

from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.report import Report
from kubesched.simulator.usage import NodeUsage

MEASURES: Final[Mapping[str, str]] = {
    "pending": "pods without a node at the end",
    "bound": "bindings",
    "bind_mean": "seconds from creation to binding, mean",
    "bind_p99": "seconds from creation to binding, 99th percentile",
    "attempts": "scheduling attempts per pod",
    "evictions": "pods that were preempted",
    "nodes_used": "nodes that had pods",
    "cpu": "requested share of all CPUs, mean over time",
    "memory": "requested share of all memory, mean over time",
    "fragmentation": "share of the free CPUs at the end that an average pod cannot use",
    "spread": "how uneven nodes are at the end: standard deviation of their requested CPU shares",
    "node_hours": "hours of all nodes together",
    "cost": "price of the nodes of node groups",
}
"""What is measured, in the order of tables."""


def measure(report: Report, cluster: SimulatedCluster) -> dict[str, float]:
    """All measures of a run."""
    timeline = cluster.timeline
    usage = list(timeline.usage.nodes.values())
    waits = bind_seconds(report)
    end = timeline.seconds
    nodes = timeline.usage
    return {
        "pending": float(len(report.pending)),
        "bound": float(report.bindings),
        "bind_mean": round(fmean(waits), 6) if waits else 0.0,
        "bind_p99": percentile(waits, 0.99),
        "attempts": round(timeline.all_attempts / timeline.created, 6) if timeline.created else 0.0,
        "evictions": float(timeline.evictions),
        "nodes_used": float(len(_used(report, nodes.nodes))),
        "cpu": _share([(each.cpu_load.mean(each.began, end), each.milli_cpu) for each in usage]),
        "memory": _share([(each.memory_load.mean(each.began, end), each.memory) for each in usage]),
        "fragmentation": fragmentation(usage),
        "spread": round(pstdev(_shares(usage)), 6) if usage else 0.0,
        "node_hours": round(nodes.node_seconds(end) / 3600, 6),
        "cost": round(cluster.cost, 6),
    }


def _used(report: Report, present: Mapping[str, NodeUsage]) -> set[str]:
    """The nodes that had pods, also those that are gone."""
    bound = {entry.text for entry in report.timeline if entry.kind == "Pod" and entry.what == "bound"}
    return bound | {name for name, each in present.items() if each.pods_load.peak > 0}


def bind_seconds(report: Report) -> Sequence[float]:
    """How long each pod waited for its node, also of pods that are gone."""
    created: dict[str, float] = {}
    waits = array("d")
    for entry in report.timeline:
        if entry.kind == "Pod" and entry.what == "created":
            created[entry.name] = entry.time
        elif entry.kind == "Pod" and entry.what == "bound" and entry.name in created:
            waits.append(entry.time - created.pop(entry.name))
    return waits


def nodes_of_pods(report: Report) -> dict[str, str]:
    """The last node of every pod; empty if it had none."""
    found: dict[str, str] = {}
    for entry in report.timeline:
        if entry.kind == "Pod" and entry.what == "created":
            found[entry.name] = ""
        elif entry.kind == "Pod" and entry.what == "bound":
            found[entry.name] = entry.text
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of all values is."""
    ordered = sorted(values)
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 6) if ordered else 0.0


def _share(parts: Sequence[tuple[float, int]]) -> float:
    whole = sum(each for _, each in parts)
    return round(sum(used for used, _ in parts) / whole, 6) if whole else 0.0


def _shares(usage: Sequence[NodeUsage]) -> list[float]:
    return [each.cpu_load.now / each.milli_cpu if each.milli_cpu else 0.0 for each in usage]


def fragmentation(usage: Sequence[NodeUsage]) -> float:
    """Of the free CPUs, the share that is left over when nodes are filled with average pods."""
    pods = sum(each.pods_load.now for each in usage)
    cpu = sum(each.cpu_load.now for each in usage) / pods if pods else 0.0
    memory = sum(each.memory_load.now for each in usage) / pods if pods else 0.0
    free = sum(max(each.milli_cpu - each.cpu_load.now, 0.0) for each in usage)
    if not cpu or not free:
        return 0.0
    usable = 0.0
    for each in usage:
        fitting = max(each.milli_cpu - each.cpu_load.now, 0.0) // cpu
        if memory:
            fitting = min(fitting, max(each.memory - each.memory_load.now, 0.0) // memory)
        usable += min(fitting, max(each.max_pods - each.pods_load.now, 0.0)) * cpu
    return round(1 - usable / free, 6)
