"""Measures decisions per second of CPU time with all default plugins, and the speedup over one node at a time.

Every workload runs in a separate process, so that its memory can be measured. The baseline for the speedup runs right
afterwards in the same process, with the same plugins and configuration. It evaluates one node at a time until enough
nodes fit, for as many pods as the time allows.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from random import Random
from typing import TypedDict

from rich.table import Table

from kubesched.bench.contrib_workloads import configuration, contrib_objects, in_order
from kubesched.bench.workloads import WORKLOADS, BenchWorkload, make_node, make_pod
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.config.load import default
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.framework.one_at_a_time import one_at_a_time
from kubesched.framework.registry import Registry
from kubesched.plugins import IN_TREE, in_tree_registry

ONE_AT_A_TIME_SECONDS = 3.0


class DecisionResult(TypedDict):
    """The result of a workload."""

    workload: str
    nodes: int
    pods_per_s: int
    ratio_one_at_a_time: float
    rss_mb: int


def measure_apart(workload: BenchWorkload, nodes: int | None = None) -> DecisionResult:
    """Measure one workload in a separate process, perhaps with another number of nodes."""
    command = [sys.executable, "-m", __name__, str(WORKLOADS.index(workload)), str(nodes or workload.nodes)]
    # In a separate session, so that Ctrl-C reaches only this process, which then ends the other one.
    done = subprocess.run(  # noqa: S603 - this module and two numbers
        command, check=True, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    result: DecisionResult = json.loads(done.stdout)
    return result


def measure(workload: BenchWorkload) -> DecisionResult:
    """Measure one workload in this process."""
    engine, pods = _prepare(workload, in_tree_registry())
    started = time.process_time()
    for info in in_order(engine, pods) if workload.contrib else pods:
        _schedule(engine, info, workload)
    pods_per_second = len(pods) / (time.process_time() - started)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "workload": workload.name,
        "nodes": workload.nodes,
        "pods_per_s": round(pods_per_second),
        "ratio_one_at_a_time": round(pods_per_second / _one_at_a_time(workload), 1),
        "rss_mb": round(rss),
    }


def _one_at_a_time(workload: BenchWorkload) -> float:
    plugins = (*IN_TREE, in_tree_registry()[workload.name]) if workload.contrib else IN_TREE
    registry = Registry(one_at_a_time(plugin) for plugin in plugins)
    engine, pods = _prepare(workload, registry)
    started = time.process_time()
    done = 0
    while done < len(pods) and (done == 0 or time.process_time() - started < ONE_AT_A_TIME_SECONDS):
        _schedule(engine, pods[done], workload)
        done += 1
    return done / (time.process_time() - started)


def _prepare(workload: BenchWorkload, registry: Registry) -> tuple[Engine, list[PodInfo]]:
    cluster = ClusterState()
    for index in range(workload.nodes):
        cluster.set(make_node(index, workload.node_cpu))
    for each in contrib_objects(workload) if workload.contrib else ():
        cluster.set(each)
    config = configuration(workload.name, registry) if workload.contrib else default()
    engine = build_engines(config, registry, cluster, Random(0))["default-scheduler"]
    before = workload.initial_template or workload.template
    for index in range(workload.initial):
        info = cluster.classes.info(make_pod("initial", index, before(index)))
        cluster.assume(info, cluster.nodes.names[index % workload.nodes])
    pods = [
        cluster.classes.info(make_pod("pod", index, workload.template(index))) for index in range(workload.measured)
    ]
    return engine, pods


def _schedule(engine: Engine, info: PodInfo, workload: BenchWorkload) -> None:
    """Decide and assume; with preemption, first remove the victims."""
    decision = engine.schedule(info)
    if decision.outcome is Outcome.UNSCHEDULABLE and workload.preempts and decision.post_filter is not None:
        for victim in decision.post_filter.victims:
            engine.cluster.remove_pod(victim.pod.uid)
        engine.cluster.assume(info, decision.post_filter.nominated_node_name)
    elif decision.outcome is Outcome.SCHEDULED:
        engine.cluster.assume(info, decision.node)
    else:
        raise RuntimeError(f"{workload.name}: {info.pod.key} did not fit: {decision.message}")


def table(results: list[DecisionResult]) -> Table:
    """The results as a table."""
    shown = Table(title="Decisions per second of CPU time with all default plugins, assuming included")
    for title in ("workload", "nodes", "pods/s", "times one node at a time", "resident MB"):
        shown.add_column(title, justify="left" if title == "workload" else "right")
    for each in results:
        shown.add_row(
            each["workload"],
            f"{each['nodes']:,}",
            f"{each['pods_per_s']:,}",
            f"{each['ratio_one_at_a_time']:,.0f}",
            f"{each['rss_mb']:,}",
        )
    return shown


if __name__ == "__main__":
    print(json.dumps(measure(replace(WORKLOADS[int(sys.argv[1])], nodes=int(sys.argv[2])))))
