"""QueueSort: by key, by comparison, and with plugins that fail."""

import pytest
from tests.queue.support import Rig, make_pod

from kubesched.api import objects as api
from kubesched.queue.pods import QueuedPodInfo


class ShortestName:
    """Orders pods by the length of their names."""

    name = "ShortestName"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        return len(a.pod.labels.get("nick", a.pod.name)) < len(b.pod.labels.get("nick", b.pod.name))


class FewestAttempts:
    """Orders by a field that only queued pods have."""

    name = "FewestAttempts"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        return a.attempts < b.attempts


class Moody:
    """Raises for some pods."""

    name = "Moody"

    def sort_key(self, pod: api.Pod) -> int:
        if "bad" in pod.name:
            raise SystemExit("no")
        return len(pod.name)


class Hopeless:
    """Raises on every comparison."""

    name = "Hopeless"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        raise SystemExit("no")


class Incomparable:
    """A value like a NumPy array, whose comparisons are neither true nor false."""

    def __eq__(self, other: object) -> bool:
        raise SystemExit("no")

    def __lt__(self, other: object) -> bool:
        raise SystemExit("no")

    def __bool__(self) -> bool:
        raise SystemExit("no")

    __hash__ = None  # type: ignore[assignment]  # as those of arrays


class IncomparableKeys:
    """Orders by values that cannot be compared."""

    name = "IncomparableKeys"

    def sort_key(self, pod: api.Pod) -> Incomparable:
        return Incomparable()


class Vague:
    """Answers with what is neither true nor false."""

    name = "Vague"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> Incomparable:
        return Incomparable()


@pytest.mark.parametrize("plugin", [IncomparableKeys, Vague])
def test_pods_whose_keys_cannot_be_compared_keep_their_order(plugin: type) -> None:
    """Keys and answers that raise when they are compared leave pods in the order of their arrival."""
    rig = Rig(sort=plugin())
    for name in "abcdef":
        rig.queue.add(make_pod(name))
        rig.clock.time += 1
    assert rig.pop_names() == list("abcdef")


def test_pods_are_ordered_by_priority_then_time() -> None:
    """PrioritySort orders by priority, then by time of arrival."""
    rig = Rig()
    for name, priority in [("low", 1), ("first", 5), ("second", 5), ("none", None), ("high", 9)]:
        rig.queue.add(make_pod(name, priority=priority))
        rig.clock.time += 1
    assert rig.pop_names() == ["high", "first", "second", "low", "none"]


def test_arrivals_at_the_same_moment_keep_their_order() -> None:
    """Pods with the same priority and time keep the order in which they were added."""
    rig = Rig()
    for name in "cab":
        rig.queue.add(make_pod(name))
    assert rig.pop_names() == ["c", "a", "b"]


def test_a_plugin_may_compare_pods() -> None:
    """`less` decides, and pods that it considers equal are ordered by time."""
    rig = Rig(sort=ShortestName())
    for name in ["long-name", "bb", "aa", "c"]:
        rig.queue.add(make_pod(name))
        rig.clock.time += 1
    assert rig.pop_names() == ["c", "bb", "aa", "long-name"]


def test_a_comparison_sees_the_attempts() -> None:
    """`less` gets queued pods, so that it can use the queue's data about them."""
    rig = Rig({}, sort=FewestAttempts(), max_backoff=0)
    rig.queue.add(make_pod("tried"))
    rig.fail(rig.pop())
    rig.queue.add(make_pod("fresh"))
    assert rig.pop_names() == ["fresh", "tried"]


def test_an_update_reorders_by_comparison() -> None:
    """A pod whose update changes the result of `less` is moved, however many dead entries that leaves behind."""
    rig = Rig(sort=ShortestName())
    for name in ["aaa", "bbbbb", "ccccccc"]:
        rig.queue.add(make_pod(name))
    old = make_pod("ccccccc")
    for nick in ["c", "cccccccccc", "cc"]:
        new = make_pod("ccccccc", labels={"nick": nick})
        rig.queue.update(old, new)
        old = new
    assert rig.pop_names() == ["ccccccc", "aaa", "bbbbb"]


def test_a_failing_sort_key_comes_last() -> None:
    """A pod whose `sort_key` raises comes last, and the log names the plugin."""
    rig = Rig(sort=Moody())
    for name in ["bad-one", "long-enough", "a", "bad"]:
        rig.queue.add(make_pod(name))
        rig.clock.time += 1
    assert rig.pop_names() == ["a", "long-enough", "bad-one", "bad"]
    assert rig.messages[0][2]["plugin"] == "Moody"


def test_a_failing_comparison_is_ignored() -> None:
    """If `less` raises, pods are ordered by time."""
    rig = Rig(sort=Hopeless())
    for name in "cab":
        rig.queue.add(make_pod(name))
        rig.clock.time += 1
    assert rig.pop_names() == ["c", "a", "b"]
    assert "QueueSort plugin failed" in rig.errors()
