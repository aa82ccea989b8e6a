"""Records say what the engine decided, and stay as they are."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import node, pod, pod_group
from tests.scheduler.world import world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.history.columns import distinct, packed, small, unpacked
from kubesched.history.record import AttemptRecord, Names, ScoreColumn
from kubesched.history.recorder import HistoryRecorder
from kubesched.history.store import History, HistoryLimits
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.subscribers.publisher import OnDecision, Subscriber


@given(st.lists(st.integers(-(2**62), 2**62), max_size=40))
def test_small_columns_hold_the_same_numbers(numbers: list[int]) -> None:
    """A column is the same after it was made small, and its distinct numbers are found."""
    column = np.array(numbers, dtype=np.int64)
    assert small(column).tolist() == numbers
    assert distinct(small(column)) == sorted(set(numbers) - {0})


@given(st.lists(st.booleans(), max_size=40))
def test_masks_survive_packing(bits: list[bool]) -> None:
    """A mask is the same after packing and unpacking."""
    mask = np.array(bits, dtype=np.bool_)
    assert unpacked(packed(mask), len(bits)).tolist() == bits


@virtual_time
async def test_a_record_says_what_a_detailed_decision_says(clock: VirtualClock) -> None:
    """Scores, rejections and the winner are those that the engine records in full detail."""
    recorder = HistoryRecorder(clock, History(HistoryLimits()))
    seen: list[Attempt] = []
    full: list[tuple[dict[str, dict[str, int]], dict[str, str]]] = []

    def look(attempt: Attempt) -> None:
        seen.append(attempt)
        full.append((attempt.node_scores, {name: each.plugin for name, each in attempt.rejections.items()}))

    nodes = [node(f"n{index}", cpu=str(1 + index % 4), taints=["a=b:NoSchedule"] * (index == 3)) for index in range(9)]
    async with world(clock, *nodes, subscribers=[recorder, OnDecision(look)], detailed=True) as here:
        for index in range(12):
            here.create(pod(f"p{index}", cpu="900m"))
            await here.settle(1)
    assert recorder.history is not None
    records = sorted(recorder.history, key=lambda each: each.number)
    assert len(records) >= 12
    assert any(each.rejections() for each in records if each.node)
    for record, (scores, rejected) in zip(records, full, strict=True):
        best = record.best(100)
        assert {each.node: {p: final for p, (_, final) in each.plugins.items()} for each in best} == scores
        assert {name: each.plugin for each in record.rejections() for name in each.nodes} == rejected
        assert record.finished
        if best:
            assert best[0].node == record.node
            assert best[0].total == max(each.total for each in best)


@virtual_time
async def test_every_objection_to_a_node_is_kept(clock: VirtualClock) -> None:
    """A node that two plugins reject has both, with the numbers of the pod's failure."""
    recorder = HistoryRecorder(clock, History(HistoryLimits()))
    tainted = node("n1", cpu="1", taints=["a=b:NoSchedule"])
    async with world(clock, tainted, subscribers=[recorder]) as here:
        here.create(pod("big", cpu="8"))
        await here.settle(1)
    assert recorder.history is not None
    record = recorder.history.of_pod("default/big")[-1]
    assert record.outcome == "unschedulable"
    assert [plugin for plugin, _ in record.objections("n1")] == ["TaintToleration", "NodeResourcesFit"]
    assert [(each.plugin, each.nodes) for each in record.rejections()] == [("TaintToleration", ["n1"])]
    assert "0/1 nodes are available" in record.message


@virtual_time
async def test_a_subscriber_that_raises_harms_neither_history_nor_pods(clock: VirtualClock) -> None:
    """With a broken subscriber and a broken sink, pods are bound and attempts are recorded."""

    class Broken(Subscriber):
        def decided(self, attempt: Attempt) -> None:
            raise RuntimeError("broken")

    def sink(record: AttemptRecord, attempt: Attempt) -> None:
        raise RuntimeError("broken too")

    recorder = HistoryRecorder(clock, History(HistoryLimits()), sinks=[sink])
    async with world(clock, node("n1"), subscribers=[Broken(), recorder]) as here:
        here.create(pod("web"))
        await here.settle(1)
        assert here.node_of("web") == "n1"
    assert recorder.history is not None
    assert [(each.key, each.binding) for each in recorder.history] == [("default/web", "bound")]


