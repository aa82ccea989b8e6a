"""`kubesched explain` and `kubectl why`: what they print, their exit codes, and what they say about bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.explain import fifteen

from kubesched.cli.explain import PENDING, command, why
from kubesched.explain.report import API_VERSION


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster of fifteen pending pods as kubectl would print it."""
    path = tmp_path_factory.mktemp("cluster") / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": fifteen.cluster()}))
    return path


def explain(snapshot: Path, *args: str, width: int = 100) -> Result:
    """Run the command on the snapshot."""
    arguments = [*args, "--from", str(snapshot)]
    return CliRunner().invoke(command, arguments, env={"COLUMNS": str(width), "NO_COLOR": "1"})


def data(result: Result) -> Any:
    """The JSON that was printed."""
    return json.loads(result.stdout)


def test_overview_groups_by_cause_and_tells_by_exit_code(snapshot: Path) -> None:
    """All pending pods are listed with their fix, and the exit code says that there are some."""
    result = explain(snapshot, width=200)
    assert result.exit_code == PENDING
    assert "15 pods pending in a cluster of 40 nodes" in result.stdout
    assert "NodeResourcesFit: 3 pods" in result.stdout
    assert "tolerate gpu=yes:NoSchedule" in result.stdout


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_width_follows_the_terminal_and_words_stay_whole(snapshot: Path, width: int) -> None:
    """No line is longer than the terminal, and no pod's name is broken."""
    lines = explain(snapshot, width=width).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert all(any(f"default/{name}" in line for line in lines) for name in fifteen.pending())


def test_pods_that_wait_alike_share_a_row(tmp_path: Path) -> None:
    """Pods with the same reason and fix are one row with their number; -o wide and JSON have each of them."""
    file = tmp_path / "alike.yaml"
    many = [_node("n1", cpu="4"), *(_big(number) for number in range(12))]
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": many}))
    short, wide = explain(file, "-o", "markdown").stdout, explain(file, "-o", "wide").stdout
    assert "| default/big-0 and 11 more |" in short
    assert short.endswith("Pods that wait alike share a row. -o wide lists each of them.\n")
    assert "default/big-11" not in short
    assert "default/big-11" in wide
    assert "more" not in wide
    assert len(data(explain(file, "-o", "json"))["pods"]) == 12


def test_what_the_scheduler_said_last_is_shown_where_a_node_fits(tmp_path: Path) -> None:
    """A pod that fits here although its scheduler found no node has the scheduler's message beside the answer."""
    said = "0/1 nodes are available: 1 node(s) had no licence. no new claims to deallocate"
    pod = _big(0, cpu="1")
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": said}]}
    file = tmp_path / "fits.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [_node("n1", cpu="4"), pod]}))
    overview = " ".join(explain(file, "-o", "markdown").stdout.split())
    assert "| fits now and goes to n1 at the next try; the scheduler last said: 0/1 nodes are available: 1" in overview
    assert f"The scheduler last said: {said}" in explain(file, "pod", "big-0", "-o", "markdown").stdout


