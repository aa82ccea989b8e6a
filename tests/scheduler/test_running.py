"""The loop itself: how it begins, what it shows, and that nothing of others ends it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.builders import node, pod
from tests.scheduler.world import Events, Lines, world

from kubesched.client.clock import VirtualClock, virtual_time
from kubesched.client.fake import InProcessApi
from kubesched.config.load import default
from kubesched.engine.decision import Decision
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.scheduler import Scheduler


def scheduler(clock: VirtualClock, api: InProcessApi) -> Scheduler:
    """One that nobody runs yet."""
    return Scheduler(default(), in_tree_registry(), api, clock, Random(0), recorder=Events(), log=Lines())


@virtual_time
async def test_a_replica_schedules_when_its_turn_has_come(clock: VirtualClock) -> None:
    """Standing by, it has the whole picture but schedules nothing; when its turn comes, it does at once."""
    api = InProcessApi(clock)
    api.create(node("n1"))
    api.create(pod("web"))
    made, turn = scheduler(clock, api), asyncio.Event()
    running = asyncio.create_task(made.run(turn.wait()))
    await clock.settle()
    assert made.synced.is_set()
    assert len(made.queue) == 1
    assert not api.bindings
    turn.set()
    await clock.settle()
    assert len(api.bindings) == 1
    await made.stop()
    await running


@virtual_time
async def test_a_turn_that_fails_is_no_turn(clock: VirtualClock) -> None:
    """When waiting for its turn fails, a replica ends with that error instead of scheduling beside the leader."""

    async def lost() -> None:
        await asyncio.sleep(1)
        raise RuntimeError("the lease is gone")

    api = InProcessApi(clock)
    api.create(node("n1"))
    api.create(pod("web"))
    running = asyncio.create_task(scheduler(clock, api).run(lost()))
    await clock.advance(5)
    assert not api.bindings
    assert running.done()
    with pytest.raises(RuntimeError, match="the lease is gone"):
        await running


@virtual_time
async def test_a_cancelled_run_leaves_nothing_behind(clock: VirtualClock) -> None:
    """Cancelled before its turn, a scheduler ends all its tasks."""
    before = asyncio.all_tasks()
    running = asyncio.create_task(scheduler(clock, InProcessApi(clock)).run(asyncio.Event().wait()))
    await clock.settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await clock.settle()
    assert asyncio.all_tasks() == before


@virtual_time
async def test_whoever_looks_on_cannot_harm(clock: VirtualClock) -> None:
    """An observer of decisions that raises is logged; the pod it was shown is scheduled once, and so is the next."""

    def stumble(decision: Decision) -> None:
        raise RuntimeError("stumbled")

    async with world(clock, node("n1")) as here:
        here.scheduler.on_decision = stumble
        here.create(pod("web"), pod("next"))
        await here.settle()
        assert (here.node_of("web"), here.node_of("next")) == ("n1", "n1")
        assert here.attempts("web") == 1
        assert len(here.scheduler.queue) == 0
        assert len(here.log.errors()) == 2
