"""SchedulerAsyncAPICalls: the calls of one pod are queued, merged and replaced."""

from __future__ import annotations

import asyncio

from tests.builders import node, pod
from tests.scheduler.world import Lines, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.scheduler.api_calls import ApiCall, Dispatcher
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.tasks import Tasks

ON = Features(scheduler_async_api_calls=True)


class Patch(ApiCall):
    """A call that takes a second."""

    call_type = "pod_status_patch"
    relevance = 1

    def __init__(self, made: list[str], text: str, uid: str = "a") -> None:
        super().__init__(uid)
        self.made, self.text = made, text

    def merge(self, older: ApiCall) -> None:
        assert isinstance(older, Patch)
        self.text = older.text + self.text

    def has_effect(self) -> bool:
        return bool(self.text)

    async def execute(self) -> None:
        self.made.append(self.text)
        await asyncio.sleep(1)
        if self.text == "fails":
            raise OSError("no")


class Bind(Patch):
    """A more relevant call."""

    call_type = "pod_binding"
    relevance = 2

    def merge(self, older: ApiCall) -> None:
        pass


def dispatcher(clock: VirtualClock) -> tuple[Dispatcher, Metrics]:
    metrics = Metrics(process=False)
    return Dispatcher(Tasks(Lines()), metrics, clock), metrics


def pending(metrics: Metrics, call_type: str) -> float | None:
    return metrics.registry.get_sample_value("scheduler_pending_async_api_calls", {"call_type": call_type})


def made(metrics: Metrics, call_type: str, result: str) -> float | None:
    labels = {"call_type": call_type, "result": result}
    return metrics.registry.get_sample_value("scheduler_async_api_call_execution_total", labels)


@virtual_time
async def test_merging(clock: VirtualClock) -> None:
    """Waiting patches are merged, the one in progress finishes first, and other pods do not wait."""
    calls, metrics = dispatcher(clock)
    seen: list[str] = []
    first = calls.add(Patch(seen, "1"))
    await clock.advance(0.5)
    second, third = calls.add(Patch(seen, "2")), calls.add(Patch(seen, "3"))
    calls.add(Patch(seen, "b", uid="b"))
    await clock.advance(0.1)
    assert (seen, first.done(), second.done(), third.done()) == (["1", "b"], False, True, False)
    await clock.advance(5)
    assert seen == ["1", "b", "123"]
    assert third.done()
    assert made(metrics, "pod_status_patch", "success") == 3
    assert pending(metrics, "pod_status_patch") == 0


@virtual_time
async def test_relevance(clock: VirtualClock) -> None:
    """A binding replaces a waiting patch but waits for one in progress; later patches are dropped."""
    calls, metrics = dispatcher(clock)
    seen: list[str] = []
    calls.add(Patch(seen, "waits"))
    binding = calls.add(Bind(seen, "bind"))
    assert calls.add(Patch(seen, "late")).done()
    assert (pending(metrics, "pod_status_patch"), pending(metrics, "pod_binding")) == (0, 1)
    await clock.advance(2)
    calls.add(Patch(seen, "under way"))
    await clock.advance(0.1)
    calls.add(Bind(seen, "after"))
    await clock.advance(0.1)
    assert (seen, binding.done()) == (["bind", "under way"], True)
    await clock.advance(3)
    assert seen == ["bind", "under way", "after"]


@virtual_time
async def test_calls_without_effect(clock: VirtualClock) -> None:
    """A call that changes nothing is not made unless another is in progress; errors are counted."""
    calls, metrics = dispatcher(clock)
    seen: list[str] = []
    assert calls.add(Patch(seen, "")).done()
    calls.add(Patch(seen, "fails"))
    await clock.advance(2)
    assert seen == ["fails"]
    assert made(metrics, "pod_status_patch", "error") == 1
    assert pending(metrics, "pod_status_patch") == 0


@virtual_time
async def test_in_the_loop(clock: VirtualClock) -> None:
    """Pods are bound and their conditions written through the call queue, with upstream's log lines."""
    async with world(clock, node("n1", cpu="2"), features=ON) as here:
        here.create(pod("fits", cpu="1"), pod("big", cpu="9"))
        await here.settle(1)
        assert here.node_of("fits") == "n1"
        condition = here.condition("big")
        assert condition is not None
        assert condition.reason == "Unschedulable"
        assert "Updating pod condition" in here.log.about("big")
        assert "Updating pod condition and nominated node name" not in here.log.about("big")
        assert not here.log.errors()


@virtual_time
async def test_failed_binding(clock: VirtualClock) -> None:
    """A rejected binding fails the attempt as it does without the gate, and the pod is retried."""
    async with world(clock, node("n1"), features=ON) as here:
        here.api.fail("bind", times=1)
        here.create(pod("web", cpu="1"))
        await here.settle(30)
        assert here.node_of("web") == "n1"
        assert here.attempts("web") == 2