@virtual_time
async def test_the_pods_of_a_gang_are_recorded_as_they_were_decided(clock: VirtualClock) -> None:
    """What a pod of a group takes on a node is not in the records of those that were decided before it."""
    recorder = HistoryRecorder(clock, History(HistoryLimits()))
    features = Features(generic_workload=True, gang_scheduling=True)
    nodes = [node("n1", cpu="2"), node("n2", cpu="1"), node("n3", cpu="1")]
    async with world(clock, *nodes, subscribers=[recorder], features=features) as here:
        here.create(pod_group("g", 4), *(pod(f"g-{number}", cpu="1", group="g") for number in range(4)))
        await here.settle(1)
    assert recorder.history is not None
    records = sorted(recorder.history, key=lambda each: each.number)
    assert [(each.binding, each.feasible) for each in records] == [
        ("bound", 3),
        ("bound", 3),
        ("bound", 2),
        ("bound", 1),
    ]
    for each in records:
        fitting = [each.names.names[row] for row in each.feasible_rows()]
        assert len(fitting) == each.feasible
        assert each.node in fitting


NAMES = Names(tuple(f"n{index}" for index in range(100)), 10_000)
SHARED = ScoreColumn("Static", 1, np.zeros(100, dtype=np.uint8), whole=True, shared=True)


def made(number: int, name: str, size: int, *, shared: bool) -> AttemptRecord:
    own = ScoreColumn("Own", 1, np.zeros(size, dtype=np.uint8))
    return AttemptRecord(number, "default", name, name, "s", 1, 0.0, NAMES, scores=[own, SHARED] if shared else [own])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30_000), st.booleans()), max_size=60),
    st.integers(1, 4),
    st.integers(1, 20),
    st.integers(0, 300_000),
)
def test_history_stays_within_all_bounds(
    added: list[tuple[int, int, bool]], per_pod: int, in_all: int, most: int
) -> None:
    """After every attempt the bounds hold, the bytes are those of what is kept, and what is kept is the newest."""
    history = History(HistoryLimits(per_pod, in_all, most))
    for number, (pod_number, size, shared) in enumerate(added):
        history.add(made(number, f"p{pod_number}", size, shared=shared))
        kept = list(history)
        assert len(kept) <= in_all
        assert history.bytes <= most
        parts = {id(part): part.nbytes for each in kept for part in each.shared_parts()}
        assert history.bytes == sum(each.own_bytes() for each in kept) + sum(parts.values())
        assert all(len(history.of_pod(f"default/p{index}")) <= per_pod for index in range(6))
        assert [each.number for each in kept] == sorted((each.number for each in kept), reverse=True)


@virtual_time
async def test_stated_bytes_are_at_least_the_real_ones(clock: VirtualClock) -> None:
    """What the history says that it takes is not less than what Python allocated for it."""
    recorder = HistoryRecorder(clock, History(HistoryLimits()))
    nodes = [node(f"node-{index}", cpu=str(1 + index % 3)) for index in range(300)]
    async with world(clock, *nodes, subscribers=[recorder], verbosity=0) as here:
        for index in range(5):
            here.create(pod(f"warm-{index}", cpu="1500m"))
        await here.settle(1)
        assert recorder.history is not None
        stated = recorder.history.bytes
        tracemalloc.start()
        for index in range(60):
            here.create(pod(f"p{index}", cpu="1500m"))
        await here.settle(1)
        kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/kubesched/history/*")])
        tracemalloc.stop()
    assert sum(each.size for each in kept.statistics("filename")) <= recorder.history.bytes - stated
