"""Faults around a client: calls fail, hang, are late, are sent twice; watches break. Over HTTP as in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import Any

import pytest
from tests.client.server import serving

from kubesched.api import objects as api
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.faults import CALLS, ClientCall, Faults, FaultyClient
from kubesched.client.http import HttpClient
from kubesched.client.protocol import ApiError, Client, WatchEvent, WatchType
from kubesched.testing.faulty_api import FaultyApi


def pod(name: str, **spec: Any) -> api.Pod:
    return api.Pod(metadata=api.ObjectMeta(name=name, namespace="default"), spec=api.PodSpec(**spec))


def node(name: str) -> api.Node:
    return api.Node(metadata=api.ObjectMeta(name=name))


async def refusal(call: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


async def everything(events: AsyncGenerator[WatchEvent, None]) -> list[str]:
    """The names of all objects that a watch brings until it ends."""
    async with aclosing(events):
        return [event.object.name async for event in events if event.object is not None]


def test_it_is_a_client() -> None:
    """The wrapper has every call of the protocol, and a rule can name each of them."""
    client: Client = FaultyApi()
    names = {name for name in vars(Client) if not name.startswith("_")}
    assert names <= CALLS
    assert all(callable(getattr(client, name)) for name in names)


async def test_calls_fail_a_number_of_times() -> None:
    """A failure strikes as often as asked, and the call works again after."""
    cluster = FaultyApi()
    created = cluster.create(pod("a"))
    cluster.fail("bind", ApiError(500, "InternalError", "no"), times=2)
    for _ in range(2):
        assert (await refusal(cluster.bind(created, "n1"))).code == 500
    await cluster.bind(created, "n1")
    assert cluster.calls["bind"] == 3
    assert len(cluster.bindings) == 1


async def test_an_answer_is_lost() -> None:
    """The call takes effect and fails all the same, as when a connection breaks at the wrong moment."""
    cluster = FaultyApi()
    created = cluster.create(pod("a"))
    cluster.fail("bind", TimeoutError, answer_lost=True)
    with pytest.raises(TimeoutError):
        await cluster.bind(created, "n1")
    assert cluster.bindings == (("default/a", created.uid, "n1"),)


async def test_half_of_all_calls_fail() -> None:
    """With a probability about that share fails, the same for the same seed, until healed."""

    async def failures(seed: int) -> list[int]:
        cluster = FaultyApi(seed=seed)
        cluster.fail("*", probability=0.5)
        failed = []
        for number in range(400):
            try:
                await cluster.list(api.Node)
            except ApiError:
                failed.append(number)
        cluster.heal()
        await cluster.list(api.Node)
        return failed

    assert 150 < len(await failures(1)) < 250
    assert await failures(1) == await failures(1)
    assert await failures(1) != await failures(2)


async def test_a_rule_applies_to_some_calls_only() -> None:
    """A condition sees the call and its arguments; calls that it does not hold for go through and use nothing up."""
    cluster = FaultyApi()
    bad, good = cluster.create(pod("bad")), cluster.create(pod("good"))
    cluster.fail("bind", when=lambda call: call.args[0].name == "bad")
    await cluster.bind(good, "n1")
    assert (await refusal(cluster.bind(bad, "n1"))).message == "injected failure"
    await cluster.bind(bad, "n1")


async def test_a_call_is_sent_twice() -> None:
    """A repeated bind binds once and the caller sees the conflict of the second."""
    cluster = FaultyApi()
    created = cluster.create(pod("a"))
    cluster.repeat("bind")
    assert (await refusal(cluster.bind(created, "n1"))).code == 409
    assert len(cluster.bindings) == 1
    cluster.delete(created)
    again = cluster.create(pod("a"))
    await cluster.bind(again, "n1")
    assert len(cluster.bindings) == 2


@virtual_time
async def test_calls_take_time_and_hang(clock: VirtualClock) -> None:
    """A delay passes on the virtual clock; a paused call hangs until it is resumed."""
    cluster = FaultyApi(clock)
    cluster.delay("list", 2.5)
    await cluster.list(api.Node)
    assert clock.monotonic() == 2.5
    cluster.pause()
    hanging = asyncio.create_task(cluster.list(api.Node))
    await clock.advance(60)
    assert not hanging.done()
    cluster.resume()
    await hanging
    assert clock.monotonic() == 62.5


@virtual_time
async def test_an_answer_is_late(clock: VirtualClock) -> None:
    """The call takes effect at once and returns later; a later delay replaces an earlier one."""
    cluster = FaultyApi(clock)
    created = cluster.create(pod("a"))
    cluster.delay("bind", 60, answer=True)
    cluster.delay("bind", lambda: 5.0, answer=True)
    binding = asyncio.create_task(cluster.bind(created, "n1"))
    await clock.settle()
    assert len(cluster.bindings) == 1
    assert not binding.done()
    await clock.advance(5)
    assert binding.done()


async def test_watches_are_cut() -> None:
    """A cut ends an idle watch of that kind, with the error if one is given, and lets go of the wrapped client's."""
    cluster = FaultyApi()
    cluster.create(node("a"))
    nodes = asyncio.create_task(everything(cluster.watch(api.Node, "0")))
    pods = asyncio.create_task(everything(cluster.watch(api.Pod, "0")))
    await asyncio.sleep(0)
    assert cluster.open_watches == 2
    cluster.cut_watches(api.Node)
    assert await nodes == ["a"]
    assert cluster.open_watches == 1
    cluster.cut_watches(error=ConnectionResetError("gone"))
    with pytest.raises(ConnectionResetError):
        await pods
    assert cluster.open_watches == 0
    assert all(not shelf.watchers for shelf in cluster.memory.store.shelves.values())


