"""The scheduler's client in the process of the API server: what it sees, what it writes, how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.apiserver.support import NODES, PODS, FixedClock, node, pod, upcoming

from kubesched.api.objects import Node, PersistentVolumeClaim, Pod
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.durable import DurableStore
from kubesched.client.protocol import ApiError, WatchType
from kubesched.reconcile.access import Access

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture
def direct(api: ApiServer) -> DirectClient:
    """The client under test."""
    return DirectClient(api)


async def _pod(direct: DirectClient, name: str) -> Pod:
    return next(each for each in (await direct.list(Pod)).items if isinstance(each, Pod) and each.name == name)


async def test_pods_that_have_ended_are_not_there(client: LocalClient, direct: DirectClient) -> None:
    """A list leaves them out, and a watch says that they are gone when they end."""
    await client.create(PODS, pod("a"))
    await client.create(PODS, pod("b"))
    listing = await direct.list(Pod)
    events = direct.watch(Pod, listing.resource_version)
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    await client.patch(f"{PODS}/b/status", {"status": {"phase": "Running"}})
    seen = [await upcoming(events), await anext(events)]
    assert [(event.change, event.object.name) for event in seen if event.object] == [
        (WatchType.DELETED, "a"),
        (WatchType.MODIFIED, "b"),
    ]
    assert [each.name for each in (await direct.list(Pod)).items] == ["b"]
    await events.aclose()


async def test_a_pod_that_leaves_is_shown_as_it_was(client: LocalClient, direct: DirectClient) -> None:
    """Two watches of one client show the version before the end, with what has changed since it was listed."""
    await client.create(PODS, pod("a"))
    version = (await direct.list(Pod)).resource_version
    await client.patch(f"{PODS}/a", {"metadata": {"labels": {"n": "1"}}})
    await client.patch(f"{PODS}/a", {"metadata": {"labels": {"n": "2"}}})
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}})
    for _ in range(2):
        events = direct.watch(Pod, version)
        seen = [(await upcoming(events)), await anext(events), await anext(events)]
        assert [(event.change, event.object.labels) for event in seen if event.object] == [
            (WatchType.MODIFIED, {"n": "1"}),
            (WatchType.MODIFIED, {"n": "2"}),
            (WatchType.DELETED, {"n": "2"}),
        ]
        await events.aclose()


async def test_a_pod_with_another_status_is_shown_whole(
    client: LocalClient, direct: DirectClient, api: ApiServer
) -> None:
    """A watch that decodes only the new status of a pod shows what another client reads."""
    await client.create(PODS, pod("a"))
    events = direct.watch(Pod, (await direct.list(Pod)).resource_version)
    access = Access(api)
    access.edit_status("/pods", "default/a", lambda obj: obj["status"].update(phase="Running"), only_status=True)
    access.edit_status("/pods", "default/a", lambda obj: obj["status"].update(podIP="10.0.0.1"), only_status=True)
    seen = [(await upcoming(events)).object, (await anext(events)).object]
    assert [isinstance(each, Pod) and each.status.phase for each in seen] == ["Running", "Running"]
    assert seen[1] == await DirectClient(api).read(Pod, "a", "default")
    await events.aclose()


async def test_a_forgotten_version_is_410(client: LocalClient, direct: DirectClient, api: ApiServer) -> None:
    """A watch from a version that history does not reach is refused as by any server."""
    version = str(api.store.version)
    await client.create(NODES, node("n"))
    api.store.shelf("/nodes").forget()
    with pytest.raises(ApiError) as refused:
        await upcoming(direct.watch(Node, version))
    assert refused.value.code == 410


async def test_what_is_about_another_pod_is_refused(client: LocalClient, direct: DirectClient) -> None:
    """Binding and deletion are for the pod that was seen, not for one that has taken its name."""
    await client.create(NODES, node("n"))
    await client.create(PODS, pod("p"))
    seen = await _pod(direct, "p")
    await client.delete(f"{PODS}/p?gracePeriodSeconds=0")
    await client.create(PODS, pod("p"))
    with pytest.raises(ApiError) as binding:
        await direct.bind(seen, "n")
    with pytest.raises(ApiError) as deletion:
        await direct.delete_pod(seen)
    assert (binding.value.code, deletion.value.code) == (409, 409)
    await direct.bind(await _pod(direct, "p"), "n")
    assert (await client.get(f"{PODS}/p"))["spec"]["nodeName"] == "n"


async def test_claims_are_merged_and_statuses_by_their_keys(client: LocalClient, direct: DirectClient) -> None:
    """A claim's patch takes out what is null; a status patch changes one condition and keeps the others."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "c", "annotations": {"old": "1"}}
    await client.create(CLAIMS, {"metadata": meta, "spec": spec})
    changed = await direct.merge_patch(
        PersistentVolumeClaim, "c", {"metadata": {"annotations": {"old": None, "new": "2"}}}, "default"
    )
    assert changed.metadata.annotations == {"new": "2"}
    await client.create(PODS, pod("p"))
    seen = await _pod(direct, "p")
    for kind, status in (("A", "True"), ("B", "True"), ("A", "False")):
        await direct.patch_pod_status(seen, {"status": {"conditions": [{"type": kind, "status": status}]}})
    conditions = (await client.get(f"{PODS}/p"))["status"]["conditions"]
    assert {each["type"]: each["status"] for each in conditions} == {"A": "False", "B": "True"}


async def test_leases_are_updated_by_version(direct: DirectClient) -> None:
    """An update of a lease with an old version is refused."""
    with pytest.raises(ApiError) as missing:
        await direct.get_lease("kube-system", "scheduler")
    assert missing.value.code == 404
    made = await direct.create_lease(
        "kube-system", {"metadata": {"name": "scheduler"}, "spec": {"holderIdentity": "a"}}
    )
    made["spec"]["holderIdentity"] = "b"
    await direct.update_lease("kube-system", "scheduler", made)
    made["spec"]["holderIdentity"] = "c"
    with pytest.raises(ApiError) as late:
        await direct.update_lease("kube-system", "scheduler", made)
    assert late.value.code == 409
    assert (await direct.get_lease("kube-system", "scheduler"))["spec"]["holderIdentity"] == "b"


async def test_a_write_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    """On a durable store the client waits as a client behind a socket does."""
    store = DurableStore(tmp_path)
    server = ApiServer(store, clock=FixedClock())
    direct = DirectClient(server)
    await direct.create_lease("kube-system", {"metadata": {"name": "scheduler"}})
    assert store.visible == store.version
    await store.close()
