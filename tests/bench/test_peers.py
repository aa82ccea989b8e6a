"""Measuring beside other programs: how a workload is divided, what is read from an audit log, and the report."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kubesched.bench.peers.audit import AuditLog
from kubesched.bench.peers.control_plane import PartsMissingError, find_parts
from kubesched.bench.peers.measure import PENDING, CannotMeasureError, PeerMeasurement, preempts, split
from kubesched.bench.peers.processes import ChildProcess, ProcessEndedError
from kubesched.bench.peers.report import PeerReport, PeerRow, readable, write_markdown
from kubesched.bench.perf.executor import PodBatch
from kubesched.bench.perf.format import PerfRun, load_runs

OWN = Path(__file__).parents[2] / "bench" / "workloads"


def run_named(name: str) -> PerfRun:
    """One of our own workloads."""
    return next(run for run in load_runs(OWN) if run.name == name)


def measured(program: str, rate: float, problem: str = "") -> PeerMeasurement:
    """A measurement with this rate."""
    return {
        "program": program,
        "load": PENDING,
        "pods": 100,
        "bound": 100,
        "pods_per_s": rate,
        "start_to_last_s": 2.5,
        "cpu_s": 1.0,
        "cpu_ms_per_pod": 0.5,
        "resident_mb": 120,
        "p50_ms": 10,
        "p99_ms": 20,
        "throughput": None,
        "problem": problem,
    }


def test_a_workload_is_divided_at_its_measured_pods() -> None:
    """What comes before is prepared, churn runs meanwhile, and several kinds of pods can be measured together."""
    churn = split(run_named("NodeChurn/1000Nodes"))
    assert [type(each).__name__ for _, each in churn.before] == ["CreateNodes"]
    assert [type(each).__name__ for _, each in churn.meanwhile] == ["Churn"]
    mixed = split(run_named("Mixed/1000Nodes"))
    assert [each.namespace for _, each in mixed.measured] == ["plain", "lonely", "hard", "soft", "sociable"]


def test_workloads_that_only_run_as_written(tmp_path: Path) -> None:
    """A workload that measures something else than created pods cannot be divided, and the error says so."""
    text = "- name: C\n  workloadTemplate: [{opcode: createNodes, count: 1}]\n  workloads: [{name: w}]\n"
    (tmp_path / "performance-config.yaml").write_text(text)
    with pytest.raises(CannotMeasureError, match="only run as written"):
        split(load_runs(tmp_path)[0])


def test_preemption_is_seen() -> None:
    """Pods with a higher priority than those that run preempt them, and are measured from the start."""
    for name, expected in (("Preemption/1000Nodes_200Pods", True), ("BesideRunning/1000Nodes_3000Running", False)):
        run = run_named(name)
        assert preempts(run) is expected


def test_the_audit_log_is_read_as_it_grows(tmp_path: Path) -> None:
    """Creations and bindings of the batch count; refused ones, other pods and half a line do not."""
    path = tmp_path / "audit.log"
    log = AuditLog(path, [PodBatch("ns", [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], None)])
    log.read()

    def line(name: str, code: int, subresource: str = "", second: int = 1) -> str:
        reference = {"resource": "pods", "namespace": "ns", "name": name, "subresource": subresource}
        stamp = f"2026-01-01T00:00:0{second}.250000Z"
        return json.dumps({"objectRef": reference, "responseStatus": {"code": code}, "stageTimestamp": stamp})

    lines = [line("a", 201), line("a", 201, "binding", 2), line("b", 409, "binding"), line("c", 201, "binding")]
    whole = "\n".join(lines) + "\n" + line("b", 201, "binding", 3)
    path.write_text(whole[:-10])
    log.read()
    assert log.pods == 2
    assert set(log.bound) == {"ns/a"}
    assert log.bound["ns/a"] - log.created["ns/a"] == 1.0
    path.write_text(whole + "\n")
    log.read()
    assert set(log.bound) == {"ns/a", "ns/b"}
    log.created = {"ns/a": 1.0, "ns/b": 1.1}
    assert (log.slow_arrival(10), log.slow_arrival(20)) == ("", "pods arrived at 10/s instead of 20/s")


def test_ratios_are_of_pairs() -> None:
    """A ratio is the median of the ratios of each round, and the Markdown and JSON have every number."""
    rounds = [
        [measured("kubesched", 900), measured("kube-scheduler", 300), measured("null binder", 1000)],
        [measured("kubesched", 500, "3 pods were not bound in time"), measured("kube-scheduler", 100)],
    ]
    report = PeerReport([PeerRow("Plain/5000Nodes", PENDING, rounds)], {"Other": "it cannot"})
    assert report.rows[0].ratio("kubesched", "kube-scheduler") == 4.0
    text = report.markdown()
    assert "| plain, 5,000 nodes | pending | 200 | 700 | 1,000 | **4.0** | 90 % |" in text
    assert "- plain, 5,000 nodes, pending, kubesched: 3 pods were not bound in time" in text
    assert "- Other: it cannot" in text
    assert "| plain, 5,000 nodes | pending | 4.0 | 1.0 | 100 % |" in report.ratios()
    assert json.loads(report.json())["rows"][0]["rounds"] == rounds
    assert [table.row_count for table in report.tables()] == [3]


def test_large_numbers_fit_into_80_columns() -> None:
    """A slow program's times are whole where the terminal's width is not known."""
    slow = measured("kube-scheduler", 1_062.4) | {"p50_ms": 109_800, "p99_ms": 123_456, "start_to_last_s": 188.2}
    report = PeerReport([PeerRow("Plain/5000Nodes", PENDING, [[slow]])])
    console = Console(file=StringIO(), width=80)
    console.print(*report.tables())
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert {"109,800", "123,456", "188.2"} <= set(shown.split())
    assert "…" not in shown


def test_markdown_goes_between_the_marks_of_a_page(tmp_path: Path) -> None:
    """A page keeps its text; a new file has the tables alone."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n")
    write_markdown(page, "new\n")
    assert page.read_text() == "before\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nafter\n"
    write_markdown(tmp_path / "other.md", "new\n")
    assert (tmp_path / "other.md").read_text() == "new\n"


def test_missing_parts_say_how_to_get_them(tmp_path: Path) -> None:
    """Without a real control plane the error names the folder and what to run."""
    with pytest.raises(PartsMissingError, match=r"kube-scheduler in .*; run make parts"):
        find_parts(tmp_path)


def test_names_of_workloads_are_readable() -> None:
    """Words and numbers instead of the names in the files."""
    assert readable("HostAntiAffinity/5000Nodes") == "host anti-affinity, 5,000 nodes"
    assert readable("Preemption/1000Nodes_200Pods") == "preemption, 1,000 nodes, 200 pods"
    assert readable("Other") == "other"


def test_a_program_that_ended_is_named(tmp_path: Path) -> None:
    """Asking for the CPU time of a program that has ended says so, with its exit code and its last words."""
    program = ChildProcess("null binder", [sys.executable, "-c", "exit('no nodes')"], tmp_path / "log")
    program._process.wait()
    with pytest.raises(ProcessEndedError, match=r"null binder ended with exit code 1:\nno nodes"):
        program.usage()
