"""Informers: the cache always ends with the server's state, and handlers see what client-go's would see."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.server import ApiServer, serving, watch_line

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, VirtualLoop, run_virtual, virtual_time
from kubesched.client.http import HttpClient, _decode_in_slices
from kubesched.client.informer import Informer, Pause, _number
from kubesched.client.leader import LeaderElector
from kubesched.client.protocol import ApiError, Client, Listing, Malformed, WatchEvent, WatchType
from kubesched.client.whole import WholeObjects
from kubesched.client.wire import decode_page
from kubesched.testing.faulty_api import FaultyApi


def node(name: str, **labels: str) -> api.Node:
    return api.Node(metadata=api.ObjectMeta(name=name, labels=labels))


class RecordingHandler:
    """A handler that records its calls, and builds its own copy from them alone."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.copy: dict[str, api.Object] = {}

    def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
        assert obj.key not in self.copy
        self.copy[obj.key] = obj
        self.seen.append(("add", obj.name, is_initial_list))

    def on_update(self, old: api.Object, new: api.Object) -> None:
        assert self.copy[new.key] == old
        assert int(new.metadata.resource_version or 0) >= int(old.metadata.resource_version or 0)
        self.copy[new.key] = new
        self.seen.append(("update", new.name))

    def on_delete(self, obj: api.Object) -> None:
        del self.copy[obj.key]
        self.seen.append(("delete", obj.name))

    def take(self) -> list[tuple[Any, ...]]:
        seen, self.seen = self.seen, []
        return seen


@asynccontextmanager
async def following(
    client: Client, clock: VirtualClock, kind: type[api.Object] = api.Node, *others: RecordingHandler
) -> AsyncIterator[tuple[Informer[Any], RecordingHandler]]:
    """An informer that runs while the block does."""
    log = RecordingHandler()
    informer = Informer(client, kind, *others, log, clock=clock, chance=random.Random(1))
    task = asyncio.create_task(informer.run())
    await clock.settle()
    try:
        yield informer, log
    finally:
        task.cancel()
        await asyncio.wait((task,))


# --- what handlers see ------------------------------------------------------------------------------------------------


@virtual_time
async def test_the_initial_list_and_what_follows(clock: VirtualClock) -> None:
    """Existing objects are reported as the initial list, later changes as they happen."""
    cluster = FaultyApi(clock)
    cluster.create(node("a"))
    cluster.create(node("b"))
    async with following(cluster, clock) as (informer, log):
        assert informer.synced.is_set()
        assert log.take() == [("add", "a", True), ("add", "b", True)]
        created = cluster.create(node("c"))
        cluster.update(node("c", zone="z"))
        cluster.delete(created)
        await clock.settle()
        assert log.take() == [("add", "c", False), ("update", "c"), ("delete", "c")]
        assert informer.resource_version == "5"


@virtual_time
async def test_an_ended_watch_is_resumed(clock: VirtualClock) -> None:
    """A watch that the server ends is reopened from the last version, without a list and without duplicates."""
    cluster = FaultyApi(clock)
    cluster.create(node("a"))
    async with following(cluster, clock) as (_, log):
        await clock.advance(300)
        cluster.cut_watches()
        cluster.create(node("b"))
        await clock.settle()
        assert log.take() == [("add", "a", True), ("add", "b", False)]
        assert (cluster.calls["list"], cluster.calls["watch"]) == (1, 2)


@virtual_time
async def test_a_bookmark_moves_the_version(clock: VirtualClock) -> None:
    """A quiet kind keeps up by bookmarks, so that its history may be forgotten without a list."""
    cluster = FaultyApi(clock)
    cluster.create(node("a"))
    async with following(cluster, clock) as (informer, _):
        cluster.create(api.Pod(metadata=api.ObjectMeta(name="p", namespace="n")))
        cluster.bookmark()
        await clock.settle()
        assert informer.resource_version == "2"
        cluster.forget_history()
        cluster.cut_watches()
        await clock.advance(10)
        assert cluster.calls["list"] == 1


