"""The READMEs of examples can be typed: `kubesched up` with their flags, then their kubectl commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kubectl.local import PATIENCE, ROOT, Local, eventually, free_port, local
from tests.pages import Script, arguments, commands, typed

from kubesched.cli.main import main

EXAMPLES = ROOT / "examples"


@pytest.fixture
def readme(script: Callable[[str], Script], request: pytest.FixtureRequest) -> Script:
    """The commands of the README of the example that a test is named after."""
    name = request.node.name.removeprefix("test_").partition("[")[0].removeprefix("the_experiment_of_")
    return script(f"examples/{name.replace('_', '-')}/README.md")


@contextmanager
def example(folder: Path, command: str, **replaced: str) -> Iterator[Local]:
    """The cluster that a command starts. Words of it can be replaced."""
    with local(folder, *(replaced.get(Path(word).stem, word) for word in arguments(command)[1:])) as cluster:
        yield cluster


def at_home(*commands: str) -> str:
    """Commands to be typed in the folder of the repository, without those that go on for ever."""
    return "\n".join((f"cd {ROOT}", *(command.removesuffix(" --watch") for command in commands)))


@contextmanager
def program(cluster: Local, command: str, *more: str) -> Iterator[None]:
    """The Python program that a README starts beside the cluster, for a while."""
    log = cluster.folder / "program.log"
    with log.open("wb") as out:
        words = [sys.executable, *arguments(command), *more]
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=ROOT, env=cluster.environment)
    try:
        yield
        assert process.poll() is None, log.read_text("utf-8")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def nodes_by_pod(cluster: Local) -> dict[str, str]:
    """Where the pods of the default namespace are; empty where they have no node."""
    shown = 'get pods -o jsonpath={range.items[*]}{.metadata.name}={.spec.nodeName}{"\\n"}{end}'
    return dict(line.split("=") for line in cluster(shown).split())


def all_scheduled(cluster: Local, number: int) -> None:
    """Wait until the default namespace has this many pods on nodes."""
    shown = "get pods -o jsonpath={.items[*].spec.nodeName}"
    eventually(lambda: len(cluster(shown).split()) == number, what=f"{number} pods are scheduled")


def test_cost_aware(readme: Script, tmp_path: Path) -> None:
    """The deployment's pods are scheduled; where they go is tested beside the example."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take("export", "kubectl label", "kubectl apply")))
        all_scheduled(cluster, 3)
        assert cluster.shell(at_home(*readme.take())).count(" node-") == 3


def test_qos_sort(readme: Script, tmp_path: Path) -> None:
    """All pods are scheduled once there is a node, and the last command shows when."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take("export", "kubectl apply", "sleep")))
        pods = cluster("get pods -o jsonpath={.items[*].metadata.name}").split()
        all_scheduled(cluster, len(pods))
        events = at_home(*readme.take())
        eventually(lambda: all(name in cluster.shell(events) for name in pods), what="all events")


def test_gpu_sharing(readme: Script, tmp_path: Path) -> None:
    """Two pods share a GPU, and the third has one of its own, in whichever order they are scheduled."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take("kubectl create", "kubectl apply")))
        all_scheduled(cluster, 3)
        _title, *rows = cluster.shell(at_home(*readme.take())).splitlines()
        gpus = dict(row.split() for row in rows)
    assert sorted(gpus) == ["half-1", "half-2", "whole"]
    assert gpus["half-1"] == gpus["half-2"] != gpus["whole"]
    assert set(gpus.values()) == {"0", "1"}


