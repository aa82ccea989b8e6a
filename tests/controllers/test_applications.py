"""Fifteen applications of many documents each: applied, rolled, drained and deleted, on virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.controllers.world import World, world

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.reconcile.access import BUDGETS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, NODES, PODS, STATEFUL_SETS

FOLDER = Path(__file__).parent / "applications"
APPLICATIONS = sorted(FOLDER.glob("*.yaml"))
NEXT = "example.com/next:2.0"
ROLLED = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)


def path_of(w: World, obj: JSON) -> str:
    """Where objects of this kind are created."""
    group, _, version = obj["apiVersion"].rpartition("/")
    resource = next(r for r in w.api.registry if (r.group, r.version, r.kind) == (group, version, obj["kind"]))
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return (
        f"{root}/namespaces/{obj['metadata']['namespace']}/{resource.plural}"
        if resource.namespaced
        else f"{root}/{resource.plural}"
    )


def put_in_zone(zone: str, node: JSON) -> None:
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone


def use_next_image(workload: JSON) -> None:
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = NEXT


def workloads(w: World, namespace: str) -> list[tuple[str, JSON]]:
    return [(storage, obj) for storage in ROLLED for obj in w.access.list(storage, namespace)]


def is_rolled_out(storage: str, obj: JSON) -> bool:
    """Whether all pods are of the newest template, and ready."""
    status = obj.get("status") or {}
    if status.get("observedGeneration") != obj["metadata"]["generation"]:
        return False
    if storage == DAEMON_SETS:
        wanted = status["desiredNumberScheduled"]
        return bool(wanted and status.get("updatedNumberScheduled") == status.get("numberAvailable") == wanted)
    wanted = obj["spec"]["replicas"]
    counts = (status.get("updatedReplicas", 0), status.get("readyReplicas", 0), status.get("replicas", 0))
    return counts == (wanted,) * 3 and status.get("currentRevision") == status.get("updateRevision")


def settled(w: World, namespace: str) -> bool:
    pods = [pod for pod in w.access.list(PODS, namespace) if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    return all(is_rolled_out(*each) for each in workloads(w, namespace)) and all(
        pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods
    )


def missing(w: World, budget: JSON) -> int:
    """How many healthy pods a budget lacks, counted from the pods and their workloads alone."""
    spec, namespace = budget["spec"], budget["metadata"]["namespace"]
    labels = spec["selector"]["matchLabels"]
    owners = [
        obj for _, obj in workloads(w, namespace) if labels.items() <= obj["spec"]["selector"]["matchLabels"].items()
    ]
    replicas = sum(obj["spec"]["replicas"] for obj in owners)
    least: int = (
        spec["minAvailable"] if "minAvailable" in spec else replicas - number_of(spec["maxUnavailable"], replicas)
    )
    return least - sum(map(is_ready, w.running(**labels)))


def number_of(count_or_share: int | str, whole: int) -> int:
    if isinstance(count_or_share, int):
        return count_or_share
    return math.ceil(int(count_or_share.removesuffix("%")) * whole / 100)


def is_ready(pod: JSON) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


@contextmanager
def budgets_hold(w: World) -> Iterator[None]:
    """Count again after every change of a pod: no budget may ever lack a pod, and all must have had fewer to spare."""
    to_spare: dict[str, set[int]] = {each["metadata"]["name"]: {-missing(w, each)} for each in w.access.list(BUDGETS)}

    def look(event: StoreEvent) -> None:
        for budget in w.access.list(BUDGETS):
            to_spare[budget["metadata"]["name"]].add(-missing(w, budget))

    observers = w.api.store.shelf(PODS).observers
    observers.append(look)
    yield
    observers.remove(look)
    assert all(min(numbers) >= 0 and len(numbers) > 1 for numbers in to_spare.values()), to_spare


async def drain(w: World, client: LocalClient, node: str) -> None:
    """Evict everything but the pods of DaemonSets, as kubectl does: again and again until budgets allow it."""
    w.access.edit(NODES, node, lambda obj: obj["spec"].update(unschedulable=True))
    for _ in range(120):
        left = [
            pod
            for pod in w.access.list(PODS)
            if pod["spec"].get("nodeName") == node
            and pod["metadata"].get("ownerReferences", [{}])[0].get("kind") != "DaemonSet"
            and pod["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        if not left:
            w.access.edit(NODES, node, lambda obj: obj["spec"].update(unschedulable=False))
            return
        for pod in left:
            meta = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
            try:
                await client.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})
            except StatusError as error:
                if error.code not in (404, 429):  # gone by now, or protected by a budget
                    raise
        await w.clock.advance(5)
    raise AssertionError(f"{node} is not empty: {[pod['metadata']['name'] for pod in left]}")


@pytest.mark.parametrize("file", APPLICATIONS, ids=lambda file: file.stem)
@virtual_time
async def test_an_application(clock: VirtualClock, file: Path) -> None:
    """Every document is accepted strictly; pods run; a new image rolls out; all nodes are drained in
    turn within the budgets; nothing is left."""
    documents = [each for each in yaml.safe_load_all(file.read_text("utf-8")) if each]
    (namespace,) = [each["metadata"]["name"] for each in documents if each["kind"] == "Namespace"]
    async with world(clock, nodes=4) as w:
        for number, name in enumerate(w.names(NODES)):
            w.access.edit(NODES, name, partial(put_in_zone, f"zone-{number % 2}"))
        client = LocalClient(w.api)
        for each in documents:
            await client.create(f"{path_of(w, each)}?fieldValidation=Strict", each)
            await clock.settle()
        await w.until(lambda: settled(w, namespace), 300)
        assert workloads(w, namespace)
        for storage, obj in workloads(w, namespace):
            w.access.edit(storage, f"{namespace}/{obj['metadata']['name']}", use_next_image)
        await w.until(lambda: settled(w, namespace), 600)
        selectors = [obj["spec"]["selector"]["matchLabels"] for _, obj in workloads(w, namespace)]
        images = {pod["spec"]["containers"][0]["image"] for labels in selectors for pod in w.pods(**labels)}
        assert images == {NEXT}
        with budgets_hold(w):
            for node in w.names(NODES):
                await drain(w, client, node)
        await w.until(lambda: settled(w, namespace), 300)
        for each in reversed(documents):
            path = f"{path_of(w, each)}/{each['metadata']['name']}"
            await client.delete(path)
        await w.until(lambda: namespace not in w.names(NAMESPACES), 300)
        assert not [shelf for shelf in w.api.store.shelves.values() if shelf.sorted_keys(namespace)]
