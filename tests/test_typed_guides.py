"""The commands of pages that need no running cluster can be typed, with small files and short runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pages import ROOT, Script, arguments, type_in

EXAMPLES = ROOT / "examples"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u,v,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:00:30,30,0
2,u,v,0,4,1,COMPLETED,2020-05-01 00:30:00,2020-05-01 00:30:00,2020-05-01 00:31:00,60,0
"""
SHORTER = {
    "sweep": ("--seeds", "1-2", "--jobs", "1"),
    "tune": ("--trials", "2", "--seeds", "1", "--held-out", "1001-1002", "--jobs", "1"),
    "compare": ("--seeds", "2"),
    "torture": ("--seeds", "1"),
}
"""Fewer runs than the pages ask for: the last of two equal options counts."""
WORKLOAD = """
- name: Small
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createPods, count: 4, podTemplatePath: pod.yaml, collectMetrics: true}
  workloads: [{name: one, labels: [performance, short]}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the pages name."""
    for name in ("examples", "bench", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "scenarios").mkdir()
    shutil.copy(EXAMPLES / "scenarios/node10.yaml", tmp_path / "scenarios")
    shutil.copy(EXAMPLES / "scenarios/node10.py", tmp_path / "day.py")
    for name in ("packed.yaml", "spread.yaml"):
        (tmp_path / name).write_text(CONFIG, "utf-8")
    for name in ("nodes", "pods"):
        rows = (EXAMPLES / f"gpu-sharing/{name}-small.csv").read_text("utf-8").splitlines()[:20]
        # Without times the pods come one after the other, and stay.
        short = [",".join(row.split(",")[:6]) for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(short) + "\n", "utf-8")
    (tmp_path / "cluster_log.csv").write_text(HELIOS, "utf-8")
    shutil.copy(EXAMPLES / "scenarios/node10.py", tmp_path / "trace.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def type_on_dask(command: str, *more: str) -> int:
    """Run a command on a Dask cluster of this process instead of the one that the page names."""
    distributed = pytest.importorskip("distributed")
    alone = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**alone, protocol="tcp://") as cluster:
        return type_in(command.replace("tcp://10.0.0.1:8786", cluster.scheduler_address), *more)


@pytest.mark.parametrize(
    "page",
    [
        *("docs/guides/contrib.md", "docs/guides/learn.md", "docs/guides/plugins.md", "docs/guides/research.md"),
        *("docs/guides/scenarios.md", "docs/reference/commands.md", "docs/reference/conformance.md"),
        "docs/reliability.md",
    ],
)
def test_a_page_can_be_typed(script: Callable[[str], Script], folder: Path, page: str) -> None:
    """Every command succeeds."""
    for command in script(page).take():
        run = type_on_dask if "dask:" in command else type_in
        code = run(command.replace("corpus/*", "corpus/taints.jsonl.gz"), *SHORTER.get(arguments(command)[0], ()))
        assert code == 0, command


def test_benchmarks(script: Callable[[str], Script], folder: Path) -> None:
    """Workloads are listed, and those of another folder are measured on the embedded cluster."""
    (folder / "performance-config.yaml").write_text(WORKLOAD, "utf-8")
    (folder / "pod.yaml").write_text(POD, "utf-8")
    for command in script("docs/performance.md").take():
        assert type_in(command, DIR=str(folder)) == 0, command
