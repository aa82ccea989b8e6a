"""The READMEs of examples can be typed: `kubesched up` with their flags, then their kubectl commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kubectl.local import PATIENCE, ROOT, Local, eventually, free_port, local
from tests.pages import lines, typed

from kubesched.cli.main import main

EXAMPLES = ROOT / "examples"


@contextmanager
def example(folder: Path, name: str, turn: int = 0, **replaced: str) -> Iterator[Local]:
    """The cluster that a README starts, the first of them by default. Words of the command can be replaced."""
    started = [words[1:] for words in typed(EXAMPLES / name / "README.md", "kubesched") if words[0] == "up"]
    flags = started[turn]
    with local(folder, *(replaced.get(Path(word).stem, word) for word in flags)) as cluster:
        yield cluster


def script(name: str, *beginnings: str) -> str:
    """The kubectl commands of a README that begin with one of these."""
    wanted = tuple(f"kubectl {each}" for each in beginnings)
    found = [line for line in lines(EXAMPLES / name / "README.md") if line.startswith(wanted)]
    assert found
    return "\n".join((f"cd {ROOT}", *found))


@contextmanager
def program(cluster: Local, name: str, *more: str) -> Iterator[None]:
    """The Python program that a README starts beside the cluster, for a while."""
    ((file, *words),) = typed(EXAMPLES / name / "README.md", "python")
    log = cluster.folder / "program.log"
    with log.open("wb") as out:
        command = [sys.executable, file, *words, *more]
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, env=cluster.environment)
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


def test_cost_aware(tmp_path: Path) -> None:
    """The deployment's pods are scheduled; where they go is tested beside the example."""
    with example(tmp_path, "cost-aware") as cluster:
        cluster.shell(script("cost-aware", "label", "apply"))
        all_scheduled(cluster, 3)
        assert cluster.shell(script("cost-aware", "get")).count(" node-") == 3


def test_qos_sort(tmp_path: Path) -> None:
    """All pods are scheduled once there is a node, and the last command shows when."""
    with example(tmp_path, "qos-sort") as cluster:
        cluster.shell(script("qos-sort", "apply"))
        pods = cluster("get pods -o jsonpath={.items[*].metadata.name}").split()
        all_scheduled(cluster, len(pods))
        eventually(
            lambda: all(name in cluster.shell(script("qos-sort", "get events")) for name in pods), what="all events"
        )


def test_gpu_sharing(tmp_path: Path) -> None:
    """Two pods share a GPU, and the third has one of its own, in whichever order they are scheduled."""
    with example(tmp_path, "gpu-sharing") as cluster:
        cluster.shell(script("gpu-sharing", "create", "apply"))
        all_scheduled(cluster, 3)
        _title, *rows = cluster.shell(script("gpu-sharing", "get")).splitlines()
        gpus = dict(row.split() for row in rows)
    assert sorted(gpus) == ["half-1", "half-2", "whole"]
    assert gpus["half-1"] == gpus["half-2"] != gpus["whole"]
    assert set(gpus.values()) == {"0", "1"}


def test_gym(tmp_path: Path) -> None:
    """A policy is trained, with fewer episodes than by default, and scores in a cluster."""
    pytest.importorskip("gymnasium")
    ((program, *flags),) = typed(EXAMPLES / "gym/README.md", "python")
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
    with example(tmp_path, "gym", scheduler=str(config)) as cluster:
        cluster("run web --image=nginx")
        all_scheduled(cluster, 1)


def test_gpus(tmp_path: Path) -> None:
    """Every pod of the manifests gets its GPUs, and the scenario passes; the guide says more about them."""
    with example(tmp_path, "gpus") as cluster:
        cluster.shell(script("gpus", "apply"))
        eventually(lambda: all(nodes_by_pod(cluster).values()), what="all pods are scheduled")
        assert "allocated,reserved" in cluster.shell(script("gpus", "get resourceclaims"))
    commands = [words for words in typed(EXAMPLES / "gpus/README.md", "kubesched") if words[0] == "simulate"]
    assert [CliRunner().invoke(main, words).exit_code for words in commands] == [0]


def test_coscheduling(tmp_path: Path) -> None:
    """Two of three members would fit and none gets a node, until there is a third."""
    with example(tmp_path, "coscheduling") as cluster:
        first, second = script("coscheduling", "apply").splitlines()[1:]
        cluster.shell(f"cd {ROOT}; {first}")
        refused = "get events --field-selector=reason=FailedScheduling -o jsonpath={.items[*].involvedObject.name}"
        eventually(lambda: len(set(cluster(refused).split())) == 3, what="all three were tried in vain")
        assert list(nodes_by_pod(cluster).values()) == [""] * 3
        cluster.shell(f"cd {ROOT}; {second}")
        all_scheduled(cluster, 3)
        assert sorted(nodes_by_pod(cluster).values()) == ["node-1", "node-2", "node-3"]


