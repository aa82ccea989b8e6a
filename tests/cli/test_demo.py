"""`kubesched demo`: what it shows, and that it shows it everywhere the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.cli.main import main

README = Path(__file__).parents[2] / "README.md"
VIDEO = (
    "0/12 nodes are available: 1 node(s) were unschedulable, 3 node(s) had untolerated taint(s), 8 Insufficient "
    "nvidia.com/gpu. no new claims to deallocate, preemption: 0/12 nodes are available: 12 Preemption is not helpful "
    "for scheduling."
)


def run(columns: int = 80, env: Mapping[str, str] | None = None) -> str:
    """What the demo prints on a terminal of this width."""
    result = CliRunner().invoke(main, ["demo"], env={"COLUMNS": str(columns), **(env or {})}, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


@pytest.fixture(scope="module")
def shown() -> str:
    """The demo's output at the usual width."""
    return run()


def test_it_prints_the_same_every_time(shown: str) -> None:
    """Two runs agree to the last character."""
    assert run() == shown


def test_all_pods_are_accounted_for(shown: str) -> None:
    """Every pod has a line: twenty-one with a node, two without."""
    lines = re.findall(r"^  (\w+-\d+) +(\w[\w-]*)", shown, re.MULTILINE)
    placements = {pod: node for pod, node in lines if re.match(r"(web|db|cache|api|train|batch|video|urgent)-", pod)}
    assert len(placements) == 23
    assert [pod for pod, node in placements.items() if node == "none"] == ["video-1", "urgent-1"]


def test_placements_keep_what_the_manifests_ask_for(shown: str) -> None:
    """Databases are on SSDs, caches are apart, training is on GPUs, web pods are even over the zones."""
    placed = dict(re.findall(r"^  (\w+-\d) +((?:worker|ssd|gpu|spot)-\w\d)", shown, re.MULTILINE))
    assert {placed[f"db-{i}"][:3] for i in (1, 2)} == {"ssd"}
    assert len({placed[f"cache-{i}"] for i in (1, 2, 3)}) == 3
    assert {placed[f"train-{i}"] for i in (1, 2)} == {"gpu-a1", "gpu-b1"}
    assert sorted(placed[f"web-{i}"][-2] for i in range(1, 7)) == ["a", "a", "b", "b", "c", "c"]


def test_differences_add_up_to_the_lead(shown: str) -> None:
    """Where one plugin alone made the difference, the runner-up is behind by exactly that much."""
    lines = re.findall(r"^  \w+-\d +\S+ +\d+ +\S+ +(-\d+) ([+-]\d+) \w+\n(?!  +[+-])", shown, re.MULTILINE)
    assert len(lines) > 3
    assert all(int(behind) == -int(lead) for behind, lead in lines)


def test_totals_are_the_sums_of_their_columns(shown: str) -> None:
    """In the decision shown in full, each node's total is the sum of what the plugins gave it."""
    block = shown[shown.index("in full") : shown.index("do not:")]
    rows = [tuple(map(int, row)) for row in re.findall(r"^  [A-Z]\w+ +\d +(\d+) +(\d+) +(\d+)", block, re.MULTILINE)]
    total = re.search(r"^  total +(\d+) +(\d+) +(\d+)", block, re.MULTILINE)
    assert total is not None
    assert [sum(column) for column in zip(*rows, strict=True)] == [int(each) for each in total.groups()]


@pytest.mark.parametrize("columns", [20, 44, 79, 80, 200])
def test_the_message_is_verbatim_at_any_width(columns: int) -> None:
    """kube-scheduler's message stays on one line, whatever the width of the terminal."""
    assert VIDEO in run(columns).splitlines()


@pytest.mark.parametrize("columns", [44, 80, 120])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    """All lines but the messages fit the terminal."""
    too_wide = [line for line in run(columns).splitlines() if len(line.rstrip()) > columns]
    assert all(line.startswith("0/12 nodes are available") for line in too_wide)


def test_preemption_takes_the_least_important_pod(shown: str) -> None:
    """The urgent pod gets a node in its second attempt, and a batch pod makes room for it."""
    assert re.search(r"Preemption: (\S+) has the victims that matter least. batch-\d has to go.\n.*goes to \1\.", shown)


def test_no_color_means_no_escape_codes() -> None:
    """NO_COLOR is respected even on a terminal; without it a terminal gets colours."""
    assert "\x1b[32m" in run(env={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    assert "\x1b[32m" not in run(env={"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": "1"})


def test_the_readme_shows_what_the_demo_prints(shown: str) -> None:
    """Every line of the README's transcript is a line of the demo's output."""
    block = re.search(r"```console\n\$ make demo\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert block is not None
    lines = [line.rstrip() for line in block[1].splitlines()]
    printed = {line.rstrip() for line in shown.splitlines()}
    assert [line for line in lines if line not in printed and line != "[...]"] == []


APP = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: my-db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: postgres}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: main, image: nginx, resources: {requests: {cpu: "100"}}}]}
"""
NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: mine}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
"""


@pytest.mark.parametrize("nodes", ["", NODE])
def test_manifests_of_ones_own(tmp_path: Path, nodes: str) -> None:
    """A file's workloads run on its nodes, or on those of the demo; each pod has a line under its own name."""
    (tmp_path / "app.yaml").write_text(APP + nodes, "utf-8")
    result = CliRunner().invoke(
        main, ["demo", str(tmp_path / "app.yaml")], env={"COLUMNS": "100"}, catch_exceptions=False
    )
    assert result.exit_code == 0
    lines = dict(re.findall(r"^  (\S+) +(\S+)", result.stdout, re.MULTILINE))
    assert (lines["huge"], lines["my-db-0"] == "mine") == ("none", bool(nodes))
    assert "In the end 2 pods run. Without a node: huge." in result.stdout


def test_pods_of_every_namespace_count_and_no_zone_is_mentioned_where_there_is_none(tmp_path: Path) -> None:
    """The last line is about all pods; one node without a label is not "1 nodes in 0 zones"."""
    namespaces = "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n"
    app = APP.replace("{name: my-db}", "{name: my-db, namespace: shop}")
    (tmp_path / "app.yaml").write_text(app + NODE + namespaces, "utf-8")
    result = CliRunner().invoke(main, ["demo", str(tmp_path / "app.yaml")], catch_exceptions=False)
    assert result.stdout.startswith("1 node, kube-scheduler's default")
    assert "In the end 2 pods run. Without a node: huge." in result.stdout


def test_a_file_without_pods(tmp_path: Path) -> None:
    """There is nothing to show, and the kinds that would have pods are named."""
    (tmp_path / "empty.yaml").write_text(NODE, "utf-8")
    result = CliRunner().invoke(main, ["demo", str(tmp_path / "empty.yaml")])
    assert result.exit_code == 1
    assert "there is nothing to schedule: no Pod, Deployment" in result.stderr


def test_names_of_plugins_stay_whole_in_a_narrow_terminal() -> None:
    """With 60 columns, the longest name of the decision in full stands on one line beside its scores."""
    assert re.search(r"^  NodeResourcesBalancedAllocation +\d+ +\d+$", run(60), re.MULTILINE)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_line_ends_in_blanks(columns: int) -> None:
    """Lines have no blanks at their ends, and only kube-scheduler's own message is longer than the terminal is wide."""
    lines = run(columns).splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if len(line) > columns and "nodes are available" not in line] == []
