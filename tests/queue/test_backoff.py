"""Backoff: its duration, its rounding to seconds, and which pods may be popped early."""

import pytest
from tests.queue.support import ON_NODE_ADD, Rig, closed_gate, make_node, make_pod

from kubesched.base.features import Features
from kubesched.framework.events import NODE_ADD
from kubesched.queue.hooks import Subqueue


def woken(rig: Rig, *plugins: str) -> None:
    """Reject the only pod, then wake it at once."""
    rig.fail(rig.pop(), *plugins)
    rig.queue.move_all(NODE_ADD, None, make_node())


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (70, 10), (5000, 10)],
)
def test_backoff_doubles_up_to_a_limit(failures: int, seconds: int) -> None:
    """Backoff grows from podInitialBackoffSeconds to podMaxBackoffSeconds, however often the pod failed."""
    assert Rig().queue._subqueues.backoff.duration(failures) == seconds


def test_a_limit_below_the_start_is_the_limit() -> None:
    """An initial backoff over the maximum is reduced to the maximum."""
    assert Rig(initial_backoff=20, max_backoff=5).queue._subqueues.backoff.duration(1) == 5


def test_backoff_ends_after_the_second_it_ends_in() -> None:
    """Rejected at 100.3 with one second of backoff, a pod expires in second 101 and is released when that second is
    over.
    """
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.clock.time = 100.3
    rig.queue.add(make_pod("a"))
    woken(rig, "Fit")
    for time in (101.0, 101.3, 101.99):
        rig.clock.time = time
        rig.queue.flush_backoff()
        assert rig.subqueue("a") is Subqueue.BACKOFF
    rig.clock.time = 102.0
    rig.queue.flush_backoff()
    assert rig.subqueue("a") is Subqueue.ACTIVE


def test_backoff_counts_from_the_failure() -> None:
    """A pod whose backoff passed while it was unschedulable becomes active as soon as an event helps it."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.reject(make_pod("a"), "Fit")
    rig.clock.time += 30
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.subqueue("a") is Subqueue.ACTIVE


def test_no_maximum_means_no_backoff() -> None:
    """podMaxBackoffSeconds: 0 turns backoff off."""
    rig = Rig({"Fit": ON_NODE_ADD}, max_backoff=0)
    rig.queue.add(make_pod("a"))
    woken(rig, "Fit")
    assert rig.subqueue("a") is Subqueue.ACTIVE


def test_an_error_sends_a_pod_to_backoff() -> None:
    """An attempt that failed with an error is retried without waiting for an event."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    assert rig.fail(rig.pop()) is Subqueue.BACKOFF


def test_a_rejected_pod_is_popped_early_when_no_other_waits() -> None:
    """When no pod is active, a rejected pod is popped before its backoff ends."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.queue.add(make_pod("a"))
    woken(rig, "Fit")
    assert rig.subqueue("a") is Subqueue.BACKOFF
    assert rig.queue.ready
    assert rig.pop_names() == ["a"]
    assert rig.metrics.incomings["active", "PopFromBackoffQ"] == 1


def test_a_failed_pod_is_never_taken_early() -> None:
    """A pod that failed with an error waits out its backoff even if the scheduler is idle, to spare the API server."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    rig.fail(rig.pop())
    assert not rig.queue.ready
    assert rig.queue.pop() is None
    rig.clock.time += 2
    rig.queue.flush_backoff()
    assert rig.pop_names() == ["a"]


