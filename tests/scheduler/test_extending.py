"""Extenders in the scheduling cycle: they filter, score, choose victims and bind, and cluster events wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.engine.decision import Decision
from kubesched.framework.extender import ExtenderError, ExtenderFilterResult, ExtenderVictims
from kubesched.scheduler.subscribers.publisher import OnDecision
from kubesched.testing.faulty_api import FaultyApi


class Fake:
    """An in-process extender whose results are set by the test."""

    name = "http://extender"
    weight = 1
    supports_preemption = False
    is_filter = is_prioritizer = is_binder = False
    ignorable = False
    passes: Sequence[str] | None = None
    scores: Mapping[str, int] | None = None
    seconds = 0.0
    broken = False
    binds_with: FaultyApi | None = None
    loses_answer = False
    preempts: Sequence[str] | None = None

    def __init__(self, **attributes: object) -> None:
        for key, value in attributes.items():
            setattr(self, key, value)
        self.is_filter = self.passes is not None
        self.is_prioritizer = self.scores is not None
        self.is_binder = "binds" in attributes
        self.supports_preemption = self.preempts is not None
        self.asked: list[str] = []

    def is_interested(self, pod: api.Pod) -> bool:
        return not pod.name.startswith("other")

    async def _answer(self, call: str) -> None:
        self.asked.append(call)
        await asyncio.sleep(self.seconds)
        if self.broken:
            raise ExtenderError("extender is down")

    async def filter(self, pod: api.Pod, nodes: Sequence[api.Node]) -> ExtenderFilterResult:
        await self._answer("filter")
        passed = [each.name for each in nodes if each.name in (self.passes or ())]
        return ExtenderFilterResult(passed, {each.name: "not mine" for each in nodes if each.name not in passed})

    async def prioritize(self, pod: api.Pod, nodes: Sequence[api.Node]) -> Mapping[str, int]:
        await self._answer("prioritize")
        return self.scores or {}

    async def process_preemption(
        self, pod: api.Pod, victims: Mapping[str, ExtenderVictims]
    ) -> Mapping[str, ExtenderVictims]:
        await self._answer("preempt")
        return {name: chosen for name, chosen in victims.items() if name in (self.preempts or ())}

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        await self._answer("bind")
        assert self.binds_with is not None
        await self.binds_with.bind(pod, node_name)
        if self.loses_answer:
            raise ExtenderError("the answer was lost")


NODES = [node(f"n{number}") for number in range(4)]


@virtual_time
async def test_an_extender_narrows_the_nodes(clock: VirtualClock) -> None:
    """A pod goes only to a node that the extender accepts."""
    async with world(clock, *NODES, extenders=[Fake(passes=["n2"])]) as here:
        here.create(*(pod(f"p{number}") for number in range(5)))
        await here.settle()
        assert {here.node_of(f"p{number}") for number in range(5)} == {"n2"}


@virtual_time
async def test_an_extenders_reasons_are_reported(clock: VirtualClock) -> None:
    """The extender's reasons are in the message, and any event may retry the pod."""
    extender = Fake(passes=[])
    async with world(clock, *NODES, extenders=[extender]) as here:
        here.create(pod("web"))
        await here.settle(20)
        assert "4 not mine" in here.message("web")
        extender.passes = ["n1"]
        here.create(node("n9"))
        await here.settle(20)
        assert here.node_of("web") == "n1"


@virtual_time
async def test_an_extender_adds_to_the_scores(clock: VirtualClock) -> None:
    """A high score from an extender with a large weight outweighs the plugins."""
    async with world(clock, *NODES, extenders=[Fake(scores={"n3": 10}, weight=100)]) as here:
        here.create(*(pod(f"p{number}", cpu="500m") for number in range(5)))
        await here.settle()
        assert {here.node_of(f"p{number}") for number in range(5)} == {"n3"}


@virtual_time
async def test_a_broken_extender_fails_the_attempt(clock: VirtualClock) -> None:
    """An extender that cannot be reached is a SchedulerError, and the pod is retried."""
    extender = Fake(passes=["n1"], broken=True)
    async with world(clock, *NODES, extenders=[extender]) as here:
        here.create(pod("web"))
        await here.settle()
        condition = here.condition("web")
        assert condition is not None
        assert (condition.reason, condition.message) == ("SchedulerError", "extender is down")
        extender.broken = False
        await here.settle(10)
        assert here.node_of("web") == "n1"


@virtual_time
async def test_a_broken_extender_may_be_ignored(clock: VirtualClock) -> None:
    """An ignorable extender that cannot be reached is ignored."""
    async with world(clock, *NODES, extenders=[Fake(passes=["n1"], broken=True, ignorable=True)]) as here:
        here.create(pod("web"))
        await here.settle()
        assert here.node_of("web") != ""


