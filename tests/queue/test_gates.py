"""PreEnqueue: gated pods wait until their gate opens, without depending on a flush."""

from tests.queue.support import ON_NODE_ADD, PROFILE, Rig, closed_gate, make_node, make_pod

from kubesched.api import objects as api
from kubesched.framework.errors import PluginError
from kubesched.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource, on
from kubesched.framework.status import Status, unresolvable
from kubesched.queue.hooks import Subqueue

VOLUME_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)


def own_gates_gone(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP


GATE = (on(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, own_gates_gone),)


class Door:
    """A PreEnqueue plugin that blocks pods until it is opened, and counts its calls."""

    def __init__(self) -> None:
        self.shut = True
        self.knocks = 0

    def __call__(self, pod: api.Pod) -> Status | None:
        self.knocks += 1
        return unresolvable("shut").by("Door") if self.shut else None


def test_a_gated_pod_waits() -> None:
    """A pod that PreEnqueue blocks is kept in the queue but cannot be popped."""
    rig = Rig({"Gate": GATE}, closed_gate)
    rig.queue.add(make_pod("a", gates=["g"]))
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE
    assert rig.queue.pop() is None
    assert rig.wakeups == 0
    assert [pod.name for pod in rig.queue.pod_lists().gated] == ["a"]
    assert rig.metrics.pendings == {"gated": 1}
    assert rig.metrics.reasons == {("Gate", PROFILE): 1}


def test_the_last_gate_removed_lets_a_pod_go() -> None:
    """Removing the last gate makes the pod active, and its scheduling time starts then; removing an earlier one
    does not.
    """
    rig = Rig({"Gate": GATE}, closed_gate)
    two, one, none = make_pod("a", gates=["g", "h"]), make_pod("a", gates=["h"]), make_pod("a")
    rig.queue.add(two)
    rig.queue.update(two, one)
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE
    rig.clock.time += 60
    rig.queue.update(one, none)
    assert rig.subqueue("a") is Subqueue.ACTIVE
    assert rig.wakeups == 1
    queued = rig.pop()
    assert (queued.pod, queued.gated) == (none, False)
    assert (queued.timestamp, queued.initial_attempt_timestamp) == (100.0, 160.0)
    assert not +rig.metrics.reasons


def test_a_gate_that_a_backup_brings_back_keeps_the_pod() -> None:
    """A pod in backoff or ready to be popped waits for its gate again."""
    open_, closed = make_pod("a"), make_pod("a", gates=["g"])
    for failed in (False, True):
        rig = Rig({"Gate": GATE}, closed_gate)
        rig.queue.add(open_)
        if failed:
            rig.queue.add_unschedulable_if_not_present(rig.pop())
            assert rig.subqueue("a") is Subqueue.BACKOFF
        rig.queue.update(open_, closed)
        assert [pod.name for pod in rig.queue.pod_lists().gated] == ["a"]
        assert rig.queue.pop() is None


def test_a_gated_pod_is_not_bothered_by_events_that_cannot_open_its_gate() -> None:
    """A gated pod is not checked for events that cannot open its gate, even those of a plugin that rejected it
    earlier.
    """
    door = Door()
    rig = Rig({"Fit": ON_NODE_ADD, "Door": (on(Resource.PERSISTENT_VOLUME, Action.ADD),)}, door)
    door.shut = False
    rig.reject(make_pod("a"), "Fit")
    door.shut = True
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.pop_names() == []
    knocks = door.knocks
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert door.knocks == knocks
    door.shut = False
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_a_gate_is_asked_again_at_every_enqueue() -> None:
    """A pod that passed PreEnqueue once may be blocked when it returns to the queue."""
    door = Door()
    door.shut = False
    rig = Rig({}, door)
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    door.shut = True
    assert rig.fail(queued) is Subqueue.UNSCHEDULABLE
    assert queued.gating_plugin == "Door"


def test_a_gate_is_not_asked_when_backoff_ends() -> None:
    """PreEnqueue runs before the backoff and not after it, because a pod in backoff may be popped directly."""
    door = Door()
    door.shut = False
    rig = Rig({}, door)
    rig.queue.add(make_pod("a"))
    rig.fail(rig.pop())
    door.shut = True
    rig.clock.time += 2
    rig.queue.flush_backoff()
    assert rig.subqueue("a") is Subqueue.ACTIVE


def test_activation_does_not_open_a_gate() -> None:
    """`activate` does not bypass PreEnqueue."""
    rig = Rig({"Gate": GATE}, closed_gate)
    rig.queue.add(make_pod("a", gates=["g"]))
    rig.queue.activate([make_pod("a")])
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE
    assert rig.wakeups == 0


def test_a_flush_runs_pre_enqueue_again() -> None:
    """A flush runs PreEnqueue again, so that incomplete registrations do not block a pod for ever; a pod that is
    still blocked waits for the next flush.
    """
    door = Door()
    rig = Rig({}, door)
    rig.queue.add(make_pod("a"))
    rig.clock.time += 301
    rig.queue.flush_unschedulable()
    assert door.knocks == 2
    rig.clock.time += 299
    rig.queue.flush_unschedulable()
    assert door.knocks == 2
    door.shut = False
    rig.clock.time += 2
    rig.queue.flush_unschedulable()
    assert rig.subqueue("a") is Subqueue.ACTIVE
    assert rig.pop().was_flushed


def test_a_plugin_that_raises_gates_the_pod() -> None:
    """An exception blocks the pod, is logged with the plugin's name, and the pod is not lost."""

    def broken(pod: api.Pod) -> Status | None:
        raise PluginError("Breaker", "PreEnqueue", "out of order")

    rig = Rig({"Breaker": ON_NODE_ADD}, broken)
    rig.queue.add(make_pod("a"))
    queued = rig.queue.get("a")
    assert queued is not None
    assert queued.gating_plugin == "Breaker"
    assert rig.errors() == ["Unexpected error running PreEnqueue plugin"]
    assert rig.messages[0][2]["plugin"] == "Breaker"


def test_any_other_exception_gates_the_pod_too() -> None:
    """An exception from outside a plugin blocks the pod until the next flush."""

    def broken(pod: api.Pod) -> Status | None:
        raise ZeroDivisionError("oops")

    rig = Rig({}, broken)
    rig.queue.add(make_pod("a"))
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE
    assert rig.messages[0][2]["err"] == "ZeroDivisionError: oops"


def test_a_gated_pod_can_be_deleted() -> None:
    """A deleted gated pod leaves no trace in any count."""
    rig = Rig({"Gate": GATE}, closed_gate)
    rig.queue.add(make_pod("a", gates=["g"]))
    rig.queue.delete(make_pod("a"))
    assert len(rig.queue) == 0
    assert not +rig.metrics.pendings
    assert not +rig.metrics.reasons


def test_a_rejected_pod_that_is_then_gated_waits_for_its_gate() -> None:
    """The counts follow the pod from unschedulable to gated and to backoff."""
    door = Door()
    rig = Rig({"Fit": ON_NODE_ADD, "Door": (on(Resource.PERSISTENT_VOLUME, Action.ADD),)}, door)
    door.shut = False
    rig.reject(make_pod("a"), "Fit")
    assert +rig.metrics.pendings == {"unschedulable": 1}
    door.shut = True
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert +rig.metrics.pendings == {"gated": 1}
    assert +rig.metrics.reasons == {("Fit", PROFILE): 1, ("Door", PROFILE): 1}
    door.shut = False
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert +rig.metrics.pendings == {"backoff": 1}
    rig.pop()
    assert not +rig.metrics.reasons


def test_an_event_that_cannot_open_a_gate_skips_gated_pods() -> None:
    """PreEnqueue is not run again for an event registered with ``gated=False``, only for the others."""
    door = Door()
    rig = Rig({"Door": (on(Resource.NODE, Action.ADD, gated=False), on(Resource.PERSISTENT_VOLUME, Action.ADD))}, door)
    rig.queue.add(make_pod("a"))
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert door.knocks == 1
    rig.queue.move_all(VOLUME_ADD, None, make_node())
    assert door.knocks == 2
