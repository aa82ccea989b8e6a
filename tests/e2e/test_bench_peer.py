"""`kubesched bench --peer`: the three programs on a real API server, with pods that preempt and pods that arrive."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.parts import path_of
from tests.pages import Script, type_in

from kubesched.bench.peers.measure import AS_WRITTEN, PENDING, PeerBench
from kubesched.bench.peers.programs import PeerProgram
from kubesched.bench.perf.format import load_runs

WORKLOAD = """
- name: Small
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createPods, count: 8, podTemplatePath: low.yaml}
  - {opcode: createPods, count: 2, podTemplatePath: high.yaml, collectMetrics: true}
  workloads: [{name: one}]
"""
SECOND = """
- name: Plain
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createPods, count: 4, podTemplatePath: low.yaml, collectMetrics: true}
  workloads: [{name: 5000Nodes}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  terminationGracePeriodSeconds: 0
  priority: %d
  containers: [{name: c, image: i, resources: {requests: {cpu: "%s"}}}]
"""


async def test_programs_are_measured_from_the_same_state(folder: Path) -> None:
    """Each program starts with the same full nodes and binds the same pods, and its numbers are there."""
    (folder / "performance-config.yaml").write_text(WORKLOAD)
    (folder / "low.yaml").write_text(POD % (0, "900m"))
    (folder / "high.yaml").write_text(POD % (10, "3700m"))
    (run,) = load_runs(folder / "performance-config.yaml")
    bench = PeerBench(run, folder, path_of("kube-apiserver").parent, 180.0)
    for program, load, rate in (
        (PeerProgram.KUBESCHED, PENDING, 0),
        (PeerProgram.KUBE_SCHEDULER, PENDING, 0),
        (PeerProgram.NULL_BINDER, PENDING, 0),
        (PeerProgram.NULL_BINDER, "20 pods/s", 20),
        (PeerProgram.NULL_BINDER, AS_WRITTEN, 0),
    ):
        measured = await bench.measure(program, load, rate)
        assert (measured["program"], measured["bound"], measured["pods"]) == (program.value, 2, 2)
        assert measured["start_to_last_s"] > 0
        assert measured["resident_mb"] > 10
        # As written, the two pods take less than one tick of the CPU clock.
        assert measured["cpu_s"] > 0 or load == AS_WRITTEN


def test_the_page_can_be_typed(script: Callable[[str], Script], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's commands measure all three programs, here for a small workload of the same name."""
    monkeypatch.chdir(folder)
    small = folder / "bench/workloads"
    small.mkdir(parents=True)
    (small / "performance-config.yaml").write_text(WORKLOAD.replace("Small", "Preemption") + SECOND)
    (small / "low.yaml").write_text(POD % (0, "900m"))
    (small / "high.yaml").write_text(POD % (10, "3700m"))
    parts = str(path_of("kube-apiserver").parent)
    for command in script("docs/performance.md").take():
        report = folder / "report.json"
        assert type_in(command, "--parts", parts, "--output", str(report), **{"200": "20"}) == 0
        (row,) = json.loads(report.read_text("utf-8"))["rows"]
        programs = {measured["program"] for each in row["rounds"] for measured in each}
        assert programs == {program.value for program in PeerProgram}