def test_example_plugin(tmp_path: Path) -> None:
    """The plugin logs every node; then a program of one's own, with the plugin built in, schedules the same pod."""
    with example(tmp_path, "example-plugin") as cluster:
        cluster.shell(script("example-plugin", "apply"))
        all_scheduled(cluster, 1)
        shown = '"Filter" pod="web" node="node-{}" cpu=4000 memory=8589934592'
        eventually(lambda: all(shown.format(n) in cluster.log for n in (1, 2, 3)), what="a line for each node")
        assert " node-" in cluster.shell(script("example-plugin", "get"))
    folder = tmp_path / "own"
    folder.mkdir()
    with local(folder) as cluster, program(cluster, "example-plugin", f"--secure-port={free_port()}"):
        cluster.shell(script("example-plugin", "apply"))
        all_scheduled(cluster, 1)


def test_node_number(tmp_path: Path) -> None:
    """Each pod is bound to the node of its number, and not before that many seconds are over."""
    with example(tmp_path, "node-number") as cluster:
        cluster.shell(script("node-number", "apply"))
        all_scheduled(cluster, 3)
        assert nodes_by_pod(cluster) == {"pod1": "node1", "pod3": "node3", "pod9": "node9"}
        condition = "get pod pod9 -o jsonpath={.metadata.creationTimestamp},{.status.startTime}"
        created, started = map(datetime.fromisoformat, cluster(condition).split(","))
        assert (started - created).total_seconds() >= 8, "Kubernetes' times have no fractions"


def follow_the_index(cluster: Local) -> None:
    """Apply the samples: two pods go to the workers of their number, and the third has none."""
    cluster.shell(script("index-scheduling", "apply"))
    all_scheduled(cluster, 2)
    expected = {"sample-01": "worker01.home.local", "sample-02": "worker02.home.local", "sample-03": ""}
    assert nodes_by_pod(cluster) == expected
    events = script("index-scheduling", "events")
    eventually(lambda: "0/2 nodes are available:" in cluster.shell(events), what="the reason")
    assert "number does not match" in cluster.shell(events)


def test_index_scheduling_as_a_plugin(tmp_path: Path) -> None:
    """Pods follow the number in their name."""
    with example(tmp_path, "index-scheduling") as cluster:
        follow_the_index(cluster)


def test_index_scheduling_as_an_extender(tmp_path: Path) -> None:
    """The same, asked over HTTP; the extender and the configuration have another port than on the page."""
    port, config = free_port(), tmp_path / "extender.yaml"
    text = (EXAMPLES / "index-scheduling/index-extender.yaml").read_text("utf-8")
    config.write_text(text.replace("10261", str(port)), "utf-8")
    with (
        example(tmp_path, "index-scheduling", 1, **{"index-extender": f"--config={config}"}) as cluster,
        program(cluster, "index-scheduling", f"--port={port}"),
    ):
        follow_the_index(cluster)


def test_sample2(tmp_path: Path) -> None:
    """The pod waits with the reason that the page shows, until a node has the label."""
    with example(tmp_path, "sample2") as cluster:
        cluster.shell(script("sample2", "apply"))
        described = script("sample2", "describe")
        reason = "0/2 nodes are available: 1 Node: node-1, 1 Node: node-2."
        eventually(lambda: reason in cluster.shell(described), what="the event")
        cluster.shell(script("sample2", "label"))
        assigned = "Successfully assigned default/test-scheduler-"
        eventually(lambda: assigned in cluster.shell(described), what="it is assigned")


def test_the_experiment_of_gpu_sharing(tmp_path: Path) -> None:
    """Both commands run on a small part of a trace, one with a figure and one with JSON; one seed has to do."""
    pytest.importorskip("matplotlib")
    for name, part in (("nodes.csv", "nodes-small.csv"), ("pods_default.csv", "pods-small.csv")):
        shutil.copy(EXAMPLES / "gpu-sharing" / part, tmp_path / name)
    (_, *figure), (_, *as_json) = typed(EXAMPLES / "gpu-sharing/README.md", "python")
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
        commands = [line for line in lines(project / "README.md") if line.startswith("kubectl ")]
        cluster.shell("\n".join(commands[:-1]))
        all_scheduled(cluster, 1)
        assert nodes_by_pod(cluster)["web"] != "node-1"
        assert "web " in cluster.shell(commands[-1])
