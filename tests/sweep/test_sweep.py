"""Many runs: side by side, resumable, and with honest means."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner, Result

from kubesched.base.intervals import mean_interval, student_t
from kubesched.cli.main import main
from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.sweep.executors import opened_executor
from kubesched.sweep.jobs import METRICS, Job, RunOutcome, measured, run_job
from kubesched.sweep.results import SweepResults
from kubesched.sweep.sweeping import Progress, run_jobs

THREADS = "tests.sweep.test_sweep:threads"
"""Processes take a second to start each; what runs in them is the same."""


def threads() -> ThreadPoolExecutor:
    """An executor for tests: one thread, because simulations share the interpreter."""
    return ThreadPoolExecutor(1)


def invoke(*args: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, [str(each) for each in args])


def test_the_help_keeps_its_lines() -> None:
    """Examples and metrics stand in lines of their own, as they are written."""
    lines = invoke("sweep", "--help").output.splitlines()
    assert any(line.startswith("  kubesched sweep scenarios/ --seeds 1-5") for line in lines)
    assert "  pending        pods without a node at the end" in lines


def test_scenarios_by_configurations_by_seeds(scenario: Path, packed: Path, tmp_path: Path) -> None:
    """Every combination runs once; arrivals differ by seed alone; the packed configuration uses fewer nodes."""
    spread = tmp_path / "spread.yaml"
    spread.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    configs = ("--config", spread, "--config", packed)
    result = invoke("sweep", scenario, *configs, "--seeds", "1-3,7", "-o", "json", "--executor", THREADS)
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)
    assert [(each["config"], each["seed"]) for each in runs] == [
        (c, s) for c in ("spread", "packed") for s in (1, 2, 3, 7)
    ]
    metrics = {(each["config"], each["seed"]): each["metrics"] for each in runs}
    assert set(metrics["spread", 1]) == set(METRICS)
    assert all(metrics["packed", s]["nodesUsed"] < metrics["spread", s]["nodesUsed"] == 4 for s in (1, 2, 3, 7))
    assert all(
        metrics["packed", s]["cpu"] == pytest.approx(metrics["spread", s]["cpu"], rel=1e-3) for s in (1, 2, 3, 7)
    )
    assert len({metrics["packed", s]["cpu"] for s in (1, 2, 3, 7)}) > 1
    assert "cpuSpread" in invoke("sweep", scenario, "--seeds", "1-2", "--executor", THREADS).stdout


def test_the_default_configuration_needs_no_file(scenario: Path, packed: Path) -> None:
    """The word default is kube-scheduler's configuration, also where the scenario has another."""
    scenario.write_text(f"{scenario.read_text()}\nconfig = {str(packed)!r}\n")
    args = ("--config", "default", "--config", packed, "--seeds", "1", "-o", "json", "--executor", THREADS)
    result = invoke("sweep", scenario, *args)
    assert result.exit_code == 0, result.output
    nodes = {each["config"]: each["metrics"]["nodesUsed"] for each in json.loads(result.stdout)}
    assert nodes["packed"] < nodes["default"] == 4
    refused = invoke("sweep", scenario, "--config", "missing.yaml")
    assert "file 'missing.yaml' does not exist; give a file or the word default" in refused.output


def test_pods_without_requests_use_nodes_too() -> None:
    """The number of used nodes counts pods, not only what they request."""
    scenario = Path(__file__).parents[2] / "examples" / "scenarios" / "node10.yaml"
    assert run_job(Job(str(scenario), None, "own", 1)).metrics["nodesUsed"] == 1


