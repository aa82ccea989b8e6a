"""The queue's report on its pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod

from kubesched.cluster.pods import PodClasses
from kubesched.queue.heap import PodHeap
from kubesched.queue.pods import QueuedPodInfo


@given(st.lists(st.integers(0, 5), max_size=30), st.sets(st.integers(0, 29)), st.integers(0, 40))
def test_the_first_few_come_in_the_order_of_pop(keys: list[int], removed: set[int], most: int) -> None:
    """The first pods are listed in the order of `pop`, without removed ones, and positions start at 0."""
    classes = PodClasses()
    key_of = {f"p{index}": key for index, key in enumerate(keys)}
    heap = PodHeap(lambda queued: key_of[queued.pod.name])
    for name in key_of:
        heap.put(QueuedPodInfo(classes.info(pod(name)), 0.0))
    queued = {each.pod.name: each.uid for each in heap}
    for index in removed:
        if f"p{index}" in queued:
            heap.remove(queued[f"p{index}"])
    shown = [each.pod.name for each in heap.first_few(most)]
    turns = {name: heap.turn(uid) for name, uid in queued.items()}
    popped = []
    while (first := heap.pop()) is not None:
        popped.append(first.pod.name)
    assert shown == popped[:most]
    assert [turns[name] for name in popped] == list(range(len(popped)))