def test_active_pods_go_before_early_ones() -> None:
    """The backoff queue is used only when the active queue is empty, whatever the priorities."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.queue.add(make_pod("important", priority=100))
    woken(rig, "Fit")
    rig.queue.add(make_pod("plain"))
    assert rig.pop_names() == ["plain", "important"]


def test_within_a_second_priority_decides() -> None:
    """Among backoffs that end in the same second, priority decides."""
    rig = Rig({"Fit": ON_NODE_ADD})
    waiting = [make_pod("low", priority=1), make_pod("late", priority=5), make_pod("high", priority=9)]
    for pod, time in zip(waiting, (100.1, 103.0, 100.9), strict=True):
        rig.clock.time = time
        rig.reject(pod, "Fit")
    rig.clock.time = 100.95
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert {rig.subqueue(pod) for pod in waiting} == {Subqueue.BACKOFF}
    assert rig.pop_names() == ["high", "low", "late"]


def test_errors_and_rejections_are_counted_apart() -> None:
    """Rejections add up over a pod's life; errors count only while consecutive, and then only they count."""
    rig = Rig({"Fit": ON_NODE_ADD})
    queued = rig.reject(make_pod("a"), "Fit")
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (1, 0)
    for errors in (1, 2, 3):
        rig.queue.activate([queued.pod])
        rig.fail(rig.pop())
        assert (queued.unschedulable_count, queued.consecutive_errors_count) == (1, errors)
    assert rig.queue._subqueues.backoff.expiration(queued) == rig.clock.time + 4
    rig.queue.activate([queued.pod])
    rig.fail(rig.pop(), "Fit")
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (2, 0)
    assert queued.attempts == 5
    assert rig.queue._subqueues.backoff.expiration(queued) == rig.clock.time + 2


def test_an_update_keeps_a_backing_off_pod_where_it_is() -> None:
    """A pod in backoff takes its new state and is reordered by its new priority."""
    rig = Rig({"Fit": ON_NODE_ADD})
    for name in "ab":
        rig.reject(make_pod(name, priority=1), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    new = make_pod("b", priority=7)
    rig.queue.update(make_pod("b", priority=1), new)
    assert rig.subqueue("b") is Subqueue.BACKOFF
    assert rig.pop_names() == ["b", "a"]


def test_an_update_keeps_a_failed_pod_backing_off() -> None:
    """An update does not shorten the backoff after an error either."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    rig.fail(rig.pop())
    rig.queue.update(make_pod("a"), make_pod("a", labels={"new": "label"}))
    assert rig.subqueue("a") is Subqueue.BACKOFF
    assert not rig.queue.ready


# --- SchedulerPopFromBackoffQ off -------------------------------------------------------------------------------------

NOT_EARLY = Features(scheduler_pop_from_backoff_q=False)


def test_without_the_gate_no_pod_is_taken_early() -> None:
    """With the gate off, a rejected pod waits for the exact end of its backoff, even if the scheduler is idle."""
    rig = Rig({"Fit": ON_NODE_ADD}, features=NOT_EARLY)
    rig.clock.time = 100.3
    rig.queue.add(make_pod("a"))
    woken(rig, "Fit")
    assert not rig.queue.ready
    assert rig.queue.pop() is None
    for time, subqueue in ((101.25, Subqueue.BACKOFF), (101.35, Subqueue.ACTIVE)):
        rig.clock.time = time
        rig.queue.flush_backoff()
        assert rig.subqueue("a") is subqueue


def test_without_the_gate_the_end_of_the_backoff_decides() -> None:
    """With the gate off, priority does not matter among pods in backoff."""
    rig = Rig({"Fit": ON_NODE_ADD}, features=NOT_EARLY)
    for name, time, priority in (("early", 100.1, 1), ("late", 100.9, 9)):
        rig.clock.time = time
        rig.reject(make_pod(name, priority=priority), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.clock.time = 101.5
    rig.queue.flush_backoff()
    assert (rig.subqueue("early"), rig.subqueue("late")) == (Subqueue.ACTIVE, Subqueue.BACKOFF)


def test_without_the_gate_pre_enqueue_runs_after_the_backoff() -> None:
    """With the gate off, a gated pod backs off like any other and is stopped when it would become active."""
    rig = Rig({"Fit": ON_NODE_ADD}, closed_gate, features=NOT_EARLY)
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.update(queued.pod, make_pod("a", gates=["wait"]))
    assert rig.fail(queued) is Subqueue.BACKOFF
    rig.queue.activate([queued.pod])
    assert rig.subqueue("a") is Subqueue.BACKOFF
    rig.clock.time += 2
    rig.queue.flush_backoff()
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE


def test_with_the_gate_pre_enqueue_runs_before_the_backoff() -> None:
    """With the gate on, a gated pod does not enter backoff, since it could be popped from there."""
    rig = Rig({"Fit": ON_NODE_ADD}, closed_gate)
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.update(queued.pod, make_pod("a", gates=["wait"]))
    assert rig.fail(queued) is Subqueue.UNSCHEDULABLE
