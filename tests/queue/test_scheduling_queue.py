"""The queue as a whole: pods are added, updated, popped, activated, flushed and deleted, in every state."""

from collections.abc import Callable

import pytest
from tests.queue.support import ON_NODE_ADD, Rig, make_node, make_pod

from kubesched.framework.events import NODE_ADD, Action, Resource, on
from kubesched.queue.hooks import Subqueue

TOLERATION = (on(Resource.POD, Action.UPDATE_POD_TOLERATION),)


def active(rig: Rig) -> None:
    rig.queue.add(make_pod("a"))


def backing_off(rig: Rig) -> None:
    rig.reject(make_pod("a"), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())


def failed(rig: Rig) -> None:
    rig.queue.add(make_pod("a"))
    rig.fail(rig.pop())


def unschedulable(rig: Rig) -> None:
    rig.reject(make_pod("a"), "Fit")


def in_flight(rig: Rig) -> None:
    rig.queue.add(make_pod("a"))
    rig.pop()


WAITING = [active, backing_off, failed, unschedulable]
ANYWHERE = [*WAITING, in_flight]

Get = Callable[[Rig], None]


@pytest.fixture
def rig() -> Rig:
    return Rig({"Fit": ON_NODE_ADD, "Taints": TOLERATION})


def test_a_new_pod_is_active(rig: Rig) -> None:
    """A new pod can be popped, and `on_ready` is called."""
    rig.queue.add(make_pod("a"))
    assert rig.subqueue("a") is Subqueue.ACTIVE
    assert rig.queue.ready
    assert rig.wakeups == 1


def test_a_popped_pod_is_in_flight(rig: Rig) -> None:
    """A popped pod counts as an attempt and is in no queue."""
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    assert (queued.attempts, rig.queue.scheduling_cycle) == (1, 1)
    assert rig.subqueue("a") is None
    assert [pod.name for pod in rig.queue.pod_lists().in_flight] == ["a"]
    rig.queue.done("a")
    assert rig.queue.pod_lists().in_flight == []


def test_an_empty_queue_gives_nothing(rig: Rig) -> None:
    """`pop` on an empty queue returns at once, and the caller does the waiting."""
    assert rig.queue.pop() is None
    assert not rig.queue.ready
    assert rig.queue.scheduling_cycle == 0


@pytest.mark.parametrize("get_there", ANYWHERE)
def test_a_pod_added_twice_is_one_pod(rig: Rig, get_there: Get) -> None:
    """A pod that is added again after a broken watch is not duplicated, whatever its state."""
    get_there(rig)
    subqueue = rig.subqueue("a")
    rig.queue.add(make_pod("a"))
    assert rig.subqueue("a") is subqueue
    assert len(rig.queue) + len(rig.queue.pod_lists().in_flight) == 1


@pytest.mark.parametrize("get_there", ANYWHERE)
def test_an_update_is_taken_wherever_the_pod_is(rig: Rig, get_there: Get) -> None:
    """The next attempt uses the newest state, and an irrelevant update moves nothing."""
    get_there(rig)
    subqueue = rig.subqueue("a")
    new = make_pod("a", labels={"new": "label"})
    rig.queue.update(make_pod("a"), new)
    assert rig.subqueue("a") is subqueue
    lists = rig.queue.pod_lists()
    assert [*lists.active, *lists.backoff, *lists.unschedulable, *lists.in_flight] == [new]


@pytest.mark.parametrize("get_there", WAITING)
def test_a_deleted_pod_is_gone_wherever_it_was(rig: Rig, get_there: Get) -> None:
    """A deleted pod leaves no trace in any queue or count."""
    get_there(rig)
    rig.queue.delete(make_pod("a"))
    assert len(rig.queue) == 0
    assert not +rig.metrics.pendings
    assert not +rig.metrics.reasons
    rig.clock.time += 1000
    rig.queue.flush_backoff()
    rig.queue.flush_unschedulable()
    assert rig.queue.pop() is None


@pytest.mark.parametrize("get_there", WAITING)
def test_a_recreated_pod_starts_from_scratch(rig: Rig, get_there: Get) -> None:
    """An update with another UID is a new pod: it is active and untried, and the old one is gone."""
    get_there(rig)
    rig.queue.update(make_pod("a"), make_pod("a", uid="another"))
    assert (rig.subqueue("a"), rig.subqueue("another")) == (None, Subqueue.ACTIVE)
    assert rig.pop().attempts == 1


def test_an_update_of_an_unknown_pod_adds_it(rig: Rig) -> None:
    """An update of an unknown pod adds it."""
    rig.queue.update(make_pod("a"), make_pod("a", labels={"new": "label"}))
    assert rig.subqueue("a") is Subqueue.ACTIVE
    assert rig.metrics.incomings == {("active", "UnschedulablePodUpdate"): 1}


def test_deleting_an_unknown_pod_is_ignored(rig: Rig) -> None:
    """Deleting an unknown pod is silently ignored."""
    rig.queue.delete(make_pod("a"))
    assert len(rig.queue) == 0


