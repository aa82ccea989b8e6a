"""Comparisons: the same arrivals under several configurations, with intervals, and conditions for CI."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cli.main import main
from kubesched.explain.document import Table
from kubesched.simulator import compare
from kubesched.simulator.comparison import ScenarioComparison, Variant, VariantRun, holds, interval
from kubesched.simulator.measures import fragmentation, percentile
from kubesched.simulator.scenario import ScenarioFileError
from kubesched.simulator.usage import NodeUsage

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
SCENARIO = """
objects:
- {apiVersion: v1, kind: Node, metadata: {name: a}}
- {apiVersion: v1, kind: Node, metadata: {name: b}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 9}
steps:
- {count: 2, create: {apiVersion: v1, kind: Pod, metadata: {name: "p{i}"}, spec: {containers: [
    {name: m, image: x, resources: {requests: {cpu: 1}}}]}}}
- {at: 5s, create: {apiVersion: v1, kind: Pod, metadata: {name: wide}, spec: {containers: [
    {name: m, image: x, resources: {requests: {cpu: 4}}}]}}}
duration: 1m
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a configuration and a scenario in which packing lets a wide pod fit."""
    (tmp_path / "packed.yaml").write_text(PACKED)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return tmp_path


def run(*arguments: str | Path) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def test_packing_leaves_room_for_a_wide_pod(files: Path) -> None:
    """Pending pods, used nodes, moves and the exit code for CI."""
    common = ("default", files / "packed.yaml", "--from", files / "s.yaml", "--seeds", "3")
    result = run(
        *common, "-o", "json", "--fail-if", "A.pending > B.pending + 0.5", "--fail-if", "B.pending > A.pending"
    )
    assert result.exit_code == 3, result.output
    assert result.stderr.strip().splitlines() == ["failed: A.pending > B.pending + 0.5"]
    found = json.loads(result.stdout)
    pending = found["summary"]["B"]["pending"]
    assert pending == {"mean": 0.0, "difference": {"mean": -1.0, "low": -1.0, "high": -1.0}}
    assert found["summary"]["B"]["moved"] >= 1
    assert [each["seed"] for each in found["variants"][0]["runs"]] == [1, 2, 3]
    table = run(*common, "--fail-if", "B.pending > A.pending")
    assert table.exit_code == 0
    assert "-1 [-1, -1] *" in table.stdout
    assert "<table>" in run(*common, "-o", "html").stdout


def test_results_of_another_version_are_a_variant(files: Path) -> None:
    """The JSON of a comparison stands for its first variant; seeds that it lacks are named."""
    saved = files / "before.json"
    saved.write_text(run("default", "--from", files / "s.yaml", "-o", "json").stdout)
    found = compare(files / "s.yaml", saved, "default")
    assert found.variants[0].name == "before.json: default"
    assert found.moved(found.variants[1]) == 0
    assert len(found.to_frame()) == 2
    with pytest.raises(ScenarioFileError, match="has no run with seed 7"):
        compare(files / "s.yaml", saved, seeds=[7])
    assert "not the JSON of kubesched compare" in run(files / "packed.json", "--from", files / "s.yaml").output


def test_the_pods_of_a_snapshot_are_scheduled_anew(files: Path) -> None:
    """All of them, unless they are to be kept."""
    meta = {"resourceVersion": "1", "uid": "u"}
    spec = {"nodeName": "a", "containers": [{"name": "m", "image": "x", "resources": {"requests": {"cpu": "3"}}}]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": name, "uid": name}, "spec": spec}
        for name in ("p", "q")
    ]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("a", "b")]
    file = files / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*nodes, *pods]))
    again = compare(file, "default")
    assert sorted(again.variants[0].runs[0].nodes.values()) == ["a", "b"]
    kept = compare(file, "default", keep=True)
    assert sorted(kept.variants[0].runs[0].nodes.values()) == ["a", "a"]


def comparison() -> ScenarioComparison:
    """Two variants with known numbers."""
    runs = [(VariantRun(1, {"pending": value}, {"p": "a"}),) for value in (2.0, 3.0)]
    return ScenarioComparison("s", (Variant("A", "a", runs[0]), Variant("B", "b", runs[1])))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("B.pending > A.pending", True),
        ("B.pending > A.pending * 1.6", False),
        ("A.pending == 2 and B.pending - A.pending >= 1", True),
        ("A.pending / B.moved > 5 or -1 > 0", True),
    ],
)
def test_conditions(condition: str, expected: bool) -> None:
    """Measures of variants, numbers, arithmetic and comparisons."""
    assert holds(comparison(), condition) is expected


@pytest.mark.parametrize(
    "condition", ["", "B.pending >", "__import__('os')", "B.pending.x > 1", "C.pending > 1", "A.x > 1"]
)
def test_conditions_that_cannot_be_read(condition: str) -> None:
    """Anything else is refused with words that help."""
    with pytest.raises(ValueError, match=r"cannot be read; write it as|there is no (variant|measure)"):
        holds(comparison(), condition)


@given(st.text(max_size=30))
def test_any_condition_is_a_verdict_or_a_message(text: str) -> None:
    """Nothing else is raised, and nothing is executed."""
    with suppress(ValueError):
        assert holds(comparison(), text) in (True, False)


def test_one_run_has_no_interval() -> None:
    """Its difference is shown without an interval that would look certain."""
    table = next(each for each in comparison().document() if isinstance(each, Table) and "B - A" in each.columns)
    assert ["pending", "2", "3", "+1"] in [list(row) for row in table.rows]


def test_intervals_and_measures() -> None:
    """Student's interval of paired differences; what an average pod cannot use."""
    found = interval([1.0, 2.0, 3.0])
    assert (found.mean, round(found.low, 2), round(found.high, 2), found.is_clear) == (2.0, -0.48, 4.48, False)
    assert interval([1.0, 1.0]).is_clear
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    usage = [NodeUsage(0.0), NodeUsage(0.0)]
    for each, used in zip(usage, (3000, 1000), strict=True):
        each.milli_cpu, each.memory, each.max_pods = 4000, 2**30, 110
        each.cpu_load.change(used, 0.0)
        each.pods_load.change(1, 0.0)
    assert fragmentation(usage) == 0.5
