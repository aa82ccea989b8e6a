"""The real kube-scheduler on the embedded API server: client-go is the sternest client there is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.support import DEPLOYMENTS, PODS, deployment, pod
from tests.e2e.parts import VARIABLE, find
from tests.e2e.processes import Child, free_port

from kubesched.apiserver.admission.admission import AdmissionSettings
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.kubelet.settings import KubeletSettings

PROGRAM = find("kube-scheduler")
NODES = 4
PATIENCE = 180.0
CHURN_SECONDS = 6.0
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason=f"no kube-scheduler: make e2e builds one, or {VARIABLE} names a folder that holds it"
)

# What it says in any cluster: there is no front proxy here, and the configuration it looks for elsewhere is empty. And
# that a pod was deleted while it was being bound is as it should be.
_EXPECTED = re.compile(
    r"requestheader-client-ca-file"
    r"|The manifest file is empty, ignoring"
    r'|pods \\"(job-\d+|web-[\w-]+)\\" not found'
)


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[HttpServer, EmbeddedCluster]]:
    """A cluster that has everything but a scheduler."""
    admission = AdmissionSettings(require_service_accounts=True, taint_new_nodes=True, protect_in_use=True)
    server = build_server(ServerOptions(admission=admission))
    await server.start()
    settings = ClusterSettings(kubelet=KubeletSettings(start_delay=0.02, stop_delay=0.02, run_time=0.2))
    embedded = EmbeddedCluster(server.api, settings)
    embedded.start()
    embedded.add_nodes(NODES)
    yield server, embedded
    await embedded.stop()
    await server.stop()


@pytest.fixture
def scheduler(cluster: tuple[HttpServer, EmbeddedCluster], tmp_path: Path) -> Iterator[Child]:
    """kube-scheduler with the identity and the privileges of one."""
    server, _ = cluster
    kubeconfig = tmp_path / "kubeconfig"
    user = "system:kube-scheduler"
    server.write_kubeconfig(kubeconfig, user, server.identity.authority.client_pair(user))
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(kubeconfig),
            "contentType": "application/json",
            "acceptContentTypes": "application/json",
            "qps": 1000,
            "burst": 1000,
        },
        "leaderElection": {"leaderElect": True},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert PROGRAM is not None
    command: list[str | Path] = [PROGRAM, f"--config={path}", f"--secure-port={free_port()}", "--v=2"]
    command += [f"--{kind}-kubeconfig={kubeconfig}" for kind in ("authentication", "authorization")]
    child = Child("kube-scheduler", [*command, "--bind-address=127.0.0.1"], tmp_path / "log")
    yield child
    child.kill()


async def _until(condition: Callable[[], object], scheduler: Child) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            scheduler.running()
            await asyncio.sleep(0.05)


def _objects(server: HttpServer, plural: str) -> dict[str, JSON]:
    return {record.name: record.load() for record in server.api.store.records(plural)}


def _running(server: HttpServer) -> set[str]:
    return {name for name, each in _objects(server, "/pods").items() if each["status"].get("phase") == "Running"}


def _complaints(scheduler: Child) -> list[str]:
    """Errors and warnings in its log."""
    said = [line for line in scheduler.output().splitlines() if re.match(r"[EW]\d{4} ", line)]
    return [line for line in said if not _EXPECTED.search(line)]


def _requests(cpu: str) -> JSON:
    return {"containers": [{"name": "c", "image": "nginx:1.25", "resources": {"requests": {"cpu": cpu}}}]}


def _of_all_kinds() -> dict[str, JSON]:
    """Pods that keep kube-scheduler's plugins busy, by name."""
    apart = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    spread = {**apart, "labelSelector": {"matchLabels": {"app": "spread"}}, "maxSkew": 1}
    made: dict[str, JSON] = {"plain": {}, "chosen": {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}}
    for number in range(NODES):
        term: JSON = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        made[f"apart-{number}"] = {"affinity": {"podAntiAffinity": term}}
        made[f"spread-{number}"] = {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]}
    made["stored"] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    return made


