"""The cluster in memory: it refuses what an API server refuses, and shows every change to a watch."""

import asyncio
import math
from contextlib import aclosing
from typing import Any

import pytest
from tests.measuring import CpuTime, seconds_of_encoding

from kubesched.api import objects as api
from kubesched.apiserver.inprocess.memory import MemoryClient
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.protocol import ApiError, Client, WatchEvent, WatchType


def pod(name: str, **spec: Any) -> api.Pod:
    return api.Pod(metadata=api.ObjectMeta(name=name, namespace="default"), spec=api.PodSpec(**spec))


def node(name: str) -> api.Node:
    return api.Node(metadata=api.ObjectMeta(name=name))


async def take(cluster: Client, kind: type[api.Object], version: str, count: int) -> list[WatchEvent]:
    """The next events of a watch."""
    found: list[WatchEvent] = []
    async for event in cluster.watch(kind, version):
        found.append(event)
        if len(found) == count:
            break
    return found


def seen(events: list[WatchEvent]) -> list[tuple[WatchType, str]]:
    return [(event.change, event.object.name if event.object else "") for event in events]


async def refusal(call: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


def test_it_is_a_client() -> None:
    """The cluster in memory has every call of the protocol."""
    cluster: Client = MemoryClient()
    assert cluster is not None


async def test_a_list_gives_the_version_to_watch_from() -> None:
    """A watch from a list's version shows exactly what came after the list."""
    cluster = MemoryClient()
    cluster.create(node("b"))
    cluster.create(node("a"))
    listing = await cluster.list(api.Node)
    assert [item.name for item in listing.items] == ["a", "b"]
    cluster.create(node("c"))
    cluster.delete(node("a"))
    events = await take(cluster, api.Node, listing.resource_version, 2)
    assert seen(events) == [(WatchType.ADDED, "c"), (WatchType.DELETED, "a")]
    assert [int(event.resource_version) for event in events] == [3, 4]


async def test_a_new_object_gets_identity_and_version() -> None:
    """UID, version and a pod's phase are set as the API server sets them."""
    cluster = MemoryClient()
    first, second = cluster.create(pod("a")), cluster.create(pod("b"))
    assert first.uid
    assert first.uid != second.uid
    assert first.status.phase == "Pending"
    assert first.metadata.resource_version == "1"


async def test_an_open_watch_wakes_up() -> None:
    """A watch that has nothing to tell waits for the next change."""
    cluster = MemoryClient()
    waiting = asyncio.create_task(take(cluster, api.Pod, "", 1))
    await asyncio.sleep(0)
    cluster.create(pod("a"))
    assert seen(await waiting) == [(WatchType.ADDED, "a")]


async def test_bind_sets_node_and_condition() -> None:
    """A binding sets nodeName and PodScheduled, clears the nomination and is seen by a watch as one update."""
    cluster = MemoryClient()
    created = cluster.create(pod("a"))
    await cluster.patch_pod_status(created, {"status": {"nominatedNodeName": "n2"}})
    await cluster.bind(created, "n1")
    bound = cluster.get(api.Pod, "default/a")
    assert bound is not None
    assert bound.spec.node_name == "n1"
    assert bound.status.nominated_node_name == ""
    assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]
    assert cluster.bindings == [("default/a", created.uid, "n1")]
    assert (await take(cluster, api.Pod, "2", 1))[0].object == bound


