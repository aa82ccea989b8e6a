"""The HTTP client against a server on loopback: what it sends, how it lists and watches, when it tries again."""

import asyncio
import random
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from tests.client.server import ApiServer, answering, hang_up, serving, status, watch_line

from kubesched.api import objects as api
from kubesched.base.clocks import SystemClock
from kubesched.client.connection import Connection, Impersonation
from kubesched.client.http import HttpClient
from kubesched.client.pool import BrokenConnection
from kubesched.client.protocol import ApiError, Client, WatchEvent, WatchType
from kubesched.client.transport import RequestDone, user_agent


class QuickClock(SystemClock):
    """Real time, but sleeps are only recorded."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def node(name: str) -> api.Node:
    return api.Node(metadata=api.ObjectMeta(name=name))


def pod(name: str) -> api.Pod:
    return api.Pod(metadata=api.ObjectMeta(name=name, namespace="team"))


async def watched(client: Client, kind: type[api.Object], version: str, count: int) -> list[WatchEvent]:
    found: list[WatchEvent] = []
    async with aclosing(client.watch(kind, version)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def refusal(call: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


# --- calls ------------------------------------------------------------------------------------------------------------


async def test_calls_as_the_api_server_expects_them() -> None:
    """Each call of the protocol goes to its path, with its body and the content type of its patch."""
    async with serving() as server, HttpClient(server.connection) as client:
        created = server.backend.create(pod("a"))
        await client.bind(created, "n1")
        await client.patch_pod_status(created, {"status": {"nominatedNodeName": "n2"}})
        await client.merge_patch(api.PersistentVolumeClaim, "c", {"spec": {"volumeName": "v"}}, "team")
        await client.merge_patch(api.PersistentVolume, "v", {"spec": {}})
        await client.create_event("team", {"metadata": {"name": "e"}})
        await client.patch_event("team", "e", {"series": {"count": 2}})
        await client.create_lease("kube-system", {"metadata": {"name": "l"}})
        await client.update_lease("kube-system", "l", {"spec": {}})
        assert await client.get_lease("kube-system", "l") == {"spec": {}}
        await client.delete_pod(created)
    assert [(seen.method, seen.path) for seen in server.received] == [
        ("POST", "/api/v1/namespaces/team/pods/a/binding"),
        ("PATCH", "/api/v1/namespaces/team/pods/a/status"),
        ("PATCH", "/api/v1/namespaces/team/persistentvolumeclaims/c"),
        ("PATCH", "/api/v1/persistentvolumes/v"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/team/events"),
        ("PATCH", "/apis/events.k8s.io/v1/namespaces/team/events/e"),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"),
        ("DELETE", "/api/v1/namespaces/team/pods/a"),
    ]
    assert server.received[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "team", "uid": created.uid},
        "target": {"kind": "Node", "name": "n1"},
    }
    types = [seen.headers["Content-Type"] for seen in server.received if seen.method == "PATCH"]
    strategic, plain = "application/strategic-merge-patch+json", "application/merge-patch+json"
    assert types == [strategic, plain, plain, strategic]
    assert server.received[-1].body["preconditions"] == {"uid": created.uid}
    assert list(server.backend.bindings) == [("team/a", created.uid, "n1")]


async def test_headers() -> None:
    """Every request has a user agent, asks for JSON and impersonates if configured."""
    extra = {"example.com/Scope": ("a", "b")}
    async with serving() as server:
        connection = Connection(server.url, impersonate=Impersonation("jane", "7", ("dev", "ops"), extra))
        async with HttpClient(connection, agent="scheduler") as client:
            await client.list(api.Node)
    headers = server.received[0].headers
    assert headers["User-Agent"] == user_agent("scheduler")
    assert user_agent().startswith("kubesched/")
    assert headers["Accept"] == "application/json"
    assert (headers["Impersonate-User"], headers["Impersonate-Uid"]) == ("jane", "7")
    assert headers.getall("Impersonate-Group") == ["dev", "ops"]
    assert headers.getall("Impersonate-Extra-example.com%2fscope") == ["a", "b"]


async def test_generic_calls() -> None:
    """Reviews and other calls that are not in the protocol can be sent as JSON."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    async with serving() as server, HttpClient(server.connection) as client:
        server.reviews[path] = {"authenticated": True}
        review = await client.post(path, {"kind": "TokenReview", "spec": {"token": "t"}})
        assert review["status"] == {"authenticated": True}
        await client.put("/apis/x/v1/things/a%2Fb", {"a": 1})
        assert await client.get("/apis/x/v1/things/a%2Fb") == {"a": 1}
        assert await client.patch("/apis/x/v1/things/a%2Fb", {"b": 2}) == {"a": 1, "b": 2}
        server.script.append(answering(lambda: web.Response(text="ok")))
        assert await client.request("GET", "/readyz", query={"verbose": ""}) == b"ok"
        server.script.append(answering(lambda: web.Response(text="ok")))
        assert "is not a JSON object" in str(await refusal(client.get("/readyz")))