def test_gym(readme: Script, tmp_path: Path) -> None:
    """A policy is trained, with fewer episodes than by default, and scores in a cluster."""
    pytest.importorskip("gymnasium")
    ((program, *flags),) = readme.words("python")
    policy = tmp_path / "policy.json"
    fewer = ["--nodes=4", "--pods=20", "--generations=1", "--population=2", f"--output={policy}"]
    done = subprocess.run(
        [sys.executable, str(ROOT / program), *flags, *fewer], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "LeastAllocated" in done.stdout
    config = tmp_path / "scheduler.yaml"
    text = (EXAMPLES / "gym/scheduler.yaml").read_text("utf-8")
    config.write_text(text.replace("policy.json", str(policy)), "utf-8")
    with example(tmp_path, *readme.take("kubesched up"), scheduler=str(config)) as cluster:
        cluster("run web --image=nginx")
        all_scheduled(cluster, 1)


def test_gpus(readme: Script, tmp_path: Path) -> None:
    """Every pod of the manifests gets its GPUs, and the scenario passes; the guide says more about them."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take("export", "kubectl apply")))
        eventually(lambda: all(nodes_by_pod(cluster).values()), what="all pods are scheduled")
        assert "allocated,reserved" in cluster.shell(at_home(*readme.take("kubectl get")))
        assert "passed" in cluster.shell(at_home(*readme.take("kubesched simulate")))


def test_coscheduling(readme: Script, tmp_path: Path) -> None:
    """Two of three members would fit and none gets a node, until there is a third."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take("export", "kubectl apply -f examples/coscheduling/job.yaml")))
        refused = "get events --field-selector=reason=FailedScheduling -o jsonpath={.items[*].involvedObject.name}"
        eventually(lambda: len(set(cluster(refused).split())) == 3, what="all three were tried in vain")
        assert list(nodes_by_pod(cluster).values()) == [""] * 3
        cluster.shell(at_home(*readme.take("kubectl apply")))
        all_scheduled(cluster, 3)
        assert sorted(nodes_by_pod(cluster).values()) == ["node-1", "node-2", "node-3"]
        assert cluster.shell(at_home(*readme.take())).count("node-") == 3


def test_example_plugin(readme: Script, tmp_path: Path) -> None:
    """The plugin logs every node; then a program of one's own, with the plugin built in, schedules the same pod."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        apply = at_home(*readme.take("export", "kubectl apply"))
        cluster.shell(apply)
        all_scheduled(cluster, 1)
        shown = '"Filter" pod="web" node="node-{}" cpu=4000 memory=8589934592'
        eventually(lambda: all(shown.format(n) in cluster.log for n in (1, 2, 3)), what="a line for each node")
        assert " node-" in cluster.shell(at_home(*readme.take("kubectl get")))
    folder = tmp_path / "own"
    folder.mkdir()
    with local(folder) as cluster, program(cluster, *readme.take("python"), f"--secure-port={free_port()}"):
        cluster.shell(apply)
        all_scheduled(cluster, 1)


def test_node_number(readme: Script, tmp_path: Path) -> None:
    """Each pod is bound to the node of its number, and not before that many seconds are over."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take()))
        all_scheduled(cluster, 3)
        assert nodes_by_pod(cluster) == {"pod1": "node1", "pod3": "node3", "pod9": "node9"}
        condition = "get pod pod9 -o jsonpath={.metadata.creationTimestamp},{.status.startTime}"
        created, started = map(datetime.fromisoformat, cluster(condition).split(","))
        assert (started - created).total_seconds() >= 8, "Kubernetes' times have no fractions"


def test_index_scheduling(readme: Script, tmp_path: Path) -> None:
    """Pods follow the number in their name, by a plugin; then by an extender, on another port than on the page."""
    plugin, extender = readme.take("kubesched up")
    apply, events = (
        at_home(*readme.take("export", "kubectl apply", "kubectl get")),
        at_home(*readme.take("kubectl events")),
    )
    with example(tmp_path, plugin) as cluster:
        follow_the_index(cluster, apply, events)
    folder, port = tmp_path / "extender", free_port()
    folder.mkdir()
    config = folder / "extender.yaml"
    text = (EXAMPLES / "index-scheduling/index-extender.yaml").read_text("utf-8")
    config.write_text(text.replace("10261", str(port)), "utf-8")
    with (
        example(folder, extender, **{"index-extender": f"--config={config}"}) as cluster,
        program(cluster, *readme.take("python"), f"--port={port}"),
    ):
        follow_the_index(cluster, apply, events)


def follow_the_index(cluster: Local, apply: str, events: str) -> None:
    """Apply the samples: two pods go to the workers of their number, and the third has none."""
    cluster.shell(apply)
    all_scheduled(cluster, 2)
    expected = {"sample-01": "worker01.home.local", "sample-02": "worker02.home.local", "sample-03": ""}
    assert nodes_by_pod(cluster) == expected
    eventually(lambda: "0/2 nodes are available:" in cluster.shell(events), what="the reason")
    assert "number does not match" in cluster.shell(events)


def test_sample2(readme: Script, tmp_path: Path) -> None:
    """The pod waits with the reason that the page shows, until a node has the label."""
    with example(tmp_path, *readme.take("kubesched up")) as cluster:
        cluster.shell(at_home(*readme.take("export", "kubectl apply")))
        described = at_home(*readme.take("kubectl describe"))
        reason = "0/2 nodes are available: 1 Node: node-1, 1 Node: node-2."
        eventually(lambda: reason in cluster.shell(described), what="the event")
        cluster.shell(at_home(*readme.take()))
        assigned = "Successfully assigned default/test-scheduler-"
        eventually(lambda: assigned in cluster.shell(described), what="it is assigned")


def test_the_experiment_of_gpu_sharing(readme: Script, tmp_path: Path) -> None:
    """Both commands run on a small part of a trace, one with a figure and one with JSON; one seed has to do."""
    pytest.importorskip("matplotlib")
    for name, part in (("nodes.csv", "nodes-small.csv"), ("pods_default.csv", "pods-small.csv")):
        shutil.copy(EXAMPLES / "gpu-sharing" / part, tmp_path / name)
    (_, *figure), (_, *as_json) = readme.words("python")
    for words in (figure, as_json):
        command = [sys.executable, str(EXAMPLES / "gpu-sharing/run.py"), *words, "--seeds", "42"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert json.loads(done.stdout).keys() == {"FGD", "BestFit"}


def test_a_new_plugin(tmp_path: Path) -> None:
    """The README that `kubesched new-plugin` writes: the plugin keeps a pod off the node that rests."""
    project = tmp_path / "quiet-hours"
    assert CliRunner().invoke(main, ["new-plugin", "QuietHours", f"--path={project}"]).exit_code == 0
    (words,) = (words for words in typed(project / "README.md", ".venv/bin/kubesched") if words[0] == "up")
    flags = [str(project / word) if (project / word).exists() else word for word in words[1:]]
    with local(tmp_path, *flags) as cluster:
        typed_here = [each for each in commands(project / "README.md") if each.startswith("kubectl ")]
        cluster.shell("\n".join(typed_here[:-1]))
        all_scheduled(cluster, 1)
        assert nodes_by_pod(cluster)["web"] != "node-1"
        assert "web " in cluster.shell(typed_here[-1])