def _node(name: str, *, cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def _big(number: int, *, cpu: str = "16") -> dict[str, Any]:
    metadata = {"name": f"big-{number}", "namespace": "default", "uid": f"big-{number}"}
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def test_one_pod_node_by_node(snapshot: Path) -> None:
    """The pod's page has kube-scheduler's message, the fixes with their commands, and the nodes."""
    result = explain(snapshot, "pod", "default/taint")
    assert result.exit_code == PENDING
    assert "0/40 nodes are available" in result.stdout
    assert "kubectl taint node gpu-1 gpu:NoSchedule-" in result.stdout
    assert "Node by node" in result.stdout


def test_options_may_stand_before_the_subcommand(snapshot: Path) -> None:
    """`explain --from X pod Y` is the same as `explain pod Y --from X`."""
    before = CliRunner().invoke(command, ["--from", str(snapshot), "-o", "json", "pod", "taint"])
    assert data(before)["pod"] == data(explain(snapshot, "pod", "taint", "-o", "json"))["pod"] == "default/taint"


def test_the_name_of_a_pod_suffices(snapshot: Path) -> None:
    """`explain NAME` and `explain -n NAMESPACE NAME` are `explain pod NAME`."""
    whole = explain(snapshot, "pod", "default/taint").stdout
    assert explain(snapshot, "taint").stdout == explain(snapshot, "-n", "default", "taint").stdout == whole
    assert "the cluster has no pod 'nothing'" in explain(snapshot, "nothing").stderr


def test_one_node_only(snapshot: Path) -> None:
    """With --node, the report is about that node, from its headline on."""
    found = data(explain(snapshot, "pod", "port", "--node", "edge-1", "-o", "json"))
    (node,) = found["nodes"]
    assert node["node"] == "edge-1"
    assert found["headline"] == "default/port fits on none of 40 nodes; edge-1 is rejected by NodePorts"
    assert node["refusals"][0]["details"][0]["values"]["heldBy"] == "default/web-3"


def test_json_and_yaml_say_the_same_with_a_version(snapshot: Path) -> None:
    """Both formats have the same data, with apiVersion and kind."""
    as_json = data(explain(snapshot, "pod", "spread", "-o", "json"))
    as_yaml = yaml.safe_load(explain(snapshot, "pod", "spread", "-o", "yaml").stdout)
    assert as_json["apiVersion"] == API_VERSION
    assert as_json["kind"] == "PodExplanation"
    assert as_json["suggestions"] == as_yaml["suggestions"]


def test_documented_fields_are_those_of_the_json(snapshot: Path) -> None:
    """The reference page names every field that the reports have."""
    page = (Path(__file__).parents[2] / "docs/reference/explain-json.md").read_text("utf-8")
    for kind in (["pod", "port"], ["pod", "web-3"], [], ["node", "edge-1"]):
        for key in _keys(data(explain(snapshot, *kind, "-o", "json"))):
            assert f"`{key}`" in page, key


def _keys(found: Any) -> set[str]:
    """All keys, except those of maps from names to numbers."""
    if isinstance(found, list):
        return set().union(*map(_keys, found))
    if not isinstance(found, dict):
        return set()
    maps = ("plugins", "scores", "values", "requests", "notFitting", "perNode", "runsOut")
    inner = (_keys(value) for key, value in found.items() if key not in maps)
    return set(found).union(*inner)


def test_pod_with_a_node_is_not_pending(snapshot: Path) -> None:
    """A bound pod is decided again, the page says so, and the exit code is 0."""
    result = explain(snapshot, "pod", "web-3")
    assert result.exit_code == 0
    assert "made again, on the cluster as it is now" in " ".join(result.stdout.split())


def test_node_page(snapshot: Path) -> None:
    """A node's page has its amounts, its pods and the pending pods."""
    result = explain(snapshot, "node", "small-1")
    assert result.exit_code == 0
    assert "default/small-0" in result.stdout
    assert "too many pods: 2 of at most 2 are there" in " ".join(result.stdout.split())


def test_fit_counts_and_says_what_runs_out(snapshot: Path, tmp_path: Path) -> None:
    """Five pods of 1.5 cpu fit on an almost empty node of 8; more are limited by cpu."""
    template = tmp_path / "pod.yaml"
    template.write_text(yaml.safe_dump(fifteen.pod("new", "1500m", nodeSelector={"pool": "edge"})))
    found = data(explain(snapshot, "fit", "-f", str(template), "-o", "json"))
    assert (found["count"], found["perNode"]) == (5, {"edge-1": 5})
    assert found["runsOut"]["Insufficient cpu"] >= 1


@pytest.mark.parametrize(
    ("pod", "change"),
    [
        ("resources", "pod.cpu=1"),
        ("taint", "untaint gpu-1 gpu"),
        ("spread", "uncordon spread-2"),
        ("port", "delete pod default/web-3"),
        ("budget", "add 1 like db-1"),
        ("max-pods", "drain small-1"),
    ],
)
def test_what_if_changes_the_answer(snapshot: Path, pod: str, change: str) -> None:
    """Each supposition that helps gives the pod a node; a drain cordons and so does not help."""
    found = data(explain(snapshot, "pod", pod, "-o", "json", "--what-if", change))
    assert found["state"] == ("pending" if change.startswith("drain") else "schedulable")


def test_drain_moves_pods_elsewhere(snapshot: Path) -> None:
    """After a drain the node has no pods, and they are on other nodes."""
    found = data(explain(snapshot, "node", "small-1", "-o", "json", "--what-if", "drain small-1"))
    assert found["pods"] == []
    assert found["conditions"] == ["cordoned"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("pod", "nobody"), "the cluster has no pod 'nobody'"),
        (("node", "nowhere"), "the cluster has no node 'nowhere'"),
        (("pod", "taint", "--node", "nowhere"), "the cluster has no node 'nowhere'"),
        (("--what-if", "explode n1"), "cannot be read; write one of: drain N"),
        (("--what-if", "drain nowhere"), "the cluster has no node 'nowhere'"),
        (("--what-if", "untaint dev-1 gpu"), "node dev-1 has no taint 'gpu'; it has none"),
        (("--what-if", "pod.cpu=many"), "many"),
    ],
)
def test_bad_input_is_one_line(snapshot: Path, args: tuple[str, ...], said: str) -> None:
    """Errors name what is wrong, and the exit code is 1."""
    result = explain(snapshot, *args)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""


