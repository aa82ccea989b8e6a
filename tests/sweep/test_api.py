"""Sweeping and tuning from Python, with data frames."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kubesched.simulator import ScenarioFileError
from kubesched.sweep import ExecutorError, TuningError, opened_executor, sweep, tune
from kubesched.sweep.jobs import Job, run_job


def test_a_sweep_has_a_frame_per_run_and_per_metric(scenario: Path, packed: Path, tmp_path: Path) -> None:
    """Two configurations, one as a file and one as a dict; a file with results; an executor that stays open."""
    configs = {"packed": packed, "default": {"profiles": []}}
    with ThreadPoolExecutor(1) as executor:
        runs = sweep(scenario, configs=configs, seeds=(1, 2), results=tmp_path / "r.db", executor=executor)
        again = sweep([scenario], configs=configs, seeds=(1, 2), results=tmp_path / "r.db", executor=executor)
        assert executor.submit(int).result() == 0
    assert again.to_dict() == runs.to_dict()
    assert runs.failed == []
    frame = runs.to_frame()
    assert frame[["config", "seed"]].values.tolist() == [["packed", 1], ["packed", 2], ["default", 1], ["default", 2]]
    used = frame.groupby("config")["nodesUsed"].mean()
    assert used["packed"] < used["default"]
    summary = runs.summary_frame()
    row = summary[(summary["config"] == "packed") & (summary["metric"] == "bound")].iloc[0]
    assert (row["scenario"], row["mean"], row["low"], row["high"]) == ("ten.py", 10.0, 10.0, 10.0)


def test_tuning_returns_a_configuration_and_an_honest_gain(scenario: Path) -> None:
    """Packing uses fewer nodes; the frames have what the table of the command has."""
    pytest.importorskip("optuna")
    with ThreadPoolExecutor(1) as executor:
        found = tune(
            scenario,
            arguments=["NodeResourcesFit.scoringStrategy.type=LeastAllocated|MostAllocated"],
            weights=["NodeResourcesFit=1..50"],
            minimise=["nodesUsed"],
            trials=6,
            seeds=(1, 2),
            held_out=(3, 4),
            executor=executor,
        )
    frame = found.to_frame()
    assert frame["taken"].sum() == 1
    assert frame.columns[1] == "nodesUsed"
    gains = found.gains_frame()
    assert gains["metric"].tolist() == ["nodesUsed"]
    assert gains["low"][0] <= gains["gain"][0] <= gains["high"][0]
    assert found.to_dict()["config"] == found.config


def test_problems_are_raised_before_anything_runs(tmp_path: Path, scenario: Path) -> None:
    """A file that is not there, an objective that is missing, an executor that does not exist."""
    with pytest.raises(ScenarioFileError, match="there is no such file"):
        sweep(tmp_path / "none.py")
    with pytest.raises(TuningError, match="give minimise or maximise"):
        tune(scenario, weights=["NodeResourcesFit=0..10"])
    with pytest.raises(ExecutorError, match="give processes"):
        sweep(scenario, seeds=(1,), executor="nothing")


def test_joblib_does_the_same(scenario: Path) -> None:
    """The same run in a process of joblib's."""
    pytest.importorskip("joblib")
    (run,) = sweep(scenario, seeds=(5,), executor="joblib", workers=1)
    assert run.outcome.metrics == run_job(Job(str(scenario), None, "own", 5)).metrics


def test_ray_does_the_same(scenario: Path) -> None:
    """The same run in a process of Ray's, if Ray is installed."""
    pytest.importorskip("ray")
    (run,) = sweep(scenario, seeds=(5,), executor="ray", workers=1)
    assert run.outcome.metrics == run_job(Job(str(scenario), None, "own", 5)).metrics


def test_an_executor_that_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command."""
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ExecutorError, match=r"pip install 'kubesched\[ray\]'"), opened_executor("ray"):
        pass