@virtual_time
async def test_nothing_changes_while_an_extender_is_asked(clock: VirtualClock) -> None:
    """Events that arrive during a cycle are handled after it, in order, and none is lost."""
    async with world(clock, node("n1", cpu="1"), extenders=[Fake(passes=["n1", "n2"], seconds=5)]) as here:
        here.create(pod("web", cpu="1"))
        await here.settle(1)
        here.create(node("n2", cpu="1"), pod("rival", node="n1", cpu="1m"))
        await here.settle(1)
        assert here.scheduler.cluster.nodes.valid_count == 1
        assert len(here.scheduler.shared.inbox) >= 2
        here.api.delete(here.pod("rival"))
        await here.settle(30)
        assert here.scheduler.cluster.nodes.valid_count == 2
        assert here.node_of("web") == "n1"


@virtual_time
async def test_an_extender_that_is_not_interested_is_not_asked(clock: VirtualClock) -> None:
    """Pods that an extender is not interested in are scheduled without it."""
    extender = Fake(passes=[])
    async with world(clock, *NODES, extenders=[extender]) as here:
        here.create(pod("other"))
        await here.settle()
        assert here.node_of("other") != ""
        assert extender.asked == []


@virtual_time
async def test_an_extender_binds(clock: VirtualClock) -> None:
    """A binder extender binds in place of the scheduler."""
    extender = Fake(binds=True)
    async with world(clock, *NODES, extenders=[extender]) as here:
        extender.binds_with = FaultyApi(clock, memory=here.api.memory)
        here.create(pod("web"))
        await here.settle()
        assert here.node_of("web") != ""
        assert here.api.calls["bind"] == 0
        assert extender.asked == ["bind"]


@virtual_time
async def test_an_extender_chooses_where_to_preempt(clock: VirtualClock) -> None:
    """Of two nodes where preemption would help, the extender chooses one."""
    nodes = [node("n1", cpu="1"), node("n2", cpu="1")]
    low = [pod("low1", node="n1", cpu="1", priority=0), pod("low2", node="n2", cpu="1", priority=0)]
    async with world(clock, *nodes, *low, extenders=[Fake(preempts=["n2"])]) as here:
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(10)
        assert here.node_of("high") == "n2"
        assert here.node_of("low1") == "n1"


@virtual_time
async def test_a_decision_says_which_extender_said_what(clock: VirtualClock) -> None:
    """A decision records which extender rejected a node, with or without a reason, and the scores of each."""
    first = Fake(passes=["n0", "n1", "n2"], name="http://first")
    second = Fake(passes=["n0", "n1"], scores={"n0": 3}, weight=2, name="http://second")
    third = Fake(scores={"n0": 1, "n1": 10}, name="http://third")
    decisions: list[Decision] = []
    watch = OnDecision(decisions.append)
    extenders = [first, second, third]
    async with world(clock, *NODES, extenders=extenders, subscribers=[watch], detailed=True) as here:
        here.create(pod("p"))
        await here.settle()
        second.passes = []
        here.create(pod("q"))
        await here.settle()
        third.broken = second.broken = True
        here.create(pod("r"))
        await here.settle()
    first_of = {each.pod.name: each for each in reversed(decisions)}
    fits, nowhere, failed = (first_of[name] for name in "pqr")
    assert {name: status.plugin for name, status in fits.rejections.items()} == {
        "n2": "http://second",
        "n3": "http://first",
    }
    assert fits.node == "n1"
    assert fits.node_scores["n0"]["http://second"] == 60
    assert [fits.node_scores[name]["http://third"] for name in ("n0", "n1")] == [10, 100]
    assert "http://third" in fits.explain()
    assert "n3: not mine (http://first, Unschedulable)" in nowhere.explain()
    assert "n0, n1, n2: not mine (http://second, Unschedulable)" in nowhere.explain()
    assert failed.explain() == "default/r was not scheduled.\nextender is down"


@virtual_time
async def test_a_binder_that_may_be_ignored_and_whose_answer_was_lost(clock: VirtualClock) -> None:
    """An ignorable binder bound the pod but its response was lost: our own bind gets a conflict, and the API server
    confirms that the pod is bound.
    """
    extender = Fake(binds=True, ignorable=True, loses_answer=True)
    async with world(clock, node("n1"), extenders=[extender]) as here:
        extender.binds_with = here.api
        here.create(pod("web"))
        await here.settle(1)
        assert here.node_of("web") == "n1"
        assert not here.events.of("FailedScheduling")
        assert len(here.events.of("Scheduled")) == 1
