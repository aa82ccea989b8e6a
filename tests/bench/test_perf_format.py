"""scheduler_perf's format: templates, parameters, labels, and reasons why a workload cannot run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.bench.perf.format import PerfFormatError, is_selected, load_runs
from kubesched.bench.perf.operations import CreateNodes, CreatePods, CreatePodSets, seconds
from kubesched.bench.perf.templates import PerfTemplate, PerfTemplateError

OWN = Path(__file__).parents[2] / "bench" / "workloads"
CASE = """
- name: Case
  featureGates: {SchedulerAsyncPreemption: true}
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPodSets
    countParam: $sets
    namespacePrefix: set
    createPodsOp:
      opcode: createPods
      countParam: $pods
  workloads:
  - name: good
    labels: [short]
    params: {nodes: 5, sets: 2, pods: 3}
  - name: bad
    params: {nodes: 5, sets: 2}
  - name: locked
    featureGates: {SchedulerQueueingHints: false}
    params: {nodes: 5, sets: 2, pods: 3}
"""


def written(folder: Path, text: str) -> Path:
    """A configuration file with this text."""
    path = folder / "performance-config.yaml"
    path.write_text(text)
    return path


def test_parameters_and_gates(tmp_path: Path) -> None:
    """Parameters are set, also in nested operations; a missing one and a locked gate are the reason not to run."""
    good, bad, locked = load_runs(written(tmp_path, CASE))
    nodes, sets = good.operations
    assert isinstance(nodes, CreateNodes)
    assert isinstance(sets, CreatePodSets)
    assert (good.name, good.problem, nodes.count, sets.create_pods_op.count) == ("Case/good", "", 5, 3)
    assert good.gates == {"SchedulerAsyncPreemption": True}
    assert "parameter $pods" in bad.problem
    assert "SchedulerQueueingHints is locked" in locked.problem


def test_unknown_opcodes_and_fields_are_reasons(tmp_path: Path) -> None:
    """A workload with an operation that is not known cannot run, and the reason names it."""
    text = "- name: C\n  workloadTemplate: [{opcode: %s}]\n  workloads: [{name: w}]\n"
    assert "'fly' is not supported" in load_runs(written(tmp_path, text % "fly"))[0].problem
    wrong = text.replace("%s}", "barrier, colour: red}")
    assert "`colour`" in load_runs(written(tmp_path, wrong))[0].problem


def test_files_that_are_not_in_the_format(tmp_path: Path) -> None:
    """An empty folder and a wrong file are refused with their path."""
    with pytest.raises(PerfFormatError, match="there is no performance-config"):
        load_runs(tmp_path)
    with pytest.raises(PerfFormatError, match=r"performance-config.yaml: .*workloadTemplate"):
        load_runs(written(tmp_path, "- name: C\n"))


def test_our_own_workloads_can_run() -> None:
    """Every workload in bench/workloads can run, and its templates can be rendered."""
    runs = load_runs(OWN)
    assert [run.problem for run in runs if run.problem] == []
    assert len({run.name for run in runs}) == len(runs)
    for file in (OWN / "templates").iterdir():
        assert PerfTemplate(file).render(7, 10)["kind"]
    for run in runs:
        paths = [op.pod_template_path for op in run.operations if isinstance(op, CreatePods)]
        assert all((run.folder / path).exists() for path in paths if path)


@pytest.mark.parametrize(
    ("label_filter", "labels", "expected"),
    [
        ("", [], True),
        ("short", ["short", "performance"], True),
        ("+short", ["performance"], False),
        ("performance,-short", ["performance"], True),
        ("performance,-short", ["performance", "short"], False),
    ],
)
def test_labels(label_filter: str, labels: list[str], expected: bool) -> None:
    """A filter is a list of labels that a workload must have, or with a minus must not have."""
    assert is_selected(label_filter, labels) is expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("{{.Index}}", 7),
        ("{{ .Count }}", 10),
        ("{{Mod .Index 5}}", 2),
        ("{{ DivideInt .Index 2 }}", 3),
        ("{{ DivideFloat .Index 2 }}", 3.5),
        ("{{ AddInt 50 (Mod .Index 4) }}", 53),
        ('{{ MultiplyInt "3" .Index 2 }}', 42),
        ("x{{ SubtractInt .Count .Index }}y", "x3y"),
    ],
)
def test_template_actions(tmp_path: Path, action: str, expected: object) -> None:
    """Fields and arithmetic give what Go's templates with scheduler_perf's functions give."""
    file = tmp_path / "template.yaml"
    file.write_text(f"kind: {action}\n")
    assert PerfTemplate(file).render(7, 10)["kind"] == expected


@given(st.text(alphabet='{}. IndexCountModAddInt()0123456789"|-', max_size=40))
def test_any_text_is_a_template_or_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """No text makes the template reader fail in any way but its own."""
    file = tmp_path_factory.mktemp("templates") / "template.yaml"
    file.write_text(f"kind: '{text}'\n")
    with suppress(PerfTemplateError):
        PerfTemplate(file).render(1, 2)


def test_durations() -> None:
    """Durations are Go's; anything else is refused with an example."""
    assert (seconds("10s"), seconds("1m30s")) == (10.0, 90.0)
    with pytest.raises(ValueError, match="write it like 10s"):
        seconds("ten")