def test_an_interrupted_sweep_goes_on(scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the file is not run again, unless the scenario changed or the run had failed."""
    database = tmp_path / "results.db"
    common = ("sweep", scenario, "--results", database, "--executor", THREADS, "-o", "json")
    first = json.loads(invoke(*common, "--seeds", "1-2").stdout)
    ran: list[int] = []

    def counted(job: Job) -> Any:
        ran.append(job.seed)
        return run_job(job)

    monkeypatch.setattr("kubesched.sweep.sweeping.run_job", counted)
    again = json.loads(invoke(*common, "--seeds", "1-3").stdout)
    assert (ran, again[:2]) == ([3], first)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE runs SET error = 'out of memory' WHERE seed = 2")
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    connection.close()
    invoke(*common, "--seeds", "1-3")
    assert ran == [3, 2]
    scenario.write_text(scenario.read_text() + "\n# changed\n")
    invoke(*common, "--seeds", "1")
    assert ran == [3, 2, 1]


def test_what_decides_a_result_is_in_its_key(scenario: Path, tmp_path: Path) -> None:
    """The arrivals of an imported trace are beside the scenario, and so may be files that it names; a large file is
    read once, not for every run."""
    job = Job(str(scenario), None, "own", 1)
    before = job.key
    arrivals = scenario.with_suffix(".trace.jsonl.gz")
    arrivals.write_bytes(b"one")
    assert (first := job.key) != before
    arrivals.write_bytes(b"other")
    assert job.key != first
    named = tmp_path / "sizes.csv"
    scenario.write_text(f"{scenario.read_text()}\nSIZES = 'sizes.csv'\n")
    without = job.key
    named.write_text("1,2")
    assert (second := job.key) != without
    named.write_text("1,3")
    assert job.key != second
    with mock.patch("hashlib.file_digest", None):
        assert len({Job(str(scenario), None, "own", seed).key for seed in range(5)}) == 5


def test_metrics_are_those_of_compare() -> None:
    """What has the same name is the same number, so that a sweep can follow a comparison."""
    report = run(load(Path(__file__).parents[2] / "examples/scenarios/autoscaling.yaml"), 1)
    metrics = measured(report)
    same = {"cpu": "cpu", "memory": "memory", "fragmentation": "fragmentation", "nodesUsed": "nodes_used"}
    assert {name: metrics[name] for name in same} == {name: report.measures[other] for name, other in same.items()}


def test_runs_that_lack_a_metric_are_repeated(scenario: Path, tmp_path: Path) -> None:
    """An older version stored fewer metrics."""
    job = Job(str(scenario), None, "own", 1)
    with SweepResults(tmp_path / "r.db") as results:
        results.add(job, RunOutcome({"bound": 1.0}))
        assert results.find(job) is None


def test_costs_are_measured() -> None:
    """Price and hours of node groups are metrics, so that they can be tuned."""
    found = run_job(Job(str(Path(__file__).parents[2] / "examples/scenarios/autoscaling.yaml"), None, "own", 1)).metrics
    assert 0.2 < found["cost"] < 0.5
    assert found["nodeHours"] > 0.5


def test_processes_do_the_same(scenario: Path) -> None:
    """The executor of the command line gives the results of this process."""
    result = invoke("sweep", scenario, "--seeds", "5", "-j", "1", "-o", "json")
    assert result.exit_code == 0, result.output
    (run,) = json.loads(result.stdout)
    assert run["metrics"] == run_job(Job(str(scenario), None, "own", 5)).metrics


def test_a_dask_cluster_does_the_same(scenario: Path) -> None:
    """The same runs through a local Dask cluster."""
    distributed = pytest.importorskip("distributed")
    alone = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**alone, protocol="tcp://") as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tcp://")
        result = invoke("sweep", scenario, "--seeds", "5-6", "-o", "json", "--executor", f"dask:{address}")
        assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)
    assert [each["metrics"] for each in runs] == [run_job(Job(str(scenario), None, "own", s)).metrics for s in (5, 6)]


def test_progress_has_the_time_left(scenario: Path) -> None:
    """It counts what was there already, what was run and what failed, and estimates the rest."""
    jobs = [Job(str(scenario), None, "own", seed) for seed in (1, 2)]
    jobs.append(Job(str(scenario), {"profiles": [{"schedulerNam": "x"}]}, "bad", 1))
    seen: list[tuple[int, int, bool]] = []

    def shown(progress: Progress) -> None:
        seen.append((progress.done, progress.failed, progress.seconds_left is not None))

    with SweepResults(None) as results, threads() as executor:
        runs = run_jobs(jobs, results, executor, shown)
    # Runs end in any order.
    assert (seen[0], seen[-1]) == ((0, 0, False), (3, 1, True))
    assert [(done, has_estimate) for done, _, has_estimate in seen[1:]] == [(1, True), (2, True), (3, True)]
    assert "did you mean schedulerName?" in runs[2].outcome.error


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--seeds", "ten"), "'ten' is neither a seed nor a range of seeds such as 1-10"),
        (("--seeds", "²"), "'²' is neither a seed"),
        (("--seeds", "1-1000000000000"), "has more than 1000000 seeds"),
        (("--seeds", f"1-{'9' * 5000}"), "is neither a seed"),
        (("--executor", "nothing"), "give processes, joblib, dask:ADDRESS, ray or module:function"),
        (("--executor", "json:dumps"), "json:dumps: dumps() missing"),
        (("--executor", "builtins:dict"), "returned dict, not a concurrent.futures.Executor"),
        (("--results", "/"), "--results"),
    ],
)
def test_what_is_wrong_is_said(args: tuple[str, ...], problem: str, scenario: Path) -> None:
    """An error names the option and the value."""
    result = invoke("sweep", scenario, "--seeds", "1", *args)
    assert result.exit_code != 0
    assert problem in result.output


def test_a_failed_run_fails_the_sweep(tmp_path: Path) -> None:
    """The exit code is 1 and standard error has the reason; other runs count."""
    path = tmp_path / "bad.py"
    path.write_text("async def scenario(client):\n    assert client.random.random() < 0, 'never'\n")
    result = invoke("sweep", path, "--seeds", "1", "--executor", THREADS)
    assert result.exit_code == 1
    assert "never" in result.stderr


def test_intervals_are_students() -> None:
    """The quantiles of a table of Student's t, and the interval of a known sample."""
    table: Iterator[tuple[int, float]] = iter(
        [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)]
    )
    for freedom, expected in table:
        assert student_t(0.975, freedom) == pytest.approx(expected, rel=2e-3)
    found = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.half == pytest.approx(3.182 * 1.29099 / 2, rel=2e-3)
    assert mean_interval([1.0]).half == inf


def test_ctrl_c_ends_processes_without_a_word() -> None:
    """A process that runs scenarios ends at SIGINT as other programs do, without a traceback."""
    with opened_executor(workers=1) as executor:
        assert executor.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_DFL


def test_processes_end_with_the_one_that_is_killed(tmp_path: Path) -> None:
    """A sweep that is killed leaves no processes behind that wait for work."""
    program = (
        "import os, time\n"
        "from kubesched.sweep.executors import opened_executor\n"
        "if __name__ == '__main__':\n"
        "    with opened_executor(workers=1) as executor:\n"
        "        print(executor.submit(os.getpid).result(), flush=True)\n"
        "        time.sleep(600)\n"
    )
    path = tmp_path / "sweep.py"
    path.write_text(program)
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
        try:
            parent.communicate(timeout=30)  # until nobody has this end of the pipe any more
        except subprocess.TimeoutExpired:
            os.kill(worker, signal.SIGKILL)
            pytest.fail("the process waits for more work")
