"""Pods in flight: no event that came meanwhile is missed, and none is kept for nobody."""

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
    """Each pod in flight looks through the events since it was popped, not earlier ones."""
    flights, _ = in_flight("a")
    flights.record(node_added("one"))
    flights.start(make_pod("b"))
    flights.record(node_added("two"))
    assert names_of(flights, "a") == ["one", "two"]
    assert names_of(flights, "b") == ["two"]


def test_nothing_is_kept_while_nobody_is_in_flight() -> None:
    """With no pod to come back, an event is not worth remembering."""
    flights, metrics = in_flight()
    assert not flights.record(node_added())
    assert flights.event_count == 0
    assert not metrics.in_flights


@pytest.mark.parametrize("order", ["abc", "cba", "bac"])
def test_events_go_with_the_last_pod_that_needs_them(order: str) -> None:
    """In whatever order pods land, none loses an event of its own, and at the end none is left."""
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
    """Past the limit the oldest events are dropped, and whoever may have needed them is told that he cannot tell."""
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
    """A second `done`, or one for a pod that never left, is let pass."""
    flights, metrics = in_flight("a")
    flights.finish("a")
    flights.finish("a")
    flights.finish("never")
    assert not +metrics.in_flights


def test_the_event_that_would_have_helped_is_not_missed() -> None:
    """A pod turned down after a helpful event had passed goes to backoff, not among the unschedulable."""
    rig = Rig({"Fit": BY_COLOR})
    rig.queue.add(make_pod("a", labels={"color": "red"}))
    queued = rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node(color="red"))
    assert rig.fail(queued, "Fit") is Subqueue.BACKOFF


def test_an_event_that_does_not_help_is_no_reason_to_retry() -> None:
    """Hints are asked about past events as they are about new ones."""
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
    """What had happened when the attempt began is what the attempt has seen."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.queue.add(make_pod("other"))
    rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.queue.add(make_pod("a"))
    assert rig.fail(rig.pop(), "Fit") is Subqueue.UNSCHEDULABLE


def test_a_pending_plugin_skips_the_backoff() -> None:
    """What a plugin was only waiting for has come: the pod is active at once, whoever else was helped before."""
    rig = Rig({"Fit": ON_NODE_ADD, "Waiter": (on(Resource.PERSISTENT_VOLUME, Action.ADD),)})
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert rig.fail(queued, "Fit", pending=["Waiter"]) is Subqueue.ACTIVE


def test_a_pod_that_missed_events_is_tried_again() -> None:
    """Where it cannot be known whether something helped, it is supposed that it did."""
    rig = Rig({"Fit": BY_COLOR})
    rig.queue.add(make_pod("a", labels={"color": "red"}))
    queued = rig.pop()
    for _ in range(InFlight.LIMIT + 1):
        rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert rig.fail(queued, "Fit") is Subqueue.BACKOFF


def test_an_update_in_flight_may_be_what_helps() -> None:
    """A pod that was changed while it was tried comes back changed, and the change is an event for it alone."""
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
    """`activate` for a pod in flight is remembered for it, and for it alone."""
    rig = Rig({"Fit": BY_COLOR})
    for name in "ab":
        rig.queue.add(make_pod(name))
    a, b = rig.pop(), rig.pop()
    rig.queue.activate([a.pod])
    assert rig.fail(b, "Fit") is Subqueue.UNSCHEDULABLE
    assert rig.fail(a, "Fit") is Subqueue.BACKOFF
    assert not +rig.metrics.in_flights


def test_a_pod_deleted_in_flight_does_not_come_back() -> None:
    """It was deleted, or bound by somebody else; taking it back would schedule a ghost."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.delete(queued.pod)
    assert rig.fail(queued, "Fit") is None
    assert len(rig.queue) == 0
    assert not +rig.metrics.in_flights
    assert not +rig.metrics.reasons


def test_a_pod_recreated_in_flight_is_a_new_pod() -> None:
    """The old one is not taken back, the new one starts from nothing."""
    rig = Rig()
    old, new = make_pod("a", uid="1"), make_pod("a", uid="2")
    rig.queue.add(old)
    queued = rig.pop()
    rig.queue.update(old, new)
    assert rig.fail(queued, "Fit") is None
    assert rig.subqueue("1") is None
    assert rig.pop().attempts == 1


def test_a_pod_that_reappears_in_flight_is_taken_back() -> None:
    """A deletion that turns out to be none, for an add of the same pod follows, is forgotten."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.delete(queued.pod)
    rig.queue.add(make_pod("a"))
    assert rig.queue.pop() is None
    assert rig.fail(queued, "Fit") is Subqueue.UNSCHEDULABLE


def test_a_pod_cannot_be_taken_back_twice() -> None:
    """The second time it is in the queue already, which is reported and changes nothing."""
    rig = Rig()
    queued = rig.reject(make_pod("a"), "Fit")
    assert rig.fail(queued, "Fit") is None
    assert len(rig.queue) == 1
    assert rig.errors()


def test_a_pod_that_was_never_popped_can_still_be_taken_back() -> None:
    """Something is wrong with whoever does it, but the pod is not to suffer: it backs off."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.done(queued.uid)
    assert rig.fail(queued, "Fit") is Subqueue.BACKOFF
