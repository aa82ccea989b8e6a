"""One run: pods arrive until they request 130 % of the GPUs, a policy places them, and the allocation is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from random import Random
from statistics import fmean
from typing import Any

import msgspec
import policies
from gpu_share import GpuShare
from openb import Trace, arrivals, node_objects, pod_object

from kubesched import Cluster, Fate, Plugin

LOAD = 1.3
FROM, UNTIL = 80, 130
"""The per cent of arrived load to report."""
POLICIES: dict[str, type[Plugin]] = {
    each.name: each
    for each in (
        policies.Random,
        policies.DotProd,
        policies.GpuClustering,
        policies.GpuPacking,
        policies.BestFit,
        policies.FGD,
    )
}


def configuration(policy: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with GPU sharing, and the policy as the only one that scores."""
    scores = [policy, policies.CoarseOrder.name, policies.FixedOrder.name]
    weights = [policies.SCORES**2, policies.SCORES, 1]
    filters = ["NodeResourcesFit", "NodeAffinity", GpuShare.name]
    return {
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "plugins": {
                    "multiPoint": {"disabled": [{"name": "*"}]},
                    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                    "preFilter": {"enabled": [{"name": each} for each in filters]},
                    "filter": {"enabled": [{"name": each} for each in filters]},
                    "score": {
                        "enabled": [{"name": name, "weight": w} for name, w in zip(scores, weights, strict=True)]
                    },
                    "reserve": {"enabled": [{"name": GpuShare.name}]},
                    "bind": {"enabled": [{"name": "DefaultBinder"}]},
                },
                "pluginConfig": [{"name": policy, "args": dict(args)}] if args else [],
            }
        ],
    }


def run(trace: Trace, policy: str, seed: int) -> dict[int, float]:
    """The allocated per cent of all GPUs at each per cent of arrived load."""
    random = Random(seed)
    pods = arrivals(trace, random, LOAD)
    known: list[type[Plugin]] = [GpuShare, policies.CoarseOrder, policies.FixedOrder, POLICIES[policy]]
    args: dict[str, Any] = {}
    if policy == policies.Random.name:
        args = {"seed": random.randrange(2**32)}
    elif policy == policies.FGD.name:
        args = {"typicalPods": msgspec.to_builtins(trace.typical)}
    cluster = Cluster(*node_objects(trace, random), config=configuration(policy, args), plugins=known)
    capacity, arrived, allocated = trace.capacity, 0, 0
    measured = []
    objects = (pod_object(each, number) for number, each in enumerate(pods))
    for row, placement in zip(pods, cluster.schedule_all(objects), strict=True):
        arrived += row.gpu_milli
        allocated += row.gpu_milli if placement.fate is Fate.PLACED else 0
        measured.append((100 * arrived / capacity, 100 * allocated / capacity))
    return by_load(measured)


def by_load(measured: Iterable[tuple[float, float]]) -> dict[int, float]:
    """The mean allocation of all arrivals that round to a per cent of load, as the paper has it.

    A small trace may step over a per cent; then the allocation before it still holds.
    """
    found: dict[int, list[float]] = defaultdict(list)
    for arrived, allocated in measured:
        found[round(arrived)].append(round(allocated, 2))
    last, result = 0.0, {}
    for per_cent in range(UNTIL + 1):
        if per_cent in found:
            last, mean = found[per_cent][-1], fmean(found[per_cent])
        else:
            mean = last
        if per_cent >= FROM:
            result[per_cent] = round(mean, 2)
    return result