async def test_bind_refuses_as_the_api_server_does() -> None:
    """Bound already, gated, ending, replaced by another of its name, or gone: each refusal has upstream's words."""
    cluster = MemoryClient()
    created = cluster.create(pod("a"))
    await cluster.bind(created, "n1")
    again = await refusal(cluster.bind(created, "n2"))
    assert (again.code, again.reason) == (409, "Conflict")
    assert str(again) == ('Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"')
    gated = cluster.create(pod("g", scheduling_gates=(api.PodSchedulingGate("wait"),)))
    assert "non-empty .spec.schedulingGates" in str(await refusal(cluster.bind(gated, "n1")))
    cluster.delete(created)
    other = cluster.create(pod("a"))
    assert "UID in precondition" in str(await refusal(cluster.bind(created, "n1")))
    cluster.mark_for_deletion(other)
    assert "being deleted" in str(await refusal(cluster.bind(other, "n1")))
    cluster.delete(other)
    gone = await refusal(cluster.bind(other, "n1"))
    assert (gone.code, str(gone)) == (404, 'pods "a" not found')


async def test_status_patches_merge_conditions_by_type() -> None:
    """A strategic merge patch replaces the condition of its type and leaves the others, and cannot touch the spec."""
    cluster = MemoryClient()
    created = cluster.create(pod("a"))
    for name, status in (("Ready", "False"), ("PodScheduled", "False"), ("PodScheduled", "True")):
        patch = {"status": {"conditions": [{"type": name, "status": status}]}, "spec": {"nodeName": "n9"}}
        await cluster.patch_pod_status(created, patch)
    found = cluster.get(api.Pod, "default/a")
    assert found is not None
    # As in upstream, new items of a patch come before those that were there.
    assert [(c.type, c.status) for c in found.status.conditions] == [("PodScheduled", "True"), ("Ready", "False")]
    assert found.spec.node_name == ""


async def test_a_patch_or_deletion_for_another_uid_is_refused() -> None:
    """A UID in a patch or a deletion means that pod alone; the words are the API server's."""
    cluster = MemoryClient()
    created = cluster.create(pod("a"))
    error = await refusal(cluster.patch_pod_status(created, {"metadata": {"uid": "other"}, "status": {}}))
    assert (error.code, str(error)) == (
        422,
        'Pod "a" is invalid: metadata.uid: Invalid value: "other": field is immutable',
    )
    other = api.Pod(metadata=api.ObjectMeta(name="a", namespace="default", uid="other"))
    error = await refusal(cluster.delete_pod(other))
    assert error.code == 409
    assert f"the UID in the precondition (other) does not match the UID in record ({created.uid})" in str(error)


async def test_an_ended_pod_is_deleted_to_a_watch() -> None:
    """The field selector hides ended pods: a list lacks them, a watch sees a deletion in the last visible state."""
    cluster = MemoryClient()
    created = cluster.create(pod("a"))
    await cluster.patch_pod_status(created, {"status": {"phase": "Succeeded"}})
    (event,) = await take(cluster, api.Pod, "1", 1)
    assert event.change is WatchType.DELETED
    assert isinstance(event.object, api.Pod)
    assert event.object.status.phase == "Pending"
    assert event.resource_version == "2"
    assert (await cluster.list(api.Pod)).items == []


async def test_history_is_forgotten() -> None:
    """A watch from before the history is refused with 410, at its start and when it falls behind."""
    cluster = MemoryClient()
    cluster.create(node("a"))
    async with aclosing(cluster.watch(api.Node, "0")) as lagging:
        await anext(lagging)
        cluster.create(node("b"))
        cluster.create(node("c"))
        cluster.forget_history()
        with pytest.raises(ApiError) as late:
            await anext(lagging)
    assert late.value.code == 410
    assert (await refusal(take(cluster, api.Node, "1", 1))).reason == "Expired"
    cluster.create(node("d"))
    assert seen(await take(cluster, api.Node, "3", 1)) == [(WatchType.ADDED, "d")]


async def test_bookmarks() -> None:
    """A bookmark carries the version reached by all kinds, and no object."""
    cluster = MemoryClient()
    async with aclosing(cluster.watch(api.Node, "0")) as events:
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        cluster.create(pod("a"))
        cluster.bookmark(api.Node)
        assert await waiting == WatchEvent(WatchType.BOOKMARK, None, "1")


