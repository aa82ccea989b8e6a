"""`kubesched bench`: its tables, and what it writes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from kubesched.bench import decisions, loop
from kubesched.bench.sampler import PARTS
from kubesched.bench.workloads import WORKLOADS, BenchWorkload, plain
from kubesched.cli.main import main

TINY = BenchWorkload("plain", 3, 0, 20, plain)
SAMPLED = BenchWorkload("plain", 40, 0, 300, plain)
"""Long enough for a sample in every part of the scheduler."""


def test_a_workload_in_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The chosen workloads are measured, shown within 80 columns and written as JSON; the others are left alone."""
    asked = []

    def measure(workload: BenchWorkload, nodes: int | None) -> decisions.DecisionResult:
        asked.append(workload)
        return decisions.measure(TINY)

    monkeypatch.setattr(decisions, "measure_apart", measure)
    file = tmp_path / "results.json"
    arguments = ["bench", "plain", "--output", str(file)]
    result = CliRunner().invoke(main, arguments, env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == 0
    assert asked == [workload for workload in WORKLOADS if workload.name == "plain"]
    assert "one node at a time" in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert all(set(row) == set(decisions.DecisionResult.__annotations__) for row in json.loads(file.read_text("utf-8")))


def test_another_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --nodes every workload runs once, on so many nodes; it is refused where a file has the workloads."""
    asked = []

    def measure(workload: BenchWorkload, nodes: int | None) -> decisions.DecisionResult:
        asked.append((workload.name, nodes))
        return decisions.measure(TINY)

    monkeypatch.setattr(decisions, "measure_apart", measure)
    arguments = ["bench", "--nodes", "7", "spread-hard", "plain"]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0
    assert asked == [("plain", 7), ("spread-hard", 7)]
    refused = CliRunner().invoke(main, ["bench", "--nodes", "7", "--scheduler-perf", "."])
    assert refused.exit_code == 2
    assert "--nodes" in refused.output


def test_a_process_of_its_own() -> None:
    """A workload is measured in another process and returns the same fields."""
    result = decisions.measure_apart(WORKLOADS[0], 700)
    assert (result["workload"], result["nodes"]) == (WORKLOADS[0].name, 700)
    assert result["pods_per_s"] > 0
    assert result["ratio_one_at_a_time"] > 1


def test_ctrl_c_ends_it_in_a_word() -> None:
    """Neither the command nor the process that measures leaves a traceback, and nothing stays behind."""
    # A shell's background job, which these tests may be part of, ignores the signal.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from kubesched.cli.main import main; main()"
    command = [sys.executable, "-c", program, "bench"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as bench:
        children = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
        # It has a group of its own: the terminal sends the signal to all of a group.
        while not (started := children.read_text("utf-8").split()) or os.getpgid(int(started[0])) == bench.pid:
            assert bench.poll() is None
            time.sleep(0.01)
        time.sleep(0.3)  # into its imports
        os.killpg(bench.pid, signal.SIGINT)
        said = bench.communicate(timeout=180)[1]
    assert (said.strip(), bench.returncode) == ("Aborted!", 1)
    assert len(started) == 1
    assert not Path(f"/proc/{started[0]}").exists()


def test_the_whole_loop() -> None:
    """Pods go through the loop, and the table tells which parts of the scheduler their cost belongs to."""
    results = loop.run((SAMPLED,), rounds=1)
    assert results[0]["pods_per_s"] > 0
    assert set(results[0]["microseconds"]) <= set(PARTS)
    shown = io.StringIO()
    Console(width=80, file=shown).print(loop.table([*results, *results]))
    lines = shown.getvalue().splitlines()
    assert any("plain, 40 nodes" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_workload_that_does_not_exist() -> None:
    """An unknown name is refused with those there are."""
    result = CliRunner().invoke(main, ["bench", "plian"])
    assert result.exit_code == 2
    assert "'plian' is not one of 'plain', 'node-affinity'" in result.stderr


def test_workloads_of_scheduler_perf(tmp_path: Path) -> None:
    """Workloads of a folder are listed, and those chosen by name run, are shown and are written as JSON."""
    text = (
        "- name: Small\n  workloadTemplate:\n"
        "  - {opcode: createNodes, count: 2}\n  - {opcode: createPods, count: 3, collectMetrics: true}\n"
        "  workloads: [{name: one, labels: [short]}, {name: two, featureGates: {SchedulerQueueingHints: false}}]\n"
    )
    (tmp_path / "performance-config.yaml").write_text(text)
    listed = CliRunner().invoke(main, ["bench", "--scheduler-perf", str(tmp_path), "--list"], catch_exceptions=False)
    assert listed.stdout.splitlines()[0] == "Small/one [short]"
    assert "Small/two: cannot run: feature gate SchedulerQueueingHints is locked" in listed.stdout
    file = tmp_path / "results.json"
    ran = CliRunner().invoke(
        main, ["bench", "--scheduler-perf", str(tmp_path), "Small", "--output", str(file)], catch_exceptions=False
    )
    assert "not run: Small/two" in ran.stderr
    assert [result["throughput"].keys() for result in json.loads(file.read_text())["results"]] == [
        {"namespace-1"},
        set(),
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--peer"], "add --scheduler-perf DIR"),
        (["--scheduler-perf", ".", "--load", "fast"], "neither pending, as-written nor a number"),
    ],
)
def test_wrong_options_of_bench(arguments: list[str], problem: str) -> None:
    """Options that do not go together, and a load that is none, are refused with what to do."""
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())
