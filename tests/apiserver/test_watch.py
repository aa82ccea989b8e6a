"""Watching: from a version, from the beginning, with a selection, as a table, until the timeout."""

from __future__ import annotations

import asyncio

from tests.apiserver.support import CONFIG_MAPS, NODES, PODS, TABLE, config_map, node, pod, refusal, take, upcoming

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.store import Store, decode
from kubesched.apiserver.wire.status import StatusError


async def test_watch_from_a_version(client: LocalClient) -> None:
    """A watch reports everything after its version, in order."""
    made = await client.create(CONFIG_MAPS, config_map("a"))
    await client.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    await client.delete(f"{CONFIG_MAPS}/a")
    events = client.watch(CONFIG_MAPS, resourceVersion=made["metadata"]["resourceVersion"])
    assert await take(events, 2) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_watch_from_the_beginning(client: LocalClient) -> None:
    """Without a version a watch starts with the existing objects and continues with changes."""
    await client.create(NODES, node("a"))
    events = client.watch(NODES)
    assert await take(events, 1) == [("ADDED", "a")]
    waiting = asyncio.create_task(take(events, 1))
    await asyncio.sleep(0)
    await client.create(NODES, node("b"))
    assert await waiting == [("ADDED", "b")]


async def test_initial_events_end_with_a_bookmark(client: LocalClient, api: ApiServer) -> None:
    """A watch that replaces a list marks where the list ends."""
    await client.create(NODES, node("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    events = client.watch(NODES, **query)
    assert (await upcoming(events))["type"] == "ADDED"
    bookmark = await upcoming(events)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.store.version)
    error = await refusal(client.call("GET", f"{NODES}?watch=1&sendInitialEvents=true"))
    assert error.code == 422


async def test_selection_makes_objects_come_and_go(client: LocalClient) -> None:
    """An object that starts to match is added, one that stops to match is deleted."""
    made = await client.create(PODS, pod("a"))
    version = made["metadata"]["resourceVersion"]
    await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    await client.patch(f"{PODS}/a", {"metadata": {"annotations": {"y": "1"}}})
    last = await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "2"}}})
    events = client.watch(PODS, resourceVersion=version, labelSelector="x=1")
    assert await take(events, 2) == [("ADDED", "a"), ("MODIFIED", "a")]
    gone = await upcoming(events)
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["labels"] == {"x": "1"}
    assert gone["object"]["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


async def test_namespace_and_field_are_selections_too(client: LocalClient) -> None:
    """A watch of a namespace, and of pods without a node, sees only those."""
    await client.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await client.create("/api/v1/namespaces/other/pods", pod("x"))
    await client.create(PODS, pod("a"))
    await client.create(PODS, pod("b", nodeName="n"))
    events = client.watch(PODS, fieldSelector="spec.nodeName=")
    assert await take(events, 1) == [("ADDED", "a")]
    await client.create(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}})
    assert await take(events, 1) == [("DELETED", "a")]


async def test_too_old_is_an_error_event() -> None:
    """A watch from a forgotten version gets 410 in its stream, as client-go expects."""
    client = LocalClient(ApiServer(Store(max_events=2)))
    for number in range(10):
        await client.create(NODES, node(f"n{number}"))
    event = await upcoming(client.watch(NODES, resourceVersion="1"))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_slow_watcher_that_lost_history_is_told() -> None:
    """A watcher that falls behind the window gets 410 rather than a gap."""
    client = LocalClient(ApiServer(Store(max_events=4)))
    events = client.watch(NODES)
    first = asyncio.create_task(take(events, 1))
    await asyncio.sleep(0)
    await client.create(NODES, node("first"))
    assert await first == [("ADDED", "first")]
    for number in range(30):
        await client.create(NODES, node(f"n{number}"))
    assert (await upcoming(events))["object"]["code"] == 410


async def test_time_over(api: ApiServer) -> None:
    """A watch ends at its timeout, with a bookmark if the client asked for bookmarks."""
    client = LocalClient(ApiServer())
    events = [e async for e in client.watch(NODES, timeoutSeconds="1", allowWatchBookmarks="true")]
    assert [event["type"] for event in events] == ["BOOKMARK"]


async def test_future_versions_are_refused(client: LocalClient) -> None:
    """A watch from a future version is refused."""
    error = await refusal(client.call("GET", f"{NODES}?watch=1&resourceVersion=99999"))
    assert error.code == 504


async def test_watch_as_a_table(client: LocalClient) -> None:
    """Every event is a table of one row; only the first names the columns."""
    await client.create(PODS, pod("a"))
    response = await client.send("GET", PODS, query={"watch": "1"}, headers=TABLE)
    assert response.stream is not None
    lines: list[bytes] = []
    await client.create(PODS, pod("b"))
    async for chunk in response.stream:
        lines += chunk.splitlines()
        if len(lines) >= 2:
            break
    assert b'"columnDefinitions":[{"name":"Name"' in lines[0]
    assert b'"columnDefinitions":[]' in lines[1]
    assert b'"cells":["b","0/1","Pending"' in lines[1]


async def test_watch_of_one_object(client: LocalClient) -> None:
    """A field selector on the name watches one object, as `kubectl get NAME --watch` does."""
    await client.create(NODES, node("a"))
    await client.create(NODES, node("b"))
    assert await take(client.watch(NODES, fieldSelector="metadata.name=b"), 1) == [("ADDED", "b")]


async def test_old_style_watch_path(client: LocalClient) -> None:
    """The path of old clients, with watch in it, still works."""
    await client.create(NODES, node("a"))
    response = await client.send("GET", "/api/v1/watch/nodes")
    assert response.stream is not None
    assert b'"type":"ADDED"' in await upcoming(response.stream)


def test_status_errors_are_exceptions() -> None:
    """A refusal knows its Status."""
    status = StatusError(404, "gone", details={"name": "x"}).status()
    assert (status["reason"], status["details"], status["code"]) == ("NotFound", {"name": "x"}, 404)


async def test_a_namespace_called_watch_is_one_like_others(client: LocalClient) -> None:
    """Its lists are lists, in spite of the old form of paths."""
    await client.create("/api/v1/namespaces", {"metadata": {"name": "watch"}})
    response = await client.send("GET", "/api/v1/namespaces/watch/pods")
    assert response.stream is None
    assert decode(response.body)["items"] == []