async def test_leases_are_optimistic() -> None:
    """A lease is created once, and updated only by who has seen its latest version."""
    cluster = MemoryClient()
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    assert (await refusal(cluster.get_lease("kube-system", "l"))).code == 404
    first = await cluster.create_lease("kube-system", body)
    assert (await refusal(cluster.create_lease("kube-system", body))).reason == "AlreadyExists"
    first["spec"]["holderIdentity"] = "b"
    await cluster.update_lease("kube-system", "l", first)
    assert (await refusal(cluster.update_lease("kube-system", "l", first))).reason == "Conflict"
    assert (await refusal(cluster.update_lease("kube-system", "l", body))).code == 422
    assert (await cluster.get_lease("kube-system", "l"))["spec"]["holderIdentity"] == "b"


async def test_events_are_kept_in_order() -> None:
    """Events are created once and patched into series."""
    cluster = MemoryClient()
    await cluster.create_event("default", {"metadata": {"name": "e"}, "reason": "Scheduled"})
    await cluster.patch_event("default", "e", {"series": {"count": 2}})
    assert [(e["reason"], e["series"]["count"]) for e in cluster.events] == [("Scheduled", 2)]
    assert (await refusal(cluster.patch_event("default", "f", {}))).code == 404


async def test_volumes_and_claims_are_patched() -> None:
    """A merge patch reaches claims and volumes; one with a stale version is a conflict."""
    cluster = MemoryClient()
    cluster.create(api.PersistentVolumeClaim(metadata=api.ObjectMeta(name="c", namespace="default")))
    cluster.create(api.PersistentVolume(metadata=api.ObjectMeta(name="v")))
    change = {"metadata": {"annotations": {"a": "b"}}, "spec": {"volumeName": "v"}}
    await cluster.merge_patch(api.PersistentVolumeClaim, "c", change, "default")
    await cluster.merge_patch(api.PersistentVolume, "v", {"spec": {"claimRef": {"namespace": "default", "name": "c"}}})
    claim, volume = cluster.get(api.PersistentVolumeClaim, "default/c"), cluster.get(api.PersistentVolume, "v")
    assert claim is not None
    assert volume is not None
    assert (claim.spec.volume_name, claim.annotations) == ("v", {"a": "b"})
    assert volume.spec.claim_ref is not None
    assert (
        await refusal(cluster.merge_patch(api.PersistentVolume, "v", {"metadata": {"resourceVersion": "1"}}))
    ).code == 409


@virtual_time
async def test_pods_end_gracefully(clock: VirtualClock) -> None:
    """A pod on a node first gets its deletionTimestamp and is gone later; one without a node goes at once."""
    cluster = MemoryClient(clock)
    cluster.deletion_takes = 30
    running, waiting = cluster.create(pod("r", node_name="n1")), cluster.create(pod("w"))
    await cluster.delete_pod(waiting)
    await cluster.delete_pod(running)
    await cluster.delete_pod(running)
    assert [p.name for p in cluster.objects(api.Pod)] == ["r"]
    assert cluster.objects(api.Pod)[0].metadata.deletion_timestamp == "2026-01-01T00:00:00Z"
    await clock.advance(30)
    assert cluster.objects(api.Pod) == ()
    cluster.deletion_takes = math.inf
    stays = cluster.create(pod("s", node_name="n1"))
    await cluster.delete_pod(stays)
    await clock.advance(3600)
    assert [p.name for p in cluster.objects(api.Pod)] == ["s"]
    cluster.finish_deletion(stays)
    assert cluster.objects(api.Pod) == ()


async def test_binding_is_fast() -> None:
    """A bind takes less than encoding and decoding some pods, or the benchmark of the loop would measure this class."""
    cluster = MemoryClient()
    pods = [cluster.create(pod(f"p{number}")) for number in range(10_000)]
    peer = seconds_of_encoding()
    with CpuTime() as taken:
        for one in pods:
            await cluster.bind(one, "n1")
    assert taken.seconds / len(pods) < 10 * peer