async def test_one_object() -> None:
    """A single object is decoded as its Struct; one that does not fit is an error."""
    async with serving() as server, HttpClient(server.connection) as client:
        body = {"metadata": {"name": "a"}, "spec": {"unschedulable": True}}
        server.script.append(answering(lambda: web.json_response(body)))
        assert (await client.read(api.Node, "a")).spec.unschedulable
        bad = {"metadata": {"name": "a"}, "spec": {"unschedulable": "x"}}
        server.script.append(answering(lambda: web.json_response(bad)))
        assert "Node a: spec.unschedulable" in str(await refusal(client.read(api.Node, "a")))


async def test_connections_are_kept() -> None:
    """A hundred requests one after the other use one connection."""
    ports: set[Any] = set()

    async def note(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return web.json_response({})

    async with serving() as server, HttpClient(server.connection, qps=-1) as client:
        server.script = [note] * 100
        for _ in range(100):
            await client.get("/x")
    assert len(ports) == 1


async def test_observers_hear_of_every_try() -> None:
    """The observer gets verb, host and code of each attempt, for metrics."""
    seen: list[RequestDone] = []
    async with serving() as server, HttpClient(server.connection, clock=QuickClock(), observe=seen.append) as client:
        server.script.append(answering(lambda: status(429, "TooManyRequests", "slow down", 1)))
        await client.list(api.Node)
    assert [(done.verb, done.code) for done in seen] == [("GET", 429), ("GET", 200)]
    assert seen[0].host in server.url
    assert seen[0].seconds > 0


async def test_observers_hear_how_long_the_limit_held_a_request_back() -> None:
    """The time a request waits for the rate limit is reported separately from its duration."""
    seen: list[RequestDone] = []
    async with serving() as server, HttpClient(server.connection, qps=20, burst=1, observe=seen.append) as client:
        await asyncio.gather(client.list(api.Node), client.list(api.Node))
    first, second = sorted(done.waited for done in seen)
    assert first < 0.04 <= second


async def test_nothing_is_written_once_it_must_not_be() -> None:
    """A request that changes something is not sent once the process may no longer write; reads are."""
    leading = True

    class SleepsThroughTheLease(QuickClock):
        async def sleep(self, seconds: float) -> None:
            nonlocal leading
            leading = False

    async with (
        serving() as server,
        HttpClient(
            server.connection, qps=1, burst=1, clock=SleepsThroughTheLease(), may_write=lambda: leading
        ) as client,
    ):
        created = server.backend.create(pod("a"))
        assert isinstance(created, api.Pod)
        await client.patch_pod_status(created, {"status": {"nominatedNodeName": "n"}})
        with pytest.raises(ConnectionError, match="not sent: this process is no longer the leader"):
            await client.bind(created, "n")
        assert [each.method for each in server.received] == ["PATCH"]
        assert [each.node_name for each in (await client.list(api.Pod)).items if isinstance(each, api.Pod)] == [""]


# --- refusals and retries ---------------------------------------------------------------------------------------------


async def test_refusals_carry_code_reason_and_message() -> None:
    """A Status becomes an ApiError; so does a response that is not from an API server."""
    async with serving() as server, HttpClient(server.connection) as client:
        error = await refusal(client.bind(pod("none"), "n1"))
        assert (error.code, error.reason, str(error)) == (404, "NotFound", 'pods "none" not found')
        error = await refusal(client.get("/nothing"))
        assert (error.code, error.reason, str(error)) == (404, "NotFound", "404 page not found")
        server.script.append(answering(lambda: web.Response(status=502)))
        error = await refusal(client.get("/nothing"))
        assert (error.code, error.reason, str(error)) == (502, "Unknown", "Bad Gateway")
        server.script.append(answering(lambda: web.Response(status=302, headers={"Location": "http://elsewhere"})))
        assert (await refusal(client.get("/nothing"))).code == 302


async def test_retry_after_is_honoured() -> None:
    """429 and 503 that name a time are waited out, for any method; without a time they are final."""
    clock = QuickClock()
    async with serving() as server, HttpClient(server.connection, clock=clock) as client:
        created = server.backend.create(pod("a"))
        server.script = [
            answering(lambda: status(429, "TooManyRequests", "slow down", 3)),
            answering(lambda: status(503, "ServiceUnavailable", "starting", 7)),
        ]
        await client.bind(created, "n1")
        assert clock.slept == [3.0, 7.0]
        server.script = [answering(lambda: status(503, "ServiceUnavailable", "down"))]
        assert (await refusal(client.list(api.Node))).code == 503


async def test_a_server_that_always_says_later_is_left() -> None:
    """After ten retries the error is raised."""
    clock = QuickClock()
    async with serving() as server, HttpClient(server.connection, clock=clock, qps=-1) as client:
        server.script = [answering(lambda: status(429, "TooManyRequests", "slow down", 1))] * 20
        error = await refusal(client.get("/x"))
    assert (error.code, error.retry_after, len(server.received)) == (429, 1.0, 11)


async def test_a_500_is_tried_again_only_for_reading() -> None:
    """A failed GET with Retry-After is retried; a POST is not: it may have taken effect."""
    async with serving() as server, HttpClient(server.connection, clock=QuickClock()) as client:
        server.script = [answering(lambda: status(500, "InternalError", "oops", 1))]
        assert (await client.list(api.Node)).items == []
        server.script = [answering(lambda: status(500, "InternalError", "oops", 1))]
        assert (await refusal(client.bind(pod("a"), "n1"))).code == 500


async def test_broken_connections_are_tried_again_only_for_reading() -> None:
    """A GET whose connection breaks is retried; a bind is not: it may have taken effect."""
    clock = QuickClock()
    async with serving() as server, HttpClient(server.connection, clock=clock) as client:
        server.script = [hang_up, hang_up]
        assert (await client.list(api.Node)).items == []
        server.script = [hang_up]
        with pytest.raises(BrokenConnection, match=r"POST http://.*/binding: the connection broke"):
            await client.bind(pod("a"), "n1")
    assert [seen.method for seen in server.received].count("POST") == 1


async def test_a_server_out_of_reach() -> None:
    """A refused connection is an OSError that names the request, at once."""
    async with serving() as server:
        url = server.url
    async with HttpClient(Connection(url)) as client:
        with pytest.raises(
            ConnectionError, match=r"GET http://127\.0\.0\.1:\d+/api/v1/nodes: cannot connect: Connection refused"
        ):
            await client.list(api.Node)


async def test_a_slow_answer_times_out() -> None:
    """A server that never responds causes a TimeoutError, which is an OSError too."""

    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.Response()

    async with serving() as server, HttpClient(server.connection, timeout=0.05) as client:
        server.script = [never]
        with pytest.raises(TimeoutError, match=r"no answer within 0.05 s"):
            await client.bind(pod("a"), "n1")


async def test_a_body_that_ends_early() -> None:
    """A list that is cut in the middle is requested again, not taken for a shorter list."""

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"items":[')
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving() as server, HttpClient(server.connection, clock=QuickClock()) as client:
        server.backend.create(node("a"))
        server.script = [half]
        assert [item.name for item in (await client.list(api.Node)).items] == ["a"]


async def test_the_rate_limit_holds_for_every_request() -> None:
    """Beyond the burst each request waits its turn."""
    clock = QuickClock()
    async with serving() as server, HttpClient(server.connection, qps=10, burst=2, clock=clock) as client:
        for _ in range(4):
            await client.list(api.Node)
    assert len(clock.slept) == 2


# --- lists and watches ------------------------------------------------------------------------------------------------


async def test_a_list_is_read_page_by_page() -> None:
    """A long list is requested in pages and returned whole, with the version to watch from."""
    async with serving() as server, HttpClient(server.connection) as client:
        for number in range(1201):
            server.backend.create(node(f"n{number:04}"))
        listing = await client.list(api.Node)
    assert [item.name for item in listing.items] == [f"n{number:04}" for number in range(1201)]
    assert listing.resource_version == "1201"
    assert [seen.query.get("limit") for seen in server.received] == ["500"] * 3
    assert ["continue" in seen.query for seen in server.received] == [False, True, True]


@pytest.mark.parametrize(("expire", "requests"), [(1, 2 + 3), (3, 2 * 3 + 1)])
async def test_a_list_whose_pages_expire_begins_again(expire: int, requests: int) -> None:
    """410 on a page restarts the list; after three times it is requested without pages."""
    async with serving() as server, HttpClient(server.connection) as client:
        for number in range(1100):
            server.backend.create(node(f"n{number:04}"))
        server.pages_expire = expire
        assert len((await client.list(api.Node)).items) == 1100
    assert len(server.received) == requests


async def test_ended_pods_are_not_asked_for() -> None:
    """Lists and watches of pods carry the field selector; those of other kinds none."""
    async with serving() as server, HttpClient(server.connection) as client:
        server.backend.create(pod("a"))
        await client.list(api.Pod)
        await watched(client, api.Pod, "0", 1)
        await client.list(api.Node)
    selectors = [seen.query.get("fieldSelector") for seen in server.received]
    assert selectors == ["status.phase!=Succeeded,status.phase!=Failed"] * 2 + [None]


async def test_malformed_objects_in_a_list_are_named() -> None:
    """An object that does not fit is reported with its key, and the others are returned."""
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "spec": {"taints": 5}}, {"metadata": None}]
    body = {"metadata": {"resourceVersion": "9"}, "items": items}
    async with serving() as server, HttpClient(server.connection) as client:
        server.script = [answering(lambda: web.json_response(body))]
        listing = await client.list(api.Node)
        server.script = [answering(lambda: web.Response(text="<html>"))]
        assert "is not a list" in str(await refusal(client.list(api.Node)))
        server.script = [answering(lambda: web.json_response({"metadata": {"resourceVersion": "9"}, "items": None}))]
        assert (await client.list(api.Node)).items == []
    assert [item.name for item in listing.items] == ["a", ""]
    assert [(bad.key, "spec.taints" in bad.problem) for bad in listing.malformed] == [("b", True)]


