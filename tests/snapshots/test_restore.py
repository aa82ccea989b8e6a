"""A snapshot of a running cluster starts another one in the same state; manifests imply their pods."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched import Cluster, ManifestError
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.cli.main import main
from kubesched.embedded import EmbeddedCluster
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario
from kubesched.simulator.scenario_client import as_json
from kubesched.simulator.settings import ReplayMode
from kubesched.snapshots.contents import of_objects
from kubesched.snapshots.live import KINDS

CONTAINER = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    """A workload written by hand."""
    labels = {"app": kind.lower()}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        return {
            "apiVersion": "batch/v1",
            "kind": kind,
            "metadata": {"name": "job"},
            "spec": {"template": template, **spec},
        }
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": kind.lower()}, "spec": body}


def test_a_snapshot_starts_again_as_it_was(tmp_path: Path) -> None:
    """Owners keep their pods, complete Jobs stay complete, dead nodes stay dead, and unknown kinds are ignored."""
    objects: list[dict[str, Any]] = []

    async def before(client: ScenarioClient) -> None:
        for name in ("n1", "n2", "n3"):
            await client.create(node(name))
        await client.create(workload("Deployment", replicas=3))
        await client.create(workload("StatefulSet", replicas=2, serviceName="s"))
        await client.create(workload("DaemonSet"))
        await client.create(workload("Job"))
        await client.sleep(30)
        await client.patch("Node", "n3", {"metadata": {"annotations": {"kubesched.io/kubelet": "stopped"}}})
        await client.sleep(60)
        for kind in KINDS:
            objects.extend(await client.list(kind, None))

    first = run(Scenario("before", "before.py", before))
    assert first.error == ""
    objects.append({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    for each in objects:
        if each["kind"] == "Node":
            each["metadata"].pop("annotations", None)
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    scenario = load(file)
    scenario.duration = 20.0
    again = run(scenario)
    assert again.error == ""
    assert [(e.pod, e.node, e.phase) for e in again.placements] == [(e.pod, e.node, e.phase) for e in first.placements]
    notes = [each.text for each in again.timeline if each.what == "note"]
    assert notes == ["ignored: 1 Widget"]
    assert not any(each.what == "created" and each.time > 1 for each in again.timeline)


def test_manifests_imply_their_pods() -> None:
    """As controllers make them: replicas, a pod per node, claims of a StatefulSet, the parallelism of a Job."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": spec}
    cluster = Cluster(
        node("n1"),
        node("n2", taints=["x:NoSchedule"]),
        workload("Deployment", replicas=3),
        workload("StatefulSet", replicas=1, serviceName="s", volumeClaimTemplates=[claim]),
        workload("DaemonSet"),
        workload("Job", parallelism=2, completions=5),
    )
    owners = sorted(owner.kind for each in cluster.pods for owner in each.metadata.owner_references)
    assert owners == ["DaemonSet", *["Job"] * 2, *["ReplicaSet"] * 3, "StatefulSet"]
    again = Cluster(node("n1"), workload("Deployment", replicas=3))
    assert len(again.pending) == 3
    with pytest.warns(UserWarning, match=r"spec\.replicas"):
        Cluster(workload("Deployment", replicas=-1))


def test_workloads_that_were_read_have_their_pods() -> None:
    """Their pods are in the snapshot; none are made."""
    deployment = workload("Deployment", replicas=3)
    deployment["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    assert Cluster(node("n1"), deployment).pods == []


async def test_a_running_cluster_is_written_and_recorded(tmp_path: Path) -> None:
    """Over HTTPS with a kubeconfig: a snapshot with selectors, and a recording that replays with the same decisions."""
    server = build_server(ServerOptions())
    await server.start()
    cluster = EmbeddedCluster(server.api)
    cluster.start()
    client = LocalClient(server.api)
    try:
        kubeconfig = tmp_path / "config"
        server.write_kubeconfig(kubeconfig)
        for name, color in (("n1", "red"), ("n2", "blue")):
            await client.create("/api/v1/nodes", as_json(node(name, labels={"color": color})))
        await bound(client, "a", "n1")
        await bound(client, "b", "n2")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "stringData": {"password": "hunter2"},
        }
        await client.create("/api/v1/namespaces/default/secrets", secret)
        await check_snapshot(kubeconfig, tmp_path)
        await check_recording(server, client, kubeconfig, tmp_path)
    finally:
        await cluster.stop()
        await server.stop()