def test_an_update_may_make_a_pod_schedulable(rig: Rig) -> None:
    """An update wakes a pod if the plugin that rejected it registered for that change."""
    rig.reject(make_pod("a"), "Taints")
    woken = rig.wakeups
    rig.queue.update(make_pod("a"), make_pod("a", tolerations=1))
    assert rig.subqueue("a") is Subqueue.BACKOFF
    assert rig.wakeups == woken + 1
    assert rig.metrics.incomings["backoff", "UnschedulablePodUpdatePodToleration"] == 1


def test_an_update_after_the_backoff_makes_a_pod_active(rig: Rig) -> None:
    """Time spent as unschedulable counts towards the backoff."""
    rig.reject(make_pod("a"), "Taints")
    rig.clock.time += 5
    rig.queue.update(make_pod("a"), make_pod("a", tolerations=1))
    assert rig.subqueue("a") is Subqueue.ACTIVE


def test_an_update_helps_only_the_updated_pod(rig: Rig) -> None:
    """A waiting pod's update is no event for other pods."""
    for name in "ab":
        rig.reject(make_pod(name), "Taints")
    rig.queue.update(make_pod("a"), make_pod("a", tolerations=1))
    assert rig.subqueue("b") is Subqueue.UNSCHEDULABLE


def test_an_active_pod_moves_with_its_priority(rig: Rig) -> None:
    """An update of the priority reorders an active pod."""
    for name in "ab":
        rig.queue.add(make_pod(name))
    rig.queue.update(make_pod("b"), make_pod("b", priority=5))
    assert rig.pop_names() == ["b", "a"]


@pytest.mark.parametrize("get_there", WAITING)
def test_activation_makes_a_pod_active_from_anywhere(rig: Rig, get_there: Get) -> None:
    """`activate` makes a pod active from any state, even in a backoff after an error."""
    get_there(rig)
    rig.queue.activate([make_pod("a"), make_pod("unknown")])
    assert rig.subqueue("a") is Subqueue.ACTIVE
    assert rig.subqueue("unknown") is None
    assert len(rig.queue) == 1
    assert +rig.metrics.pendings == {"active": 1}


def test_activation_calls_on_ready(rig: Rig) -> None:
    """`activate` calls `on_ready` only if it made a pod active."""
    rig.reject(make_pod("a"), "Fit")
    woken = rig.wakeups
    rig.queue.activate([make_pod("unknown")])
    assert rig.wakeups == woken
    rig.queue.activate([make_pod("a")])
    assert rig.wakeups == woken + 1


def test_a_pod_that_waits_too_long_is_tried_again(rig: Rig) -> None:
    """A pod without any event is retried after five minutes, in case one was missed."""
    rig.reject(make_pod("a"), "Fit")
    rig.clock.time += 300
    rig.queue.flush_unschedulable()
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE
    rig.clock.time += 0.1
    rig.queue.flush_unschedulable()
    assert rig.subqueue("a") is Subqueue.ACTIVE
    queued = rig.pop()
    assert queued.was_flushed
    rig.fail(queued, "Fit")
    assert not queued.was_flushed


def test_a_flush_takes_only_those_whose_time_has_come(rig: Rig) -> None:
    """Each pod's five minutes start when its last attempt failed."""
    for name in "abc":
        rig.reject(make_pod(name), "Fit")
        rig.clock.time += 100
    rig.clock.time = 100 + 401
    rig.queue.flush_unschedulable()
    assert sorted(rig.pop_names()) == ["a", "b"]


def test_a_flush_without_pods_is_no_event(rig: Rig) -> None:
    """A flush that moves no pod is not an event for pods in flight."""
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.clock.time += 1000
    rig.queue.flush_unschedulable()
    assert rig.fail(queued, "Fit") is Subqueue.UNSCHEDULABLE


def test_everything_that_can_be_popped_is_announced(rig: Rig) -> None:
    """`on_ready` is called for a new pod, a woken one, one whose backoff ended, and one requeued as active."""
    rig.queue.add(make_pod("a"))
    assert rig.wakeups == 1
    queued = rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.wakeups == 1
    rig.fail(queued, "Fit")
    assert rig.wakeups == 2
    rig.clock.time += 5
    rig.queue.flush_backoff()
    assert rig.wakeups == 3
    rig.fail(rig.pop(), "Fit")
    assert rig.wakeups == 3
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.wakeups == 4


def test_the_dump_counts_pods_as_upstream_does(rig: Rig) -> None:
    """The dump has one line with the number of pods in each queue."""
    rig.reject(make_pod("u1"), "Fit")
    rig.queue.add(make_pod("failed"))
    rig.fail(rig.pop())
    rig.reject(make_pod("u2"), "Fit")
    rig.queue.add(make_pod("a1"))
    pods, summary = rig.queue.pending_pods()
    assert summary == "activeQ:1; backoffQ:1; unschedulablePods:2"
    assert {pod.name for pod in pods} == {"a1", "failed", "u1", "u2"}
    assert len(rig.queue) == 4


def test_the_first_attempt_is_timed_once(rig: Rig) -> None:
    """A requeued pod keeps its first attempt time, but is ordered by the time it returned."""
    rig.queue.add(make_pod("a"))
    rig.clock.time += 50
    queued = rig.pop()
    rig.fail(queued, "Fit")
    assert (queued.initial_attempt_timestamp, queued.timestamp) == (100.0, 150.0)
