"""The pages below /debug/scheduling: who may read them, and what they say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tests.builders import node, pod
from tests.daemon.serving.support import FakeApi, Running, running, served

from kubesched.apiserver.inprocess.memory import MemoryClient
from kubesched.base.clocks import SystemClock
from kubesched.config.load import default
from kubesched.daemon.serving.pages.scheduling import SchedulingPages
from kubesched.history.recorder import HistoryRecorder
from kubesched.history.store import History, HistoryLimits
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler

ROOT = "/debug/scheduling"
DIGITS = "9" * 5000
READER = {"Authorization": "Bearer secret"}


@asynccontextmanager
async def pages(*paths: str) -> AsyncIterator[tuple[Running, MemoryClient]]:
    """A server in front of a real scheduler; the reader may get these paths."""
    clock, history = SystemClock(), History(HistoryLimits())
    cluster = MemoryClient(clock)
    cluster.create(node("n1", cpu="2"))
    recorder = HistoryRecorder(clock, history)
    scheduler = build_scheduler(default(), in_tree_registry(), cluster, clock, Random(0), subscribers=[recorder])
    api = FakeApi({"secret": {"username": "reader"}}, {("reader", "get", ROOT + path) for path in paths})
    api.allowed.add(("reader", "delete", f"{ROOT}/queue"))
    task = asyncio.create_task(scheduler.run())
    try:
        async with running(served(more=SchedulingPages(scheduler, history).routes()), api=api) as server:
            yield server, cluster
    finally:
        await scheduler.stop()
        await task


async def read(server: Running, path: str) -> dict[str, Any]:
    status, text = await server.get(ROOT + path, headers=READER)
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)
    assert found["apiVersion"] == "kubesched.io/v1alpha1"
    return found


async def test_only_who_is_authorized_reads_the_history() -> None:
    """Without a token or the right, nothing is shown, also not whether a pod exists."""
    async with pages("/queue") as (server, _):
        assert (await server.get(f"{ROOT}/queue"))[0] == 403
        assert (await server.get(f"{ROOT}/queue", headers={"Authorization": "Bearer wrong"}))[0] == 401
        assert (await server.get(f"{ROOT}/attempts", headers=READER))[0] == 403
        assert (await server.get(f"{ROOT}/pods/default/web", headers=READER))[0] == 403
        assert (await server.get(f"{ROOT}/queue", headers=READER))[0] == 200


async def test_the_pages_show_attempts_and_the_queue() -> None:
    """A bound pod has its decision; a pending one also its place in the queue, and what would wake it."""
    paths = (
        "",
        "/attempts",
        "/attempts/1",
        "/attempts/99",
        f"/attempts/{DIGITS}",
        "/queue",
        "/pods/default/web",
        "/pods/default/big",
    )
    async with pages(*paths, "/pods/default/none") as (server, cluster):
        cluster.create(pod("web", cpu="1"))
        cluster.create(pod("big", cpu="8"))
        seen: list[Any] = []
        while sum(each["finished"] for each in seen) < 2:
            await asyncio.sleep(0.01)
            seen = (await read(server, "/attempts"))["items"]
        assert {(each["pod"], each["outcome"]) for each in seen} == {
            ("web", "scheduled"),
            ("big", "unschedulable"),
        }
        web, big = await read(server, "/pods/default/web"), await read(server, "/pods/default/big")
        assert (web["queue"], web["attempts"][0]["node"]) == (None, "n1")
        assert big["queue"]["place"] == "Unschedulable"
        assert big["queue"]["unschedulablePlugins"] == ["NodeResourcesFit"]
        woken = {each["resource"]: each["actions"] for each in big["queue"]["wokenBy"]["NodeResourcesFit"]}
        assert "UpdateNodeAllocatable" in woken["Node"]
        assert big["queue"]["attempts"] == 1
        assert big["queue"]["retriedAt"] > big["queue"]["since"]
        (rejection,) = big["attempts"][0]["rejections"]
        assert (rejection["plugin"], rejection["nodes"]) == ("NodeResourcesFit", ["n1"])
        assert [each["pod"] for each in (await read(server, "/queue"))["items"]] == ["big"]
        detail = await read(server, "/attempts/1")
        assert detail["columns"]["nodes"] == ["n1"]
        index = await read(server, "")
        assert 0 < index["bytes"] < index["limits"]["bytes"]
        assert (await server.get(f"{ROOT}/pods/default/none", headers=READER))[0] == 404
        assert (await server.get(f"{ROOT}/attempts/99", headers=READER))[0] == 404
        assert (await server.get(f"{ROOT}/attempts/{DIGITS}", headers=READER))[0] == 404
        assert (await server.get(f"{ROOT}/attempts?limit={DIGITS}", headers=READER))[0] == 200


async def test_the_history_cannot_be_changed() -> None:
    """Any method but GET is refused."""
    async with pages() as (server, _):
        assert (await server.ask("DELETE", f"{ROOT}/queue", headers=READER))[0] == 405


async def test_without_a_history_there_is_no_page() -> None:
    """A scheduler that keeps nothing has none of these paths."""
    api = FakeApi({"secret": {"username": "reader"}}, {("reader", "get", ROOT)})
    async with running(served(), api=api) as server:
        assert (await server.get(ROOT, headers=READER))[0] == 404


async def test_wake_ups_are_shown_once() -> None:
    """The event that woke a pod is named; asked again after it, there is nothing new. Attempts can be cut off too."""
    async with pages("/wakeups", "/attempts", "/queue") as (server, cluster):
        cluster.create(pod("big", cpu="8"))
        while not (await read(server, "/queue"))["counts"]["unschedulable"]:
            await asyncio.sleep(0.01)
        assert (await read(server, "/wakeups"))["items"] == []
        cluster.create(node("n2", cpu="16"))
        while not (found := await read(server, "/wakeups"))["items"]:
            await asyncio.sleep(0.01)
        woken = found["items"][0]
        assert (woken["pod"], woken["event"]) == ("default/big", "NodeAdd")
        assert woken["queue"] in ("Active", "Backoff")
        assert (await read(server, f"/wakeups?after={found['count']}"))["items"] == []
        assert [each["number"] for each in (await read(server, "/attempts?after=1"))["items"]] in ([], [2])