async def _create_pod(client: LocalClient, name: str, **spec: Any) -> None:
    body = pod(name, **spec)
    body["metadata"]["labels"] = {"app": name.rpartition("-")[0] or name}
    await client.create(PODS, body)


async def test_it_schedules(cluster: tuple[HttpServer, EmbeddedCluster], scheduler: Child) -> None:
    """It becomes leader, binds pods of all kinds, says why one does not fit, makes room, and does not complain."""
    server, _ = cluster
    client = LocalClient(server.api)
    await _until(lambda: _objects(server, "/serviceaccounts").get("default"), scheduler)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": claim})
    kinds = _of_all_kinds()
    for name, spec in kinds.items():
        await _create_pod(client, name, **spec)
    await client.create(DEPLOYMENTS, deployment("web", replicas=12))
    await _until(lambda: len(_running(server)) == len(kinds) + 12, scheduler)

    pods = _objects(server, "/pods")
    assert pods["chosen"]["spec"]["nodeName"] == "node-2"
    for kind in ("apart", "spread"):
        assert len({pods[f"{kind}-{number}"]["spec"]["nodeName"] for number in range(NODES)}) == NODES
    assert _objects(server, "/persistentvolumeclaims")["data"]["status"]["phase"] == "Bound"
    assert (await client.get(LEASE))["spec"]["holderIdentity"]

    await _create_pod(client, "huge", **_requests("64"))
    await _until(lambda: _failures(server, "huge"), scheduler)
    assert f"0/{NODES} nodes are available: {NODES} Insufficient cpu." in _failures(server, "huge")[0]
    # Event and condition are written side by side: either may be there first.
    await _until(lambda: "conditions" in _objects(server, "/pods")["huge"]["status"], scheduler)
    condition = _objects(server, "/pods")["huge"]["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")

    await client.create(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    for number in range(NODES):
        await _create_pod(client, f"low-{number}", **_requests("3"))
    await _until(lambda: sum(name.startswith("low-") for name in _running(server)) == NODES, scheduler)
    await _create_pod(client, "important", priorityClassName="high", **_requests("3"))
    await _until(lambda: "important" in _running(server), scheduler)
    assert sum(name.startswith("low-") for name in _objects(server, "/pods")) == NODES - 1
    assert _complaints(scheduler) == []


def _failures(server: HttpServer, name: str) -> list[str]:
    events = _objects(server, "/events").values()
    return [
        each.get("note") or each["message"]
        for each in events
        if each["reason"] == "FailedScheduling" and each["involvedObject"]["name"] == name
    ]


async def test_churn(cluster: tuple[HttpServer, EmbeddedCluster], scheduler: Child) -> None:
    """While pods, nodes and deployments come and go, all pods are bound in the end and the log has no complaint."""
    server, embedded = cluster
    client = LocalClient(server.api)
    loop = asyncio.get_running_loop()
    await _until(lambda: _objects(server, "/serviceaccounts").get("default"), scheduler)
    web = deployment("web", replicas=3)
    # Those that stay: the pods of a node that is gone are collected only after a while.
    web["spec"]["template"]["spec"]["nodeSelector"] = {"stays": "true"}
    for number in range(1, NODES + 1):
        await client.patch(f"/api/v1/nodes/node-{number}", {"metadata": {"labels": {"stays": "true"}}})
    await client.create(DEPLOYMENTS, web)
    end, turn = loop.time() + CHURN_SECONDS, 0
    while loop.time() < end:
        turn += 1
        await client.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 3 + turn % 17}})
        await _create_pod(client, f"job-{turn}", restartPolicy="Never")
        embedded.kubelets.nodes.create(f"guest-{turn}")
        if turn > 3:
            await client.delete(f"/api/v1/nodes/guest-{turn - 3}")
            await client.delete(f"{PODS}/job-{turn - 3}")
        await asyncio.sleep(0.1)

    def settled() -> bool:
        pods = [each for each in _objects(server, "/pods").values() if each["metadata"]["name"].startswith("web")]
        return len(pods) == 3 + turn % 17 and all(each["status"]["phase"] == "Running" for each in pods)

    await _until(settled, scheduler)
    assert _complaints(scheduler) == []
