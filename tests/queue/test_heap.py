"""The heap: order, removal from the middle, and cleanup of dead entries."""

from hypothesis import given
from hypothesis import strategies as st
from tests.queue.support import make_pod

from kubesched.cluster.pods import PodClasses
from kubesched.queue.heap import PodHeap
from kubesched.queue.pods import QueuedPodInfo

CLASSES = PodClasses()


def queued(name: str, priority: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(CLASSES.info(make_pod(name, priority=priority)), 0.0)


def heap_of(*pods: QueuedPodInfo) -> PodHeap:
    heap = PodHeap(lambda item: item.pod.priority)
    for pod in pods:
        heap.put(pod)
    return heap


def drain(heap: PodHeap) -> list[str]:
    names = []
    while (item := heap.pop()) is not None:
        names.append(item.pod.name)
    return names


def test_pods_come_out_by_key() -> None:
    """The smallest key comes first."""
    assert drain(heap_of(queued("b", 2), queued("c", 3), queued("a", 1))) == ["a", "b", "c"]


def test_equals_come_out_as_they_came() -> None:
    """Pods with equal keys keep their order of arrival."""
    assert drain(heap_of(*(queued(name) for name in "dacb"))) == ["d", "a", "c", "b"]


def test_a_pod_can_leave_from_the_middle() -> None:
    """A removed pod never reappears, and removing it again returns nothing."""
    heap = heap_of(queued("a", 1), queued("b", 2), queued("c", 3))
    removed = heap.remove("b")
    assert removed is not None
    assert removed.pod.name == "b"
    assert heap.remove("b") is None
    assert "b" not in heap
    assert drain(heap) == ["a", "c"]


def test_a_changed_key_changes_the_place() -> None:
    """Adding a pod again after its key changed moves it, without duplicating it."""
    moving = queued("moving", 9)
    heap = heap_of(queued("a", 1), moving)
    moving.info = CLASSES.info(make_pod("moving", priority=0))
    heap.put(moving)
    assert len(heap) == 2
    assert drain(heap) == ["moving", "a"]


def test_an_unchanged_key_keeps_the_place() -> None:
    """Adding a pod again with the same key keeps its position."""
    first = queued("first")
    heap = heap_of(first, queued("second"))
    heap.put(first)
    assert drain(heap) == ["first", "second"]


def test_dead_entries_are_cleaned_up() -> None:
    """A heap stays small even if all pods are removed from the middle."""
    heap = heap_of(queued("stays", 0))
    for number in range(10_000):
        heap.put(queued(f"p{number}", 1))
        heap.remove(f"p{number}")
    assert len(heap) == 1
    assert len(heap._heap) < 200


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.sampled_from(["put", "remove", "pop"]))))
def test_it_agrees_with_a_sorted_list(steps: list[tuple[str, int, str]]) -> None:
    """After any sequence of adds, removals and pops, the order is that of a plain sort."""
    heap = heap_of()
    model: dict[str, tuple[int, int]] = {}
    for number, (name, priority, step) in enumerate(steps):
        if step == "put":
            heap.put(queued(name, priority))
            if model.get(name, (None,))[0] != priority:
                model[name] = (priority, number)
        elif step == "remove":
            assert (heap.remove(name) is not None) == (model.pop(name, None) is not None)
        else:
            expected = min(model, key=lambda n: model[n], default=None)
            popped = heap.pop()
            assert (popped.pod.name if popped else None) == expected
            model.pop(expected or "", None)
        assert len(heap) == len(model)
        assert {item.pod.name for item in heap} == set(model)
    assert drain(heap) == sorted(model, key=lambda n: model[n])
