"""OpportunisticBatching: identical pods go to the next best node of the previous pod's scores, and metrics count it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.builders import node, pod
from tests.scheduler.world import World, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.cluster.view import NodeInfo
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.subscribers.publisher import Subscriber

PROFILE: Mapping[str, Any] = {
    "schedulerName": "default-scheduler",
    "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}],
}
"""Pods can be signed only without default spread constraints."""


class Reports(Subscriber):
    """Records the batching results by pod."""

    def __init__(self) -> None:
        self.results: dict[str, list[str]] = {}
        self.flushes: dict[str, list[str]] = {}
        self.evaluated: dict[str, int] = {}

    def decided(self, attempt: Attempt) -> None:
        if attempt.batch is not None:
            self.results[attempt.pod.name] = attempt.batch.results
            self.flushes[attempt.pod.name] = attempt.batch.flushes
        self.evaluated[attempt.pod.name] = attempt.evaluated


class Unsigned(Plugin):
    """A Filter that does not sign pods."""

    name = "Unsigned"

    def filter(self, state: CycleState, pod: object, node: NodeInfo) -> Status | None:
        return None


@virtual_time
async def test_one_pod_per_node(clock: VirtualClock) -> None:
    """Pods that each fill a node take the nodes in the order of the first pod's scores, filtering one node each."""
    reports = Reports()
    nodes = [node(f"n{i}", cpu=str(2 * i)) for i in (1, 2, 3, 4)]
    taken = [pod(f"taken{i}", cpu=str(2 * i - 1), node=f"n{i}") for i in (1, 2, 3, 4)]
    async with world(clock, *nodes, *taken, profiles=[PROFILE], subscribers=[reports]) as here:
        here.create(*(pod(f"p{i}", cpu="1") for i in range(4)))
        await here.settle(0.1)
        assert [here.node_of(f"p{i}") for i in range(4)] == ["n1", "n2", "n3", "n4"][:: _order(here)]
    assert reports.results == {"p0": ["no_hint"], "p1": ["hint_used"], "p2": ["hint_used"], "p3": ["hint_used"]}
    assert not any(reports.flushes.values())
    assert reports.evaluated == {"p0": 4, "p1": 1, "p2": 1, "p3": 1}


def _order(here: World) -> int:
    """Normalise the order, since it does not matter whether small or large nodes score best."""
    return 1 if here.node_of("p0") == "n1" else -1


@virtual_time
async def test_reasons_to_drop_a_batch(clock: VirtualClock) -> None:
    """A batch ends when its node has room left, a different pod comes, a pod fails in between, or half a second
    passes.
    """
    reports = Reports()
    async with world(
        clock, node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4"), profiles=[PROFILE], subscribers=[reports]
    ) as here:
        for name, cpu, wait in (("a", "1", 0.1), ("b", "1", 0.1), ("c", "2", 0.1), ("big", "9", 0.1), ("d", "2", 0.6)):
            here.create(pod(name, cpu=cpu))
            await here.settle(wait)
        here.create(pod("e", cpu="2"))
        await here.settle(0.1)
    assert reports.flushes["a"] == []
    assert reports.flushes["b"] == ["node_not_full"]
    assert reports.flushes["c"] == ["pod_incompatible"]
    assert reports.flushes["big"] == ["pod_incompatible"]
    assert reports.flushes["d"] == ["pod_skipped"]
    assert reports.flushes["e"][0] == "expired"


@virtual_time
async def test_default_profile(clock: VirtualClock) -> None:
    """As upstream, default spread constraints prevent signing, and a single feasible node leaves an empty list."""
    reports = Reports()
    async with world(clock, node("n1"), subscribers=[reports]) as here:
        here.create(pod("only", cpu="1"))
        await here.settle(0.1)
        here.create(node("n2"))
        here.create(pod("more", cpu="1"))
        await here.settle(0.1)
    assert reports.results == {"only": ["no_hint"], "more": ["no_hint"]}
    assert reports.flushes == {"only": ["empty_list"], "more": ["pod_not_batchable"]}


@virtual_time
async def test_gate_off(clock: VirtualClock) -> None:
    """Without the gate nothing is batched, counted or logged."""
    reports = Reports()
    off = Features(opportunistic_batching=False)
    async with world(clock, node("n1"), profiles=[PROFILE], subscribers=[reports], features=off) as here:
        here.create(pod("a", cpu="1"))
        await here.settle(0.1)
        assert here.node_of("a") == "n1"
        assert not [text for _, text, _ in here.log if "Batch" in text]
    assert reports.results == {}


@virtual_time
async def test_plugin_without_sign(clock: VirtualClock) -> None:
    """A Filter plugin without `sign` turns signatures off for its profile, with kube-scheduler's log line."""
    reports = Reports()
    plugins = {"multiPoint": {"enabled": [{"name": "Unsigned"}]}}
    profile = {**PROFILE, "plugins": plugins}
    async with world(
        clock, node("n1"), node("n2"), profiles=[profile], plugins=[Unsigned], subscribers=[reports]
    ) as here:
        here.create(pod("a", cpu="1"))
        await here.settle(0.1)
        fields = [fields for _, text, fields in here.log if text.startswith("Disabling signatures")]
    assert fields == [{"profile": "default-scheduler", "plugins": ["Unsigned"]}]
    assert reports.flushes == {"a": ["pod_not_batchable"]}
