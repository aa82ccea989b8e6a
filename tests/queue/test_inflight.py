"""Pods in flight: no event that arrives meanwhile is missed, and no event is kept without need."""

import pytest
from tests.queue.support import ON_NODE_ADD, Recorder, Rig, make_node, make_pod

from kubesched.api import objects as api
from kubesched.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource, on
from kubesched.queue.hooks import Subqueue
from kubesched.queue.inflight import InFlight, ObservedEvent

VOLUME_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)


def same_color(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    assert new is not None
    return Hint.QUEUE if new.labels.get("color") == pod.labels.get("color") else Hint.SKIP


BY_COLOR = (on(Resource.NODE, Action.ADD, same_color),)


def in_flight(*names: str) -> tuple[InFlight, Recorder]:
    metrics = Recorder()
    flights = InFlight(metrics)
    for name in names:
        flights.start(make_pod(name))
    return flights, metrics


def node_added(name: str = "node", **labels: str) -> ObservedEvent:
    return ObservedEvent(NODE_ADD, None, make_node(name, **labels))


def names_of(flights: InFlight, uid: str) -> list[str]:
    flight = flights.get(uid)
    assert flight is not None
    events = flights.events_of(flight)
    assert events is not None
    return [observed.new.name for observed in events if observed.new is not None]


def test_a_pod_sees_what_came_after_it_left() -> None:
    """Each pod in flight sees the events since it was popped, and none before."""
    flights, _ = in_flight("a")
    flights.record(node_added("one"))
    flights.start(make_pod("b"))
    flights.record(node_added("two"))
    assert names_of(flights, "a") == ["one", "two"]
    assert names_of(flights, "b") == ["two"]


def test_no_events_are_kept_without_pods_in_flight() -> None:
    """Without a pod in flight, events are not kept."""
    flights, metrics = in_flight()
    assert not flights.record(node_added())
    assert flights.event_count == 0
    assert not metrics.in_flights


@pytest.mark.parametrize("order", ["abc", "cba", "bac"])
def test_events_go_with_the_last_pod_that_needs_them(order: str) -> None:
    """In whatever order pods finish, none loses an event, and in the end none is kept."""
    flights, metrics = in_flight()
    for name in "abc":
        flights.start(make_pod(name))
        flights.record(node_added(f"after-{name}"))
    seen = {}
    for name in order:
        seen[name] = names_of(flights, name)
        flights.finish(name)
    assert seen == {"a": ["after-a", "after-b", "after-c"], "b": ["after-b", "after-c"], "c": ["after-c"]}
    assert flights.event_count == 0
    assert not +metrics.in_flights


def test_an_old_flight_does_not_keep_events_without_end() -> None:
    """Beyond the limit the oldest events are dropped, and pods that may have missed one are marked."""
    flights, metrics = in_flight("old")
    for number in range(InFlight.LIMIT + 1):
        flights.record(node_added(f"n{number}"))
    flights.start(make_pod("young"))
    flights.record(node_added("last"))
    old = flights.get("old")
    assert old is not None
    assert flights.events_of(old) is None
    assert names_of(flights, "young") == ["last"]
    assert flights.event_count <= InFlight.LIMIT
    assert metrics.in_flights["NodeAdd"] == flights.event_count


def test_finishing_twice_changes_nothing() -> None:
    """A second `done`, or one for a pod that was not popped, is ignored."""
    flights, metrics = in_flight("a")
    flights.finish("a")
    flights.finish("a")
    flights.finish("never")
    assert not +metrics.in_flights


def test_the_event_that_would_have_helped_is_not_missed() -> None:
    """A pod rejected after a helpful event had arrived goes to backoff and not to the unschedulable pods."""
    rig = Rig({"Fit": BY_COLOR})
    rig.queue.add(make_pod("a", labels={"color": "red"}))
    queued = rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node(color="red"))
    assert rig.fail(queued, "Fit") is Subqueue.BACKOFF


def test_an_event_that_does_not_help_is_no_reason_to_retry() -> None:
    """Hints are called for events that arrived in flight as for new ones."""
    rig = Rig({"Fit": BY_COLOR})
    rig.queue.add(make_pod("a", labels={"color": "red"}))
    queued = rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert rig.fail(queued, "Fit") is Subqueue.UNSCHEDULABLE