async def test_a_watch_is_cut_while_its_reader_is_busy() -> None:
    """An event that was already delivered stays delivered; nothing more comes."""
    cluster = FaultyApi()
    for name in "ab":
        cluster.create(node(name))
    async with aclosing(cluster.watch(api.Node, "0")) as events:
        assert (await anext(events)).resource_version == "1"
        cluster.cut_watches()
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_watch_breaks_at_an_event() -> None:
    """A rule about watch events ends the watch at the event it names, before that is delivered."""
    cluster = FaultyApi()
    for name in "abc":
        cluster.create(node(name))

    def is_c(call: ClientCall) -> bool:
        kind, event = call.args
        return kind is api.Node and event.object.name == "c"

    cluster.fail("watch_event", ConnectionResetError("gone"), when=is_c)
    async with aclosing(cluster.watch(api.Node, "0")) as events:
        assert [(await anext(events)).resource_version for _ in range(2)] == ["1", "2"]
        with pytest.raises(ConnectionResetError):
            await anext(events)
    assert cluster.open_watches == 0


@virtual_time
async def test_a_watch_is_stale(clock: VirtualClock) -> None:
    """While events are paused a watch shows nothing, though it is open; a cut ends it even so."""
    cluster = FaultyApi(clock)
    cluster.pause("watch_event")
    stale = asyncio.create_task(everything(cluster.watch(api.Node, "0")))
    await clock.settle()
    cluster.create(node("a"))
    await clock.advance(3600)
    assert not stale.done()
    cluster.cut_watches()
    assert await stale == []


async def test_a_timeout_of_the_client_itself_is_no_cut() -> None:
    """A watch that times out by itself raises that error."""

    class TimesOut(DirectClient):
        async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
            raise TimeoutError("no answer")
            yield WatchEvent(WatchType.BOOKMARK, None, "")  # makes it a generator

    with pytest.raises(TimeoutError, match="no answer"):
        await everything(FaultyClient(TimesOut(ApiServer())).watch(api.Node, ""))


async def test_two_clients_share_a_cluster() -> None:
    """Clients of one cluster see the same objects and fail separately."""
    one = FaultyApi()
    two = FaultyApi(memory=one.memory)
    one.fail("list")
    one.create(node("a"))
    assert len((await two.list(api.Node)).items) == 1
    await refusal(one.list(api.Node))


def test_an_unknown_call_is_refused() -> None:
    """A misspelt call is an error instead of a rule that never applies."""
    with pytest.raises(ValueError, match="'bnid' is not a call of a client; use one of: "):
        Faults().fail("bnid")


async def test_over_http() -> None:
    """Around a client over real sockets: a lost answer, a failure before anything is sent, and a watch that is cut."""
    async with serving() as server, HttpClient(server.connection) as http:
        client = FaultyClient(http, Faults(Random(1)))
        created = server.backend.create(pod("a"))
        client.fail("bind", ConnectionResetError("lost"), answer_lost=True)
        with pytest.raises(ConnectionResetError, match="lost"):
            await client.bind(created, "n1")
        assert len(server.backend.bindings) == 1
        requests = len(server.received)
        client.fail("list", ApiError(503, "ServiceUnavailable", "down"))
        assert (await refusal(client.list(api.Pod))).code == 503
        assert len(server.received) == requests
        watching = asyncio.create_task(everything(client.watch(api.Pod, "0")))
        while not server.backend.open_watches:
            await asyncio.sleep(0.005)
        server.backend.create(pod("b"))
        client.fail("watch_event", OSError("cut"), when=lambda call: call.args[1].object.name == "c")
        server.backend.create(pod("c"))
        with pytest.raises(OSError, match="cut"):
            await watching
        idle = asyncio.create_task(everything(client.watch(api.Node, "0")))
        while server.received[-1].path != "/api/v1/nodes":
            await asyncio.sleep(0.005)
        client.cut_watches()
        assert await idle == []
