"""The same seed gives the same run, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.base.types import JSON
from kubesched.config.load import default
from kubesched.plugins import in_tree_registry
from kubesched.reconcile.access import DEPLOYMENTS, Access
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.loading import load
from kubesched.simulator.machine import as_json
from kubesched.simulator.run import run
from kubesched.simulator.settings import ClusterOptions

EVERYTHING = Path(__file__).parent / "everything" / "everything.yaml"
PROGRAM = "from kubesched.cli.main import main; main()"


def simulated(hash_seed: str, *options: str) -> bytes:
    command = [sys.executable, "-c", PROGRAM, "simulate", str(EVERYTHING), "-o", "json", *options]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


def test_two_processes_give_the_same_bytes() -> None:
    """Controllers, kubelets, volumes, preemption, a plugin and a lost node do not depend on the hash seed.

    The digest in the output is of every version of every object, with its name, UID, dates and resourceVersion.
    """
    first, second = simulated("1"), simulated("2")
    assert first == second
    report = json.loads(first)
    assert report["passed"], report["expectations"]
    happened = {entry["what"] for entry in report["timeline"]}
    assert {"created", "bound", "pending", "running", "succeeded", "deleted"} <= happened


def test_runs_in_one_process_do_not_touch_each_other() -> None:
    """A run does not influence the next one in the same process, even with another seed."""
    scenario = load(EVERYTHING)
    first = as_json([run(scenario)])
    other = as_json([run(scenario, 12)])
    assert as_json([run(scenario)]) == first
    assert json.loads(other)["digest"] != json.loads(first)["digest"]


def stored(*seeds: int) -> list[dict[str, bytes]]:
    """Simulate one cluster per seed, all in turns on one clock. Returns every stored object of each."""

    async def main(clock: VirtualClock) -> list[dict[str, bytes]]:
        clusters = [SimulatedCluster(clock, seed, ClusterOptions(), default(), in_tree_registry()) for seed in seeds]
        for cluster in clusters:
            await cluster.start()
        for step in range(4):
            for cluster in clusters:
                cluster.embedded.kubelets.nodes.create(f"node-{step}")
                Access(cluster.api).create(DEPLOYMENTS, deployment(f"d{step}"))
            await clock.advance(3.0)
        objects = [
            {
                f"{name}/{key}": record.data
                for name, shelf in cluster.api.store.shelves.items()
                for key, record in shelf.records.items()
            }
            for cluster in clusters
        ]
        for cluster in clusters:
            await cluster.stop()
        return objects

    return run_virtual(main)


def deployment(name: str) -> JSON:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_runs_at_the_same_time_do_not_touch_each_other() -> None:
    """Two clusters that take turns in one process each end as they do alone: all objects, names, UIDs and versions."""
    (one,), (two,) = stored(1), stored(2)
    assert sum(key.startswith("/pods/") and b'"Running"' in data for key, data in one.items()) == 8
    assert stored(1, 2) == [one, two]
    assert one.keys() != two.keys()