def test_an_event_of_another_plugin_is_no_reason_to_retry() -> None:
    """Only registrations of the plugins that rejected the pod count."""
    rig = Rig({"Fit": BY_COLOR, "Volumes": (on(Resource.PERSISTENT_VOLUME, Action.ADD),)})
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert rig.fail(queued, "Fit") is Subqueue.UNSCHEDULABLE


def test_an_event_before_the_pod_left_does_not_count() -> None:
    """An event from before the pod was popped does not count, because the attempt has seen its effect."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.queue.add(make_pod("other"))
    rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.queue.add(make_pod("a"))
    assert rig.fail(rig.pop(), "Fit") is Subqueue.UNSCHEDULABLE


def test_a_pending_plugin_skips_the_backoff() -> None:
    """When a pending plugin was helped in flight, the pod is active at once, whichever plugins were helped before."""
    rig = Rig({"Fit": ON_NODE_ADD, "Waiter": (on(Resource.PERSISTENT_VOLUME, Action.ADD),)})
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert rig.fail(queued, "Fit", pending=["Waiter"]) is Subqueue.ACTIVE


def test_a_pod_that_missed_events_is_tried_again() -> None:
    """A pod that may have missed events is retried."""
    rig = Rig({"Fit": BY_COLOR})
    rig.queue.add(make_pod("a", labels={"color": "red"}))
    queued = rig.pop()
    for _ in range(InFlight.LIMIT + 1):
        rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert rig.fail(queued, "Fit") is Subqueue.BACKOFF


def test_an_update_in_flight_may_be_what_helps() -> None:
    """A pod that was updated in flight returns updated, and only that pod sees the change as an event."""
    rig = Rig({"Taints": (on(Resource.POD, Action.UPDATE_POD_TOLERATION),)})
    old, new = make_pod("a"), make_pod("a", tolerations=1)
    rig.queue.add(old)
    rig.queue.add(make_pod("b"))
    a, b = rig.pop(), rig.pop()
    rig.queue.update(old, new)
    assert rig.subqueue("a") is None
    assert rig.fail(a, "Taints") is Subqueue.BACKOFF
    assert a.pod == new
    assert rig.fail(b, "Taints") is Subqueue.UNSCHEDULABLE


def test_an_activation_in_flight_counts_when_the_pod_comes_back() -> None:
    """`activate` for a pod in flight is remembered for that pod only."""
    rig = Rig({"Fit": BY_COLOR})
    for name in "ab":
        rig.queue.add(make_pod(name))
    a, b = rig.pop(), rig.pop()
    rig.queue.activate([a.pod])
    assert rig.fail(b, "Fit") is Subqueue.UNSCHEDULABLE
    assert rig.fail(a, "Fit") is Subqueue.BACKOFF
    assert not +rig.metrics.in_flights


def test_a_pod_deleted_in_flight_does_not_come_back() -> None:
    """A pod that was deleted or bound by another scheduler in flight is not requeued."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.delete(queued.pod)
    assert rig.fail(queued, "Fit") is None
    assert len(rig.queue) == 0
    assert not +rig.metrics.in_flights
    assert not +rig.metrics.reasons


def test_a_pod_recreated_in_flight_is_a_new_pod() -> None:
    """When a pod is recreated in flight, the old one is not requeued and the new one starts from scratch."""
    rig = Rig()
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    rig.queue.add(old)
    queued = rig.pop()
    rig.queue.update(old, new)
    assert rig.fail(queued, "Fit") is None
    assert rig.subqueue("1") is None
    assert rig.pop().attempts == 1


def test_a_pod_that_reappears_in_flight_is_taken_back() -> None:
    """When a pod deleted in flight is added again with the same UID, it is requeued."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.delete(queued.pod)
    rig.queue.add(make_pod("a"))
    assert rig.queue.pop() is None
    assert rig.fail(queued, "Fit") is Subqueue.UNSCHEDULABLE


def test_a_pod_cannot_be_taken_back_twice() -> None:
    """Requeueing a pod twice is reported and changes nothing."""
    rig = Rig()
    queued = rig.reject(make_pod("a"), "Fit")
    assert rig.fail(queued, "Fit") is None
    assert len(rig.queue) == 1
    assert rig.errors()


def test_a_pod_that_was_never_popped_can_still_be_taken_back() -> None:
    """A pod that was never popped can still be requeued, in spite of the caller's error; it backs off."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.done(queued.uid)
    assert rig.fail(queued, "Fit") is Subqueue.BACKOFF
