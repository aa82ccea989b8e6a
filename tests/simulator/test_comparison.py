"""Comparisons: the same arrivals under several configurations, with intervals, and conditions for CI."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kubesched.base.intervals import in_digits
from kubesched.cli.main import main
from kubesched.explain.document import Table
from kubesched.simulator import compare
from kubesched.simulator.comparison import ScenarioComparison, Variant, VariantRun, check_condition, holds
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
    assert found.moved(found.variants[1]).mean == 0
    assert len(found.to_frame()) == 2
    with pytest.raises(ScenarioFileError, match="has no run with seed 7"):
        compare(files / "s.yaml", saved, seeds=[7])
    for name, content in (("deep", b'{"variants": ' + b"[" * 5000), ("binary", b'{"variants": ["\xff"]}')):
        (files / f"{name}.json").write_bytes(content)
    for name in ("packed.json", "deep.json", "binary.json"):
        assert f"{name}: not the JSON of kubesched compare" in run(files / name, "--from", files / "s.yaml").output


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


def paired(*differences: float) -> ScenarioComparison:
    """Two variants whose runs differ by these numbers of pending pods."""
    runs = [
        tuple(VariantRun(seed, {"pending": seed + add * part}, {}) for seed, add in enumerate(differences, 1))
        for part in (0, 1)
    ]
    return ScenarioComparison("s", (Variant("A", "a", runs[0]), Variant("B", "b", runs[1])))


@pytest.mark.parametrize(
    ("differences", "interval", "clear"),
    [
        ((1.0, 2.0, 3.0), (-0.48, 4.48), False),
        ((1.0, 3.0), (-10.71, 14.71), False),
        ((1.0, 1.0), (1.0, 1.0), True),
        ((0.0, 0.0), (0.0, 0.0), False),
        (tuple([1.0, -1.0] * 10 + [0.9]), (-0.42, 0.51), False),  # 21 seeds: Student's 2.086, not the normal 1.96
    ],
)
def test_intervals_are_those_of_paired_differences(
    differences: tuple[float, ...], interval: tuple[float, float], clear: bool
) -> None:
    """Student's interval of the mean difference, for any number of seeds."""
    comparison = paired(*differences)
    found = comparison.difference(comparison.variants[1], "pending")
    assert (round(found.low, 2), round(found.high, 2), found.excludes_zero) == (*interval, clear)


def test_one_run_is_not_certain() -> None:
    """A single difference has no interval: null in JSON, no star in the table."""
    found = paired(1.0)
    difference = found.to_dict()["summary"]["B"]["pending"]["difference"]
    assert difference == {"mean": 1.0, "low": None, "high": None}
    assert not found.difference(found.variants[1], "pending").excludes_zero
    json.dumps(found.to_dict(), allow_nan=False)


def test_equal_zeros_do_not_fail() -> None:
    """Nothing pending in either is no increase, though there is no quotient; from nothing to something is one."""
    found = paired(-1.0)  # 1 and 0 pending pods
    assert not holds(found, "B.pending / B.pending > 1.1")
    assert not holds(found, "B.pending / B.pending <= 1.1")
    assert holds(found, "A.pending / B.pending > 1.1")


def test_mistakes_show_before_anything_runs(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong condition or a wrong last configuration is refused at once: runs may take hours."""
    monkeypatch.setattr("kubesched.simulator.comparison._run", None)
    (files / "bad.yaml").write_text("kind: KubeSchedulerConfiguration\nprofile: []\n")
    common = ("default", "--from", files / "s.yaml")
    for arguments, problem in (
        (("--fail-if", "A.pending > 0 or A.pendin > 1"), "there is no measure 'pendin'"),
        (("--fail-if", "A.pending < 0 and B.pending > 1"), "there is no variant B; there are A"),
        (("--fail-if", "A.pending > "), "cannot be read; write it as"),
        ((files / "bad.yaml",), "profile"),
        ((files / "none.json",), "not the JSON of kubesched compare"),
        (("default",) * 26, "from 1 to 26 variants"),
    ):
        result = run(*common, *arguments)
        assert result.exit_code == 1
        assert problem in result.output
    with pytest.raises(ValueError, match="one or more seeds"):
        compare(files / "s.yaml", "default", seeds=())
    check_condition("B.moved > 3 and -A.cost <= 1", 2)


def test_measures() -> None:
    """What an average pod cannot use, and the value below which 99 of 100 are."""
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    usage = [NodeUsage(0.0), NodeUsage(0.0)]
    for each, used in zip(usage, (3000, 1000), strict=True):
        each.milli_cpu, each.memory, each.max_pods = 4000, 2**30, 110
        each.cpu_load.change(used, 0.0)
        each.pods_load.change(1, 0.0)
    assert fragmentation(usage) == 0.5


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (1082.4, "+1,082"), (-119.0, "-119"), (0.37125, "+0.371"), (999.6, "+1,000")]
)
def test_differences_are_numbers_without_exponents(value: float, shown: str) -> None:
    """A large number has commas and no exponent; no difference is 0, without a sign."""
    assert in_digits(value, 3, sign="+") == shown


def test_no_difference_in_any_run_has_no_interval(files: Path) -> None:
    """Where all runs agree, the table says 0."""
    table = run("default", "default", "--from", files / "s.yaml", "--seeds", "2").stdout
    assert "[" not in table
    assert re.search(r"^bound +2 +2 +0$", table, re.MULTILINE)