@virtual_time
async def test_a_gap_is_reported_as_a_difference(clock: VirtualClock) -> None:
    """After 410 the kind is listed again, and only the differences are reported."""
    cluster = FaultyApi(clock)
    for name in ("changes", "goes", "returns", "stays"):
        cluster.create(node(name))
    async with following(cluster, clock) as (informer, log):
        log.take()
        before = informer.store["returns"]
        cluster.fail("watch", OSError("no"), times=3)
        cluster.cut_watches(error=OSError("cut"))
        cluster.update(node("changes", zone="z"))
        cluster.delete(node("goes"))
        cluster.delete(node("returns"))
        cluster.create(node("returns"))
        cluster.create(node("new"))
        cluster.forget_history()
        await clock.advance(120)
        expected = [("update", "changes"), ("add", "new", False), ("update", "returns"), ("delete", "goes")]
        assert log.take() == expected
        assert informer.store["returns"].uid != before.uid


@virtual_time
async def test_deletions_and_additions_already_known(clock: VirtualClock) -> None:
    """An addition of a known object is an update, an update of an unknown one an addition, as in client-go."""
    known, unknown = node("a"), node("b")

    class Odd(FaultyApi):
        async def watch(self, kind: type[api.Object], resource_version: str) -> Any:
            newer = api.Node(metadata=api.ObjectMeta(name="a", resource_version="9"))
            yield WatchEvent(WatchType.ADDED, newer, "9")
            yield WatchEvent(WatchType.DELETED, unknown, "10")
            yield WatchEvent(WatchType.MODIFIED, unknown, "11")
            await asyncio.Event().wait()

    cluster = Odd(clock)
    cluster.create(known)
    async with following(cluster, clock) as (_, log):
        assert log.take() == [("add", "a", True), ("update", "a"), ("add", "b", False)]


@virtual_time
async def test_a_failing_handler_does_not_end_it(clock: VirtualClock) -> None:
    """A handler that raises is logged; other handlers and later events are not affected."""

    class Failing(RecordingHandler):
        def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
            raise ValueError("no")

    cluster = FaultyApi(clock)
    cluster.create(node("a"))
    async with following(cluster, clock, api.Node, Failing()) as (_, log):
        cluster.create(node("b"))
        await clock.settle()
        assert log.take() == [("add", "a", True), ("add", "b", False)]


# --- trouble ----------------------------------------------------------------------------------------------------------


@virtual_time
async def test_failures_back_off(clock: VirtualClock) -> None:
    """An unreachable server is retried more and more slowly, down to once in 30 to 60 seconds."""
    cluster = FaultyApi(clock)
    cluster.fail("list", OSError("no route"), times=1000)
    async with following(cluster, clock):
        await clock.advance(60)
        assert 5 <= cluster.calls["list"] <= 8
        before = cluster.calls["list"]
        await clock.advance(600)
        assert 10 <= cluster.calls["list"] - before <= 20


@virtual_time
async def test_a_server_that_asks_for_patience_gets_it(clock: VirtualClock) -> None:
    """A watch that is refused with Retry-After is not retried earlier."""
    cluster = FaultyApi(clock)
    async with following(cluster, clock) as (informer, _):
        await clock.settle()
        cluster.fail("watch", ApiError(429, "TooManyRequests", "later", retry_after=20))
        cluster.cut_watches()
        await clock.advance(2)
        tried = cluster.calls["watch"]
        await clock.advance(17)
        assert cluster.calls["watch"] == tried
        await clock.advance(5)
        assert cluster.calls["watch"] == tried + 1
        assert cluster.calls["list"] == 1
        assert informer.synced.is_set()


