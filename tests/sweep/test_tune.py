"""Tuning finds what is better, writes a configuration, and measures the gain on other arrivals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubesched.cli.main import main
from kubesched.config.load import load
from kubesched.sweep.space import SpaceError, configured, parameters

THREADS = "tests.sweep.test_sweep:threads"
STRATEGY = "NodeResourcesFit.scoringStrategy.type=LeastAllocated|MostAllocated"


def invoke(*args: object) -> Result:
    """Run the command on one thread."""
    return CliRunner().invoke(main, ["tune", *map(str, args), "--executor", THREADS])


def test_it_finds_a_better_configuration(scenario: Path, tmp_path: Path) -> None:
    """Fewer nodes used, with an interval above 0 on other seeds; the result loads, and simulates as promised."""
    pytest.importorskip("optuna")
    out = tmp_path / "tuned.yaml"
    result = invoke(
        *(scenario, "--weight", "NodeResourcesBalancedAllocation=0..1", "--weight", "NodeResourcesFit=5..10"),
        *("--weight", "PodTopologySpread=0..0", "--arg", STRATEGY, "--minimise", "nodesUsed"),
        *("--trials", 6, "--seeds", "1-2", "--held-out", "11-14", "--output", out, "-o", "json"),
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    gain = found["gains"]["nodesUsed"]
    assert gain["shown"]
    assert gain["interval"][0] > 0
    assert gain["tuned"] < gain["base"] == 4
    assert found["chosen"]["NodeResourcesFit.scoringStrategy.type"] == "MostAllocated"
    load(yaml.safe_load(out.read_text()), str(out))
    runs = CliRunner().invoke(
        main, ["sweep", str(scenario), "--config", str(out), "--seeds", "11-14", "-o", "json", "--executor", THREADS]
    )
    used = [each["metrics"]["nodesUsed"] for each in json.loads(runs.stdout)]
    assert sum(used) / 4 == gain["tuned"]


def test_several_objectives_have_a_pareto_table(scenario: Path) -> None:
    """Fewer nodes and an even load contradict each other: no configuration in the table beats another in both."""
    pytest.importorskip("optuna")
    args = (scenario, "--arg", STRATEGY, "--weight", "NodeResourcesFit=1..10", "--trials", 5, "--seeds", "1")
    result = invoke(*args, "--held-out", "2,3", "--minimise", "nodesUsed", "--minimise", "cpuSpread", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    values = [tuple(each["values"].values()) for each in found["pareto"]]
    for one in values:
        assert not any(all(a <= b for a, b in zip(other, one, strict=True)) and other != one for other in values)
    shown = invoke(*args, "--held-out", "2,3", "--minimise", "nodesUsed", "--maximise", "bound").stdout
    assert "With 2 other seeds, in pairs" in shown
    assert "no difference shown" in shown
    assert "…" not in shown, "values are cut off"
    assert "more with the same result" in shown


def test_one_held_out_seed_has_no_interval(scenario: Path, tmp_path: Path) -> None:
    """JSON stays valid, and a result that cannot be written is printed: it took long to find."""
    pytest.importorskip("optuna")
    args = (scenario, "--arg", STRATEGY, "--trials", 1, "--seeds", "1", "--held-out", "2", "--minimise", "nodesUsed")
    found = json.loads(invoke(*args, "-o", "json").stdout, parse_constant=pytest.fail)
    assert (found["gains"]["nodesUsed"]["interval"], found["gains"]["nodesUsed"]["shown"]) == (None, False)
    load(found["config"], "found")
    result = invoke(*args, "--output", tmp_path / "none" / "tuned.yaml")
    assert result.exit_code == 1
    assert "tuned.yaml: No such file or directory; the configuration is above" in result.stderr
    assert "kind: KubeSchedulerConfiguration" in result.stdout


def test_missing_optuna_is_said_at_once(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the base configuration has run for an hour."""
    monkeypatch.setattr("kubesched.sweep.tuning.find_spec", lambda _name: None)
    monkeypatch.setattr("kubesched.sweep.sweeping.run_job", None)
    result = invoke(scenario, "--arg", STRATEGY, "--minimise", "nodesUsed")
    assert (result.exit_code, result.stderr) == (1, "Error: tuning needs Optuna: pip install 'kubesched[tune]'\n")


def test_values_go_where_they_belong() -> None:
    """Weights at Score, 0 as disabled; arguments at their path, in lists too; what was there stays."""
    weight, off, kind, share = parameters(
        ["NodeAffinity=1..9", "ImageLocality=0..5"],
        ["NodeResourcesFit.scoringStrategy.type=A|B", "NodeResourcesFit.scoringStrategy.resources[0].weight=1..5"],
    )
    base: dict[str, Any] = {
        "profiles": [
            {
                "schedulerName": "mine",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 1}]}},
                    }
                ],
            }
        ]
    }
    (profile,) = configured(base, {weight: 7, off: 0, kind: "B", share: 3})["profiles"]
    assert profile["plugins"]["score"] == {
        "disabled": [{"name": "NodeAffinity"}, {"name": "ImageLocality"}],
        "enabled": [{"name": "NodeAffinity", "weight": 7}],
    }
    strategy = {"resources": [{"name": "cpu", "weight": 3}], "type": "B"}
    assert profile["pluginConfig"] == [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    assert base["profiles"][0]["pluginConfig"][0]["args"] == {
        "scoringStrategy": {"resources": [{"name": "cpu", "weight": 1}]}
    }


@pytest.mark.parametrize(
    ("weights", "args", "problem"),
    [
        ([], [], "there is nothing to search"),
        (["NodeAffinity"], [], "expected PLUGIN=0..10"),
        (["NodeAffinity=9..1"], [], "expected a range from 0 to 100"),
        (["NodeAffinity=a|b"], [], "a weight needs a range"),
        ([], ["NodeAffinity=1..2"], "expected PLUGIN.path.to.field=1..5"),
        (["A=1..2", "A=1..3"], [], "A is there twice"),
    ],
)
def test_a_bad_parameter_is_refused(weights: list[str], args: list[str], problem: str) -> None:
    """The message has the text and the form that is expected."""
    with pytest.raises(SpaceError, match=problem.replace(".", r"\.")):
        parameters(weights, args)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ((), "give --minimise METRIC or --maximise METRIC; the metrics are bound, pending"),
        (("--minimise", "fun"), "there is no metric 'fun'"),
        (("--minimise", "pending", "--held-out", "1"), "share a seed"),
    ],
)
def test_a_bad_task_is_refused(args: tuple[str, ...], problem: str, scenario: Path) -> None:
    """Metrics that do not exist, and a test on what was tuned on."""
    result = invoke(scenario, "--weight", "NodeAffinity=1..2", "--seeds", "1", *args)
    assert result.exit_code != 0
    assert problem in result.output
