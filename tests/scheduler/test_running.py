"""The loop itself: startup, observers, and resilience to failures of others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.builders import node, pod
from tests.scheduler.world import Events, Lines, world

from kubesched.api.objects import Object, PodDisruptionBudget
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.protocol import ApiError, Listing
from kubesched.config.load import default
from kubesched.engine.decision import Decision
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.subscribers.publisher import OnDecision
from kubesched.testing.faulty_api import FaultyApi


class Forbidding(FaultyApi):
    """An API server that forbids all kinds until a given time, and some for ever."""

    def __init__(self, clock: VirtualClock, until: float = 0, never: Sequence[type[Object]] = ()) -> None:
        super().__init__(clock)
        self._opens, self._never, self._time = clock.monotonic() + until, never, clock.monotonic

    async def list(self, kind: type[Object]) -> Listing:
        if kind in self._never or self._time() < self._opens:
            raise ApiError(403, "Forbidden", "not for you")
        return await super().list(kind)


def scheduler(clock: VirtualClock, api: FaultyApi) -> Scheduler:
    """A scheduler that is not running yet."""
    return build_scheduler(default(), in_tree_registry(), api, clock, Random(0), recorder=Events(), log=Lines())


@virtual_time
async def test_a_standby_replica_schedules_once_elected(clock: VirtualClock) -> None:
    """A standby replica follows the cluster but schedules nothing; once it is elected, it schedules at once."""
    api = FaultyApi(clock)
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
async def test_a_forbidden_kind_is_skipped(clock: VirtualClock) -> None:
    """Without access to disruption budgets pods are still scheduled, and the log reports the missing kind once."""
    api = Forbidding(clock, never=(PodDisruptionBudget,))
    api.create(node("n1"))
    api.create(pod("web"))
    made = scheduler(clock, api)
    running = asyncio.create_task(made.run())
    await clock.advance(60)
    assert len(api.bindings) == 1
    assert isinstance(made.log, Lines)
    without = [fields["resource"] for _, text, fields in made.log if text.startswith("Continuing without a kind")]
    assert without == ["poddisruptionbudgets.policy"]
    await made.stop()
    await running


@virtual_time
async def test_a_server_that_forbids_everything_at_first(clock: VirtualClock) -> None:
    """A server that rejects every list while it loads its roles does not make the scheduler skip a kind."""
    api = Forbidding(clock, until=5)
    made = scheduler(clock, api)
    running = asyncio.create_task(made.run())
    await made.synced.wait()
    assert made.unsynced() == []
    await made.stop()
    await running


@virtual_time
async def test_a_failed_election(clock: VirtualClock) -> None:
    """When waiting for leadership fails, a replica exits with that error and does not schedule."""

    async def lost() -> None:
        await asyncio.sleep(1)
        raise RuntimeError("the lease is gone")

    api = FaultyApi(clock)
    api.create(node("n1"))
    api.create(pod("web"))
    running = asyncio.create_task(scheduler(clock, api).run(lost()))
    await clock.advance(5)
    assert not api.bindings
    assert running.done()
    with pytest.raises(RuntimeError, match="the lease is gone"):
        await running


@virtual_time
async def test_statuses_that_wait_do_not_delay_the_end(clock: VirtualClock) -> None:
    """The end waits for the statuses that are being written, not for the hundreds that wait for their turn."""
    api = FaultyApi(clock)
    api.create(node("n1", cpu="1"))
    for number in range(300):
        api.create(pod(f"big-{number}", cpu="2"))
    api.delay("patch_pod_status", 2)
    made = scheduler(clock, api)
    running = asyncio.create_task(made.run())
    await clock.settle()
    stopping = asyncio.create_task(made.stop())
    await clock.advance(3)
    assert stopping.done()
    await running


@virtual_time
async def test_a_cancelled_run_leaves_nothing_behind(clock: VirtualClock) -> None:
    """A scheduler that is cancelled before its election ends all its tasks."""
    before = asyncio.all_tasks()
    running = asyncio.create_task(scheduler(clock, FaultyApi(clock)).run(asyncio.Event().wait()))
    await clock.settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await clock.settle()
    assert asyncio.all_tasks() == before


@virtual_time
async def test_a_failing_observer_does_no_harm(clock: VirtualClock) -> None:
    """An observer of decisions that raises is logged, and pods are still scheduled once."""

    def stumble(decision: Decision) -> None:
        raise RuntimeError("stumbled")

    async with world(clock, node("n1"), subscribers=[OnDecision(stumble)]) as here:
        here.create(pod("web"), pod("next"))
        await here.settle()
        assert (here.node_of("web"), here.node_of("next")) == ("n1", "n1")
        assert here.attempts("web") == 1
        assert len(here.scheduler.queue) == 0
        assert len(here.log.errors()) == 2