async def test_a_watch_asks_for_what_it_needs() -> None:
    """A watch sends its version, asks for bookmarks, and ends after a random five to ten minutes."""
    async with serving() as server, HttpClient(server.connection, chance=random.Random(1)) as client:
        for _ in range(3):
            server.backend.create(node(str(_)))
            await watched(client, api.Node, "0", 1)
    seconds = [int(seen.query["timeoutSeconds"]) for seen in server.received]
    assert all(300 <= value <= 600 for value in seconds)
    assert len(set(seconds)) > 1
    assert server.received[0].query["allowWatchBookmarks"] == "true"
    assert server.received[0].query["resourceVersion"] == "0"


async def test_a_watch_tells_what_happens() -> None:
    """Added, modified, deleted and bookmarks come as they happen."""
    async with serving(ApiServer(bookmarks=True)) as server, HttpClient(server.connection) as client:
        created = server.backend.create(node("a"))
        server.backend.update(created)
        server.backend.delete(created)
        events = await watched(client, api.Node, "0", 6)
    assert [(event.change, event.resource_version) for event in events] == [
        (WatchType.ADDED, "1"),
        (WatchType.BOOKMARK, "1"),
        (WatchType.MODIFIED, "2"),
        (WatchType.BOOKMARK, "2"),
        (WatchType.DELETED, "3"),
        (WatchType.BOOKMARK, "3"),
    ]
    assert events[0].object == created
    assert events[1].object is None


