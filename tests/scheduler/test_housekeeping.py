"""Housekeeping: planned only when something can be due, with the same effect as upstream's loop of every second."""

from __future__ import annotations

import pytest
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.base.clocks import VirtualClock, run_virtual, virtual_time
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.ports import NoSchedulerMetrics
from kubesched.scheduler.subscribers.publisher import Subscriber

Tries = list[tuple[float, str]]


class Diary(Subscriber):
    """Notes when which pod was tried."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.tries: Tries = []

    def started(self, attempt: Attempt) -> None:
        self.tries.append((self._clock.monotonic(), attempt.pod.name))


@virtual_time
async def test_an_idle_scheduler_sets_no_timer(clock: VirtualClock) -> None:
    """A quiet hour has no flushes; an unschedulable pod needs one every 30 seconds; without it there are none again."""
    async with world(clock, node("n1", cpu="1")) as here:
        flushes: list[float] = []
        queue = here.scheduler.queue
        real, queue.flush_backoff = queue.flush_backoff, lambda: flushes.append(clock.monotonic())  # type: ignore[method-assign]
        await here.settle(3600)
        assert flushes == []
        here.create(pod("big", cpu="2"))
        await here.settle(60.5)
        assert flushes == [3630.0, 3660.0]
        queue.flush_backoff = real  # type: ignore[method-assign]
        here.api.update(node("n1", cpu="4"))
        await here.settle(30)
        assert here.node_of("big") == "n1"
        queue.flush_backoff = lambda: flushes.append(clock.monotonic())  # type: ignore[method-assign]
        await here.settle(3600)
        assert flushes == [3630.0, 3660.0]


def test_pods_are_tried_at_the_same_moments_as_with_a_look_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that back off, are overdue or gated are tried when they would be with housekeeping every second."""

    async def main(clock: VirtualClock) -> Tries:
        diary = Diary(clock)
        async with world(clock, node("n1", cpu="1"), subscribers=[diary]) as here:
            await here.settle(7.3)
            here.create(pod("big", cpu="2"), pod("gated", cpu="1", gates=["wait"]))
            for number in range(5):
                await here.settle(20.7)
                here.api.update(node("n1", cpu="1", labels={"number": str(number)}, memory=f"{number + 1}Gi"))
                here.scheduler.queue.activate([here.pod("big")])
            await here.settle(900)
        return diary.tries

    when_due = run_virtual(main)
    monkeypatch.setattr(NoSchedulerMetrics, "is_sampled", True)
    every_second = run_virtual(main)
    assert when_due == every_second
    assert len(when_due) >= 8, when_due
    assert when_due[-1][0] > 400, "an overdue pod was flushed"