async def bound(client: LocalClient, name: str, node_name: str) -> None:
    """Create a pod and bind it, as a scheduler would."""
    path = "/api/v1/namespaces/default/pods"
    await client.create(path, as_json(pod(name, cpu=1)))
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await client.create(f"{path}/{name}/binding", binding)


async def check_snapshot(kubeconfig: Path, folder: Path) -> None:
    """The whole cluster, and the part with red nodes."""
    for options, pods in (((), ["a", "b"]), (("--nodes", "color=red"), ["a"]), (("-n", "other"), [])):
        output = folder / "snapshot.json.gz"
        arguments = ["snapshot", "--kubeconfig", str(kubeconfig), "-o", str(output), *options]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert result.exit_code == 0, result.output
        assert [each.name for each in Cluster.load(output).pods] == pods
        assert ("nothing was found in namespace other" in result.stderr) == ("other" in options)
    plain = await asyncio.to_thread(CliRunner().invoke, main, ["snapshot", "--kubeconfig", str(kubeconfig)])
    assert "hunter2" not in plain.stdout
    assert '"kind":"Pod"' in plain.stdout
    wrong = await asyncio.to_thread(
        CliRunner().invoke, main, ["snapshot", "--kubeconfig", str(kubeconfig), "-l", "a in"]
    )
    assert wrong.exit_code == 2
    assert "--selector" in wrong.output
    nowhere = str(folder / "missing" / "snapshot.json")
    arguments = ["snapshot", "--kubeconfig", str(kubeconfig), "-o", nowhere]
    refused = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert refused.stderr == f"Error: {nowhere}: No such file or directory\n"


async def check_recording(server: HttpServer, client: LocalClient, kubeconfig: Path, folder: Path) -> None:
    """Pods that arrive during the recording are scheduled to the recorded nodes when it is replayed."""
    output = folder / "r.jsonl.gz"
    arguments = ["record", "--kubeconfig", str(kubeconfig), "-o", str(output), "--duration", "5s"]
    command = [sys.executable, "-c", "from kubesched.cli.main import main; main()", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    line = await process.stderr.readline()
    assert line.startswith(b"recording; "), line + await process.stderr.read()
    await bound(client, "c", "n2")  # n1 would be as good: the recording decides
    await client.delete("/api/v1/namespaces/default/pods/b", {"gracePeriodSeconds": 0})
    await process.wait()
    assert process.returncode == 0
    exact, arrivals = await asyncio.to_thread(replayed, output)
    assert [(e.pod, e.node) for e in exact.placements] == [("default/a", "n1"), ("default/c", "n2")]
    assert [(e.pod, e.node) for e in arrivals.placements] == [("default/a", "n1"), ("default/c", "n2")]
    assert (arrivals.agreement.same, arrivals.agreement.moved) == (1, [])
    assert exact.virtual_seconds == arrivals.virtual_seconds >= 5.0


def replayed(path: Path) -> list[Any]:
    """The recording replayed as it was, and with our own decisions."""
    reports = []
    for mode in ReplayMode:
        scenario = load(path)
        scenario.replay = mode
        reports.append(run(scenario))
        assert reports[-1].error == ""
    return reports


def test_objects_that_are_refused_are_named() -> None:
    """A manifest that the API server does not accept ends the scenario with its message."""
    scenario = Scenario("s", "s.yaml", act=nothing)
    scenario.contents = of_objects([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "Not Valid"}}])
    assert "Not Valid" in run(scenario).error


async def nothing(_client: ScenarioClient) -> None:
    """A scenario without steps."""


def test_manifest_errors_have_one_class() -> None:
    """The public name is the reader's."""
    with pytest.raises(ManifestError, match="expected an object"):
        Cluster("- 1\n- 2")