async def test_a_watch_from_too_long_ago() -> None:
    """410 comes as a response or as an ERROR line; both are an ApiError."""
    async with serving() as server, HttpClient(server.connection) as client:
        server.backend.create(node("a"))
        server.backend.forget_history(api.Node)
        assert (await refusal(watched(client, api.Node, "0", 1))).code == 410
        body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        server.watch_prelude = [watch_line("ERROR", body)]
        error = await refusal(watched(client, api.Node, "1", 1))
        assert (error.code, error.reason) == (410, "Expired")


async def test_a_watch_survives_garbage() -> None:
    """Lines without JSON, of an unknown type, or with a malformed object are reported and skipped."""
    async with serving() as server, HttpClient(server.connection) as client:
        server.backend.create(node("a"))
        bad = {"metadata": {"name": "b", "resourceVersion": "7"}, "spec": {"taints": 5}}
        server.watch_prelude = [b"garbage\n", b"\n", watch_line("MOVED", {}), watch_line("DELETED", bad)]
        events = await watched(client, api.Node, "0", 4)
    assert [event.malformed is not None for event in events] == [True, True, True, False]
    assert events[2].malformed is not None
    assert (events[2].change, events[2].malformed.key, events[2].resource_version) == (WatchType.DELETED, "b", "7")


async def test_a_watch_that_is_cut() -> None:
    """A connection that breaks in the middle of a line is an OSError after all whole lines."""
    async with serving(ApiServer(watch_lines=2)) as server, HttpClient(server.connection) as client:
        for name in "abc":
            server.backend.create(node(name))
        events = client.watch(api.Node, "0")
        assert [(await anext(events)).resource_version for _ in range(2)] == ["1", "2"]
        with pytest.raises(ConnectionError):
            await anext(events)


async def test_lines_longer_than_any_buffer() -> None:
    """An object of a megabyte arrives in many pieces and comes out whole."""
    labels = {f"key-{number}": "v" * 60 for number in range(16_000)}
    async with serving() as server, HttpClient(server.connection) as client:
        server.backend.create(api.Node(metadata=api.ObjectMeta(name="big", labels=labels)))
        (event,) = await watched(client, api.Node, "0", 1)
    assert event.object is not None
    assert event.object.labels == labels


async def test_a_closed_watch_gives_its_connection_up() -> None:
    """Closing a watch early ends it at the server too."""
    async with serving() as server, HttpClient(server.connection) as client:
        server.backend.create(node("a"))
        await watched(client, api.Node, "0", 1)
        async with asyncio.timeout(120):
            while server.backend.open_watches:
                server.backend.bookmark()
                await asyncio.sleep(0.005)