def test_another_configuration_is_shown_beside_the_default(snapshot: Path, tmp_path: Path) -> None:
    """Without TaintToleration the pod fits; the default configuration's decision stands beside it."""
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}}]\n")
    found = data(explain(snapshot, "pod", "taint", "-o", "json", "--config", str(config)))
    assert found["state"] == "schedulable"
    assert found["beside"]["node"] == ""
    assert "untolerated taint" in found["beside"]["message"]
    assert "node with default configuration" in explain(snapshot, "--config", str(config), width=200).stdout
    assert "default configuration" not in explain(snapshot, width=200).stdout


def test_plugin_of_ones_own_is_named_with_its_message(snapshot: Path, tmp_path: Path) -> None:
    """A plugin without a rule here shows its own message."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import kubesched\n\n@kubesched.filter\ndef not_today(pod, node):\n    return 'it is Monday'\n",
        encoding="utf-8",
    )
    found = data(explain(snapshot, "pod", "gate", "-o", "json", "--plugin", str(plugin)))
    reasons = {detail["text"] for refusal in found["closest"]["refusals"] for detail in refusal["details"]}
    assert "it is Monday" in reasons


def test_plugin_that_cannot_be_loaded_is_one_line(snapshot: Path, tmp_path: Path) -> None:
    """The file and the line are named, and there is no traceback."""
    plugin = tmp_path / "mine.py"
    plugin.write_text("import kubesched\n\nkubesched.nothing\n")
    result = explain(snapshot, "--plugin", str(plugin))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: --plugin: {plugin}: AttributeError")
    assert result.stderr.count("\n") == 1


def test_suppositions_are_shown(snapshot: Path) -> None:
    """The answer says what it supposes, below its title."""
    result = explain(snapshot, "--what-if", "pod.cpu=1", "--what-if", "cordon dev-1")
    assert result.stdout.splitlines()[1] == "Supposing: pod.cpu=1; cordon dev-1."


def test_hostile_names_never_become_markup(tmp_path: Path) -> None:
    """Names and labels from a cluster are text, in HTML, in Markdown and on the terminal."""
    evil = "<script>alert(1)</script>\x1b[31m"
    taint = [{"key": evil, "effect": "NoSchedule"}]
    file = tmp_path / "evil.json"
    file.write_text(json.dumps([fifteen.node("n1", 0, taints=taint), fifteen.pod("[red]x[/red]")]))
    page = explain(file, "pod", "default/[red]x[/red]", "-o", "html").stdout
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\\<script\\>" in explain(file, "-o", "markdown").stdout
    shown = explain(file, width=200).stdout
    assert "[red]x[/red]" in shown
    assert "\x1b" not in shown


def test_kubectl_why_is_the_same(snapshot: Path) -> None:
    """`kubectl why POD -n NAMESPACE` explains the pod; without a pod, all of them."""
    options = ["--from", str(snapshot), "-o", "json"]
    one = CliRunner().invoke(why, ["taint", "-n", "default", *options])
    assert (one.exit_code, json.loads(one.stdout)["pod"]) == (PENDING, "default/taint")
    every = CliRunner().invoke(why, options)
    assert len(json.loads(every.stdout)["pods"]) == 15


def test_nothing_pending_is_exit_code_zero(tmp_path: Path) -> None:
    """A cluster in which every pod has a node."""
    file = tmp_path / "calm.json"
    file.write_text(json.dumps([fifteen.node("n1", 0), fifteen.pod("a", nodeName="n1")]))
    result = explain(file)
    assert result.exit_code == 0
    assert "0 pods pending in a cluster of 1 node" in result.stdout


def test_watch_prints_when_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read again and again; the same answer is not printed twice, and an interrupt ends it."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps([fifteen.node("n1", 0), fifteen.pod("a", "20")]))
    rounds = iter(range(3))

    def sleep(seconds: float) -> None:
        """What happens between two looks: nothing, then the pod gets its node, then Ctrl-C."""
        turn = next(rounds)
        if turn == 1:
            file.write_text(json.dumps([fifteen.node("n1", 0), fifteen.pod("a", nodeName="n1")]))
        elif turn == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("kubesched.cli.explain.time.sleep", sleep)
    result = explain(file, "--watch")
    assert result.exit_code == 130
    assert result.stdout.count("1 pod pending") == 1
    assert result.stdout.count("0 pods pending") == 1
