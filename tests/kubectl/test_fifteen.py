"""Fifteen pods pending for fifteen causes on `kubesched up`: the first fix of each, made with kubectl, makes it run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from tests.explain import fifteen
from tests.explain.test_fifteen import EXPECTED
from tests.kubectl.local import Local, eventually, local

from kubesched.cli.explain import PENDING, command


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Forty nodes, three hundred running pods, and the fifteen, each of which was tried in vain."""
    with local(tmp_path_factory.mktemp("fifteen"), "--nodes=0", "--pod-start-delay=0s") as running:
        objects = [*map(machine, fifteen.nodes()), *others(), *fifteen.placed()]
        running("create -f -", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        eventually(lambda: phases(running).count("Running") == fifteen.PODS, what="all pods run")
        pods = list(fifteen.pending().values())
        running("create -f -", json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
        eventually(lambda: len(set(rejected(running))) >= 12, what="the scheduler has tried the pods")
        yield running


def machine(node: dict[str, Any]) -> dict[str, Any]:
    """A node for simulated kubelets: it says its capacity, and some have a device."""
    name, capacity = node["metadata"]["name"], node["status"]["allocatable"]
    annotations = {"kubesched.io/devices": "gpu.example.com=1"} if name.startswith("dev-") else {}
    metadata = {**node["metadata"], "annotations": annotations}
    return {**node, "metadata": metadata, "status": {"capacity": capacity, "allocatable": capacity}}


def others() -> list[dict[str, Any]]:
    """Claims, classes and the budget. The cluster itself has classes and slices, and counts the budget."""
    found = [each for each in fifteen.others() if each["kind"] not in ("StorageClass", "DeviceClass", "ResourceSlice")]
    for each in found:
        if each["kind"] == "PodDisruptionBudget":
            each["spec"]["minAvailable"] = 3
            del each["status"]
        if each["kind"] == "PersistentVolume":
            each["spec"]["storageClassName"] = "standard"
    return found


def phases(cluster: Local) -> list[str]:
    return cluster("get pods -o jsonpath={.items[*].status.phase}").split()


def rejected(cluster: Local) -> list[str]:
    """The pods that the scheduler could not place, as its events say."""
    return cluster(
        "get events --field-selector=reason=FailedScheduling -o jsonpath={.items[*].involvedObject.name}"
    ).split()


def explain(cluster: Local, *words: str) -> dict[str, Any]:
    """What `kubesched explain` says about the cluster."""
    done = CliRunner().invoke(command, [*words, "--kubeconfig", str(cluster.kubeconfig), "-o", "json"])
    assert done.exit_code == PENDING, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def overview(cluster: Local) -> dict[str, dict[str, Any]]:
    """What `kubesched explain` says about every pod, once all are there."""
    found: dict[str, dict[str, Any]] = {}

    def complete() -> bool:
        ensure_orphan(cluster)
        found.update((each["pod"].removeprefix("default/"), each) for each in explain(cluster)["pods"])
        return len(found) >= len(EXPECTED)

    eventually(complete, what="every pod is listed")
    return found


def ensure_orphan(cluster: Local) -> None:
    """Pods on nodes that do not exist are deleted after a while. Create this one again if it was."""
    if cluster.run("get", "pod", "node-name").returncode:
        cluster("create -f -", json.dumps(fifteen.pending()["node-name"]))


def add_node(cluster: Local, words: str) -> None:
    """Do what no command does: add a node like another one, with other labels."""
    _, _, like, *labels = words.removeprefix("add a ").replace(",", "").split()
    node = json.loads(cluster(f"get node {like} -o json"))
    given = dict(each.split("=") for each in labels[1:])
    old = {key: value for key, value in node["metadata"]["labels"].items() if key != "kubernetes.io/hostname"}
    node["metadata"] = {"name": f"{like}-like", "labels": {**old, **given}}
    node["spec"].pop("podCIDR", None)
    node["spec"].pop("podCIDRs", None)
    cluster("create -f -", json.dumps(node))


def test_overview_names_every_cause(cluster: Local) -> None:
    """All fifteen pods are listed, each with its cause in numbers and a verified fix."""
    pods = overview(cluster)
    assert set(pods) == set(EXPECTED)
    for cause, report in pods.items():
        texts = [detail["text"] for refusal in report["closest"]["refusals"] for detail in refusal["details"]]
        assert EXPECTED[cause] in report["words"] + "; ".join(texts)
        assert report["suggestions"]
    assert pods["taint"]["queued"]["queue"] in ("unschedulable", "backoff", "active")
    assert pods["taint"]["queued"]["wakes"]


# The node that is added for `volume-zone` has room for others too.
@pytest.mark.parametrize("cause", sorted(EXPECTED, key=lambda cause: cause == "volume-zone"))
def test_first_fix_makes_the_pod_run(cluster: Local, cause: str) -> None:
    """After the first fix that is suggested for it, the pod's phase is Running."""
    if cause == "node-name":
        # Created anew, so that it is not deleted before the fix.
        cluster.run("delete", "pod", cause, "--force")
        ensure_orphan(cluster)
    first = explain(cluster, "pod", f"default/{cause}")["suggestions"][0]
    for line in first["commands"]:
        cluster.shell(line)
    if not first["commands"]:
        add_node(cluster, first["words"])

    def phase() -> str:
        if cause == "node-name":
            ensure_orphan(cluster)
        return cluster.run("get", "pod", cause, "-o", "jsonpath={.status.phase}").stdout

    eventually(lambda: phase() == "Running", what=f"{cause} runs after: {first['words']}")


def test_bound_pod_shows_the_decision_that_the_scheduler_kept(cluster: Local) -> None:
    """The scheduler's own record is asked at its secure port, and the output says that it is one."""
    cluster("run bystander --image=nginx")
    eventually(lambda: cluster("get pod bystander -o jsonpath={.spec.nodeName}"), what="the pod is bound")
    done = CliRunner().invoke(command, ["pod", "bystander", "--kubeconfig", str(cluster.kubeconfig)])
    assert done.exit_code == 0
    assert "default/bystander went to " in done.stdout
    assert "This is the scheduler's own record of the decision." in done.stdout
    assert not done.stderr
