"""Objects kept as the API server sent them, beside the structs that scheduling reads."""

from __future__ import annotations

import json
from typing import Any

from tests.client.server import ApiServer, serving, watch_line

from kubesched.api import objects as api
from kubesched.client.http import HttpClient
from kubesched.client.whole import REPLACED, WholeObjects

POD: dict[str, Any] = {
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "web",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"a": "b"},
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"containers": [{"name": "c", "image": "i", "command": ["sleep"], "resources": {}}], "dnsPolicy": "None"},
    "status": {"phase": "Pending", "qosClass": "BestEffort"},
}
TYPE = {"kind": "Pod", "apiVersion": "v1"}


def changed(**fields: Any) -> dict[str, Any]:
    """The pod with some fields of its metadata changed."""
    return {**POD, "metadata": {**POD["metadata"], **fields}}


def found(whole: WholeObjects, pod: api.Object) -> Any:
    data = whole(pod)
    return None if data is None else json.loads(data)


async def test_an_object_is_kept_whole() -> None:
    """A listed pod is kept with fields that no Struct has, in their order, without what Go omits."""
    whole = WholeObjects({api.Pod: lambda _: True})
    async with serving() as server, HttpClient(server.connection, whole=whole) as client:
        server.put_json(api.Pod, {**TYPE, **POD})
        (pod,) = (await client.list(api.Pod)).items
        kept = found(whole, pod)
    assert kept["spec"] == POD["spec"]
    assert kept["status"] == POD["status"]
    assert list(kept) == ["metadata", "spec", "status"]
    assert kept["metadata"].keys() == POD["metadata"].keys() - {"managedFields"} | {"resourceVersion"}


async def test_nodes_keep_their_managed_fields() -> None:
    """Upstream's informer drops them from pods only."""
    whole = WholeObjects({api.Node: lambda _: True})
    data = {"metadata": {"name": "n", "managedFields": [{"manager": "kubelet"}]}, "status": {"nodeInfo": {"x": "y"}}}
    node = api.Node(metadata=api.ObjectMeta(name="n"))
    whole.put(node, json.dumps(data).encode())
    assert found(whole, node) == data


async def test_the_newest_version_counts() -> None:
    """A watch replaces a kept object, and a deletion removes it, also one that a new list shows."""
    whole = WholeObjects({api.Pod: lambda _: True})
    lines = [("ADDED", changed(resourceVersion="5")), ("MODIFIED", changed(resourceVersion="6", labels={"new": "yes"}))]
    lines += [("DELETED", changed(resourceVersion="7"))]
    async with serving(ApiServer()) as server, HttpClient(server.connection, whole=whole) as client:
        server.watch_prelude = [watch_line(change, {**TYPE, **body}) for change, body in lines]
        seen = []
        async for event in client.watch(api.Pod, "0"):
            assert event.object is not None
            seen.append(found(whole, event.object))
            if len(seen) == 3:
                break
        assert [each and each["metadata"]["labels"] for each in seen] == [{"a": "b"}, {"new": "yes"}, None]
        server.put_json(api.Pod, {**TYPE, **POD})
        (pod,) = (await client.list(api.Pod)).items
        assert whole(pod)
        server.backend.delete(pod)
        await client.list(api.Pod)
        assert whole(pod) is None


async def test_only_what_is_wanted_is_kept() -> None:
    """A pod that is no longer wanted is dropped; unwanted kinds and pods with another UID are not kept."""
    whole = WholeObjects({api.Pod: lambda obj: not obj.metadata.labels.get("bound")})
    assert api.Node not in whole
    async with serving() as server, HttpClient(server.connection, whole=whole) as client:
        server.put_json(api.Pod, {**TYPE, **POD})
        (pod,) = (await client.list(api.Pod)).items
        assert whole(pod)
        another = api.Pod(metadata=api.ObjectMeta(name="web", namespace="default", uid="another"))
        assert whole(another) is None
        server.put_json(api.Pod, {**TYPE, **changed(labels={"bound": "yes"})})
        (pod,) = (await client.list(api.Pod)).items
        assert whole(pod) is None


CLAIM: dict[str, Any] = {
    "metadata": {
        "name": "gpu",
        "namespace": "default",
        "uid": "1",
        "resourceVersion": "7",
        "generateName": "gpu-",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"devices": {"requests": [{"name": "r", "unknown": 1}]}},
}


async def test_a_claim_whose_version_is_known_is_replaced() -> None:
    """A patch for the version that we have is sent as the whole object, with the fields that no Struct has; the next
    patch is for the response. Once the claim is allocated it is not kept.
    """
    whole = WholeObjects(REPLACED)
    claim = api.ResourceClaim(metadata=api.ObjectMeta(name="gpu", namespace="default", uid="1"))
    whole.put(claim, json.dumps({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", **CLAIM}).encode())
    async with serving() as server, HttpClient(server.connection, whole=whole) as client:
        finalizer = {"metadata": {"resourceVersion": "7", "finalizers": ["f"]}}
        await client.merge_patch(api.ResourceClaim, "gpu", finalizer, "default")
        status = {"metadata": {"resourceVersion": "7"}, "status": {"allocation": {}}}
        await client.merge_patch(api.ResourceClaim, "gpu", status, "default", "status")
        await client.merge_patch(api.ResourceClaim, "gpu", status, "default", "status")
    assert [seen.method for seen in server.received] == ["PUT", "PUT", "PATCH"]
    metadata = {key: value for key, value in CLAIM["metadata"].items() if key != "managedFields"}
    expected = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "finalizers": ["f"]},
        "spec": CLAIM["spec"],
    }
    assert server.received[0].body == expected
    assert server.received[1].body == {**expected, "status": {"allocation": {}}}


async def test_a_claim_of_another_version_is_patched() -> None:
    """A patch for another version, or for any, goes to the API server as it is."""
    whole = WholeObjects(REPLACED)
    claim = api.ResourceClaim(metadata=api.ObjectMeta(name="gpu", namespace="default", uid="1"))
    whole.put(claim, json.dumps(CLAIM).encode())
    async with serving() as server, HttpClient(server.connection, whole=whole) as client:
        for metadata in ({"resourceVersion": "6"}, {}):
            await client.merge_patch(api.ResourceClaim, "gpu", {"metadata": metadata}, "default")
    assert [seen.method for seen in server.received] == ["PATCH", "PATCH"]