@virtual_time
async def test_a_missing_kind_is_reported_once(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A forbidden kind is logged once and ends the wait for it; once it is allowed, it is watched."""
    cluster = FaultyApi(clock)
    forbidden = ApiError(403, "Forbidden", 'nodes is forbidden: User "jane" cannot list resource "nodes"')
    cluster.fail("list", forbidden, times=5)
    cluster.create(node("a"))
    with caplog.at_level(logging.INFO):
        async with following(cluster, clock) as (informer, log):
            assert not await informer.wait_until_settled()
            assert informer.missing is forbidden
            await clock.run_until(informer.synced.is_set)
            assert await informer.wait_until_settled()
            assert informer.missing is None
            assert log.take() == [("add", "a", True)]
            cluster.create(node("b"))
            await clock.settle()
    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "cannot watch" in message] == [
        f"cannot watch nodes: access is not allowed ({forbidden}); allow this user to list and watch it"
    ]
    assert messages[-1] == "watching nodes again"


@virtual_time
async def test_a_kind_that_may_be_listed_but_not_watched(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """It is retried from time to time, and logged once."""
    cluster = FaultyApi(clock)
    cluster.fail("watch", ApiError(403, "Forbidden", "no"), times=1000)
    async with following(cluster, clock) as (informer, log):
        cluster.create(node("a"))
        await clock.advance(600)
        assert informer.synced.is_set()
        assert log.take() == [("add", "a", False)]
    assert sum("cannot watch" in record.getMessage() for record in caplog.records) == 1


@virtual_time
async def test_a_gap_is_closed_at_once(clock: VirtualClock) -> None:
    """410 means that the server works: list without delay, unless the last list was just now."""
    cluster = FaultyApi(clock)
    async with following(cluster, clock) as (informer, _):
        await clock.advance(60)
        cluster.create(node("a"))
        cluster.forget_history()
        cluster.cut_watches(error=ApiError(410, "Expired", "too old"))
        await clock.settle()
        assert "a" in informer.store
        cluster.fail("watch", ApiError(410, "Expired", "too old"), times=5)
        cluster.cut_watches()
        await clock.settle()
        assert cluster.calls["list"] <= 3


@virtual_time
async def test_the_same_trouble_is_logged_once(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """An outage is one warning per kind of problem, and its end one line."""
    cluster = FaultyApi(clock)
    with caplog.at_level(logging.INFO):
        async with following(cluster, clock):
            await clock.advance(10)
            cluster.fail("watch", ConnectionRefusedError("refused"), times=5)
            cluster.cut_watches(error=ConnectionResetError("cut"))
            await clock.advance(300)
            cluster.create(node("a"))
            await clock.settle()
    assert [record.getMessage() for record in caplog.records] == [
        "cannot watch nodes: cut; trying again",
        "cannot watch nodes: refused; trying again",
        "watching nodes again",
    ]


@virtual_time
async def test_a_version_from_the_future(clock: VirtualClock) -> None:
    """After a restored backup the server's version is behind ours: list again instead of retrying for ever."""
    cluster = FaultyApi(clock)
    async with following(cluster, clock):
        cluster.fail("watch", ApiError(504, "Timeout", "Too large resource version: 9, current: 3"))
        cluster.cut_watches(error=OSError("restarted"))
        await clock.advance(10)
        assert cluster.calls["list"] == 2


class OldLists(FaultyApi):
    """A server whose lists are as many versions behind as a test says."""

    behind = 0

    async def list(self, kind: type[api.Object]) -> Listing:
        self.calls["list"] += 1
        return await self.memory.list_at(kind, self.behind)


def test_a_version_of_thousands_of_digits_is_none() -> None:
    """Versions have 64 bits; the informer would fail on every list of a server that is none."""
    assert [_number(text) for text in ("18446744073709551615", "9" * 5000, "x")] == [2**64 - 1, 0, 0]


@virtual_time
async def test_a_list_from_an_old_cache_is_refused(clock: VirtualClock) -> None:
    """After a gap, a list that is older than what was seen changes nothing: the next list that is not old does."""
    cluster = OldLists(clock)
    async with following(cluster, clock) as (informer, log):
        cluster.create(node("a"))
        cluster.create(node("b"))
        await clock.settle()
        log.take()
        cluster.behind = 2
        cluster.cut_watches(error=ApiError(410, "Expired", "too old resource version"))
        await clock.advance(20)
        assert log.take() == []
        assert sorted(informer.store) == ["a", "b"]
        cluster.behind = 0
        cluster.create(node("c"))
        await clock.advance(60)
        assert log.take() == [("add", "c", False)]


@virtual_time
async def test_a_server_that_has_really_gone_back_is_followed(clock: VirtualClock) -> None:
    """A list stays older than what was seen: after a minute it counts, as after a restored backup."""
    cluster = OldLists(clock)
    async with following(cluster, clock) as (informer, _):
        cluster.create(node("a"))
        cluster.create(node("b"))
        await clock.settle()
        cluster.behind = 1
        cluster.cut_watches(error=ApiError(410, "Expired", "too old resource version"))
        await clock.advance(50)
        assert sorted(informer.store) == ["a", "b"]
        lists = cluster.calls["list"]
        await clock.advance(60)
        assert sorted(informer.store) == ["a", "b"]  # the watch from the old version brings the rest
        assert cluster.calls["watch"] == 2
        assert cluster.calls["list"] > lists


@virtual_time
async def test_a_server_that_closes_every_watch_at_once(clock: VirtualClock) -> None:
    """Watches that end at once without an event count as failures and back off."""

    class Closing(FaultyApi):
        async def watch(self, kind: type[api.Object], resource_version: str) -> Any:
            self.calls["watch"] += 1
            for event in list[WatchEvent]():
                yield event

    cluster = Closing(clock)
    async with following(cluster, clock):
        await clock.advance(60)
        assert cluster.calls["watch"] <= 8


@virtual_time
async def test_malformed_objects_keep_their_last_good_state(clock: VirtualClock) -> None:
    """An object that cannot be decoded is not reported as deleted unless it is; and the version moves on."""
    good, malformed = node("a"), Malformed("a", "spec.taints: expected array")
    bad_listing = Listing([], "5", [malformed])

    class Bad(FaultyApi):
        async def list(self, kind: type[api.Object]) -> Listing:
            self.calls["list"] += 1
            return Listing([good], "1") if self.calls["list"] == 1 else bad_listing

        async def watch(self, kind: type[api.Object], resource_version: str) -> Any:
            if resource_version == "1":
                yield WatchEvent(WatchType.MODIFIED, None, "2", malformed)
                yield WatchEvent(WatchType.BOOKMARK, None, "", Malformed("", "garbage"))
                raise ApiError(410, "Expired", "too old")
            await asyncio.sleep(60)
            yield WatchEvent(WatchType.DELETED, None, "6", malformed)
            await asyncio.Event().wait()

    async with following(Bad(clock), clock) as (informer, log):
        assert informer.resource_version == "" or informer.resource_version == "2"
        await clock.advance(30)
        assert log.take() == [("add", "a", True)]
        assert informer.resource_version == "5"
        await clock.advance(60)
        assert log.take() == [("delete", "a")]
        assert informer.resource_version == "6"


# --- convergence ------------------------------------------------------------------------------------------------------

CHANGES = ("create", "create", "update", "delete", "recreate")
TROUBLE = ("cut", "break", "forget", "forget", "bookmark", "fail")


def step(cluster: FaultyApi, action: str, number: int, chance: random.Random) -> None:
    """One change of the cluster or one fault of the connection."""
    name = f"n{number}"
    found = cluster.get(api.Node, name)
    if action == "create" and found is None:
        cluster.create(node(name))
    elif action == "update" and found is not None:
        cluster.update(node(name, step=str(chance.random())))
    elif action in ("delete", "recreate") and found is not None:
        cluster.delete(found)
        if action == "recreate":
            cluster.create(node(name))
    elif action == "cut":
        cluster.cut_watches()
    elif action == "break":
        cluster.cut_watches(error=ConnectionResetError("broken"))
    elif action == "forget":
        cluster.forget_history()
    elif action == "bookmark":
        cluster.bookmark()
    elif action == "fail":
        error = chance.choice((OSError("no"), ApiError(500, "InternalError", "no"), ApiError(410, "Gone", "no")))
        cluster.fail(chance.choice(("list", "watch")), error, times=number)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_the_copy_always_becomes_the_servers(seed: int) -> None:
    """Whatever happens to objects, watches and history, cache and handlers end with the server's state."""

    async def main(clock: VirtualClock) -> None:
        cluster, chance = FaultyApi(clock, seed=seed), random.Random(seed)
        async with following(cluster, clock) as (informer, log):
            for _ in range(chance.randrange(80)):
                step(cluster, chance.choice(chance.choice((CHANGES, CHANGES, TROUBLE))), chance.randrange(5), chance)
                await clock.advance(chance.choice((0.0, 0.0, 0.0, 0.3, 5.0, 60.0)))
            cluster.heal()
            await clock.advance(300)
            served = {obj.key: obj for obj in cluster.objects(api.Node)}
            assert informer.store == served
            assert log.copy == served

    run_virtual(main)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_the_copy_becomes_the_servers_over_http(seed: int) -> None:
    """The same over real sockets, with pages, cut lines, garbage and bookmarks, on virtual time."""

    async def main(clock: VirtualClock) -> None:
        chance = random.Random(seed)
        cluster = FaultyApi(clock)
        made = ApiServer(backend=cluster, bookmarks=chance.random() < 0.5)
        actions = (*CHANGES, "cut", "forget")
        async with serving(made) as server, HttpClient(server.connection, qps=-1, clock=clock) as client:
            for number in range(chance.choice((0, 600))):
                cluster.create(node(f"old{number}"))
            async with following(client, clock) as (informer, log):
                for _ in range(40):
                    step(cluster, chance.choice(actions), chance.randrange(5), chance)
                    server.watch_lines = chance.choice((None, None, 0, 3))
                    server.pages_expire = chance.choice((0, 0, 0, 2))
                    server.watch_prelude = chance.choice(([], [b"garbage\n"], [watch_line("BOOKMARK", {})]))
                    await clock.advance(chance.choice((0.0, 0.1, 5.0)))
                server.watch_lines, server.pages_expire = None, 0
                await clock.advance(120)
                served = {obj.key: obj for obj in cluster.objects(api.Node)}
                assert informer.store == served
                assert log.copy == served

    run_virtual(main)


# --- fairness ---------------------------------------------------------------------------------------------------------


async def test_a_long_list_leaves_others_their_turn() -> None:
    """While tens of thousands of objects are listed and passed on, other tasks run all the time."""
    cluster = FaultyApi()
    for number in range(20_000):
        cluster.create(node(f"n{number}"))
    informer = Informer(cluster, api.Node, RecordingHandler())
    task = asyncio.create_task(informer.run())
    turns = 0
    while not informer.synced.is_set():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 20_000 / 100
    task.cancel()
    await asyncio.wait((task,))


class Busy(RecordingHandler):
    """A handler that takes a while for each object."""

    def __init__(self, loop: VirtualLoop, seconds: float) -> None:
        super().__init__()
        self._loop, self._seconds = loop, seconds

    def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
        self._loop._now += self._seconds
        super().on_add(obj, is_initial_list)


@virtual_time
async def test_slow_handlers_do_not_cost_the_lease(clock: VirtualClock) -> None:
    """During a minute of events of three kinds that take 0.15 s each, a leader keeps its lease."""
    cluster = FaultyApi(clock)
    kinds: tuple[type[api.Object], ...] = (api.Node, api.Namespace, api.StorageClass)
    for number in range(150):
        for kind in kinds:
            cluster.create(kind(metadata=api.ObjectMeta(name=f"o{number}")))
    elector = LeaderElector(cluster, asyncio.Event().wait, clock=clock, chance=random.Random(1))  # type: ignore[arg-type]
    leading = asyncio.create_task(elector.run())
    await clock.settle()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    logs = [Busy(loop, 0.15) for _ in kinds]
    tasks = [
        asyncio.create_task(Informer(cluster, kind, log, clock=clock).run())
        for kind, log in zip(kinds, logs, strict=True)
    ]
    latest = began = clock.monotonic()
    longest = 0.0
    while not all(len(log.copy) == 150 for log in logs):
        await asyncio.sleep(0)
        longest, latest = max(longest, clock.monotonic() - latest), clock.monotonic()
        assert elector.is_leader()
    assert clock.monotonic() - began > 60
    assert longest < 0.5
    for task in (*tasks, leading):
        task.cancel()
    await asyncio.wait((*tasks, leading))


@virtual_time
async def test_no_kind_overtakes_one_that_rests(clock: VirtualClock) -> None:
    """While an informer rests, those that share its pause wait too: a pod is seen after the nodes that
    were changed before it was created."""
    cluster = FaultyApi(clock)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    slow, pause = Busy(loop, 1.0), Pause()
    informers = [Informer(cluster, kind, slow, clock=clock, pause=pause) for kind in (api.Node, api.Pod)]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    await clock.settle()
    cluster.create(node("a"))
    await asyncio.sleep(0.05)  # the informer of nodes rests for 0.1 s after it
    cluster.create(node("b"))
    cluster.create(api.Pod(metadata=api.ObjectMeta(name="p", namespace="default")))
    await asyncio.sleep(10)
    assert [each[1] for each in slow.seen] == ["a", "b", "p"]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


class Sleepy(RecordingHandler):
    """A handler that blocks the event loop after the initial list."""

    def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
        if not is_initial_list:
            time.sleep(0.1)


async def test_a_renewal_over_http_fits_between_slow_events() -> None:
    """A renewal takes several turns of the event loop, but waits for few events that take 0.1 s each, of two kinds."""
    async with serving() as server, HttpClient(server.connection) as client, HttpClient(server.connection) as renewing:
        lease = await renewing.create_lease("n", {"metadata": {"name": "l", "namespace": "n"}, "spec": {}})
        informers = [Informer(client, kind, Sleepy()) for kind in (api.Node, api.Namespace)]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        while server.backend.open_watches < 2:
            await asyncio.sleep(0.01)
        for number in range(20):
            for kind in (api.Node, api.Namespace):
                server.backend.create(kind(metadata=api.ObjectMeta(name=f"o{number}")))
        await asyncio.sleep(0.01)
        before = sum(len(informer.store) for informer in informers)
        await renewing.update_lease("n", "l", lease)
        handled = sum(len(informer.store) for informer in informers) - before
        assert any(len(informer.store) < 20 for informer in informers), "the events came too fast to be in the way"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert handled < 9


async def test_a_long_list_over_http_never_holds_up_the_loop_for_long() -> None:
    """Reading, decoding and passing on pages of large objects blocks the event loop for milliseconds only."""
    padding = {f"example.com/label-{number}": "v" * 40 for number in range(60)}
    async with serving() as server, HttpClient(server.connection) as client:
        for number in range(1000):
            server.backend.create(node(f"n{number}", **padding))
        pages = [await client.request("GET", "/api/v1/nodes", query={"limit": "500"})]
        assert len(pages[0]) > 1_500_000
        longest, task = 0.0, asyncio.create_task(_replay(pages[0]))
        last = time.thread_time()
        gc.disable()  # a search for garbage in all that other tests have left takes longer
        try:
            while not task.done():
                await asyncio.sleep(0)
                now = time.thread_time()
                longest, last = max(longest, now - last), now
        finally:
            gc.enable()
        await task
    assert longest < 0.05


async def _replay(page: bytes) -> None:
    found: list[api.Object] = []
    await _decode_in_slices(api.Node, decode_page(page).items or (), found, [], WholeObjects({}))
    assert len(found) == 500


@virtual_time
async def test_a_mistake_in_the_client_does_not_end_it(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is logged, and the kind is listed and watched again."""
    cluster = FaultyApi(clock)
    cluster.create(node("a"))
    async with following(cluster, clock) as (informer, log):
        await clock.settle()
        cluster.cut_watches(error=RuntimeError("a mistake"))
        cluster.create(node("b"))
        await clock.advance(30)
        assert set(log.copy) == {"a", "b"}
        assert informer.synced.is_set()
    assert "a mistake" in caplog.text
