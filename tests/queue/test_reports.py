"""The queue's log and metrics: upstream's messages, keys and counts."""

from tests.queue.support import ON_NODE_ADD, PROFILE, Rig, closed_gate, make_node, make_pod

from kubesched.api import objects as api
from kubesched.framework.events import NODE_ADD, Action, Hint, Resource, on
from kubesched.queue.hooks import NoMetrics

MOVED = "Pod moved to an internal scheduling queue"


def skip(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    return Hint.SKIP


def said(rig: Rig) -> list[tuple[int, str, dict[str, object]]]:
    """The messages, with pod names in place of pods."""
    return [
        (level, message, {k: v.name if isinstance(v, api.Pod) else v for k, v in fields.items()})
        for level, message, fields in rig.messages
    ]


def test_the_life_of_a_pod_is_logged_as_upstream() -> None:
    """Arrival, failure, an event that does not help, one that does, and the end of the backoff are logged as
    upstream.
    """
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD),), "Other": (on(Resource.NODE, Action.DELETE, skip),)})
    queued = rig.reject(make_pod("a"), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.clock.time += 2
    rig.queue.flush_backoff()
    assert said(rig) == [
        (5, MOVED, {"pod": "a", "event": "UnschedulablePodAdd", "queue": "Active"}),
        (
            5,
            "Checking events for in-flight pod",
            {"pod": "a", "unschedulablePlugins": {"Fit"}, "inFlightEventsSize": 0, "inFlightPodsSize": 1},
        ),
        (
            3,
            MOVED,
            {
                "pod": "a",
                "event": "ScheduleAttemptFailure",
                "queue": "Unschedulable",
                "schedulingCycle": 1,
                "hint": 0,
                "unschedulable plugins": {"Fit"},
            },
        ),
        (5, MOVED, {"pod": "a", "event": "NodeAdd", "queue": "Backoff"}),
        (5, MOVED, {"pod": "a", "event": "BackoffComplete", "queue": "Active"}),
    ]
    assert repr(queued) == "QueuedPodInfo(default/a, attempts=1)"


def test_gates_and_updates_are_logged() -> None:
    """The log shows that a moved pod is gated, and that an update released it."""
    rig = Rig({"Gate": (on(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),)}, closed_gate)
    rig.queue.add(make_pod("a", gates=["g"]))
    rig.queue.update(make_pod("a", gates=["g"]), make_pod("a"))
    event = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
    assert [(level, message, fields.get("event")) for level, message, fields in said(rig)] == [
        (4, "Status after running PreEnqueue plugin", None),
        (5, f"{MOVED}, because the pod is gated", "UnschedulablePodAdd"),
        (5, MOVED, event),
        (5, f"{MOVED} because the Pod is updated", event),
    ]


def test_events_that_do_not_help_or_come_in_flight_are_logged() -> None:
    """At verbosity 5 the log shows why a pod stays, and that an event is kept."""
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, skip),)})
    rig.reject(make_pod("a"), "Fit")
    rig.queue.add(make_pod("b"))
    rig.pop()
    rig.messages.clear()
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert said(rig) == [
        (5, "Event is not making pod schedulable", {"pod": "a", "event": "NodeAdd"}),
        (5, "Event received while pods are in flight", {"event": "NodeAdd"}),
    ]


def test_arrivals_are_counted_by_queue_and_event() -> None:
    """scheduler_queue_incoming_pods_total counts every arrival with its cause."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.reject(make_pod("a"), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.clock.time += 2
    rig.queue.flush_backoff()
    assert rig.metrics.incomings == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_hints_are_timed() -> None:
    """scheduler_queueing_hint_execution_duration_seconds has the plugin, event, result and duration."""
    rig = Rig()

    def slow(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        rig.clock.time += 0.5
        return Hint.QUEUE

    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, slow),), "Taints": (on(Resource.NODE, Action.ADD, skip),)})
    rig.reject(make_pod("a"), "Taints", "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert sorted(rig.metrics.hints) == [("Fit", "NodeAdd", "Queue", 0.5)]
    rig.reject(make_pod("b"), "Taints")
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.metrics.hints[-1] == ("Taints", "NodeAdd", "QueueSkip", 0.0)


def test_events_kept_for_pods_in_flight_are_counted() -> None:
    """scheduler_inflight_events goes up and returns to zero."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.queue.add(make_pod("a"))
    rig.pop()
    rig.queue.move_all(NODE_ADD, None, make_node())
    rig.queue.update(make_pod("a"), make_pod("a", tolerations=1))
    assert rig.metrics.in_flights == {"PodPopped": 1, "NodeAdd": 1, "UnschedulablePodUpdatePodToleration": 1}
    rig.queue.done("a")
    assert not +rig.metrics.in_flights


def test_pods_are_counted_by_the_plugins_they_wait_for() -> None:
    """scheduler_unschedulable_pods counts a pod until it is retried or deleted."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.reject(make_pod("a"), "Fit", "Taints", pending=["Waiter"])
    rig.reject(make_pod("b"), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.metrics.reasons == {("Fit", PROFILE): 2, ("Taints", PROFILE): 1, ("Waiter", PROFILE): 1}
    rig.queue.delete(make_pod("b"))
    assert rig.metrics.reasons["Fit", PROFILE] == 1
    rig.pop()
    assert not +rig.metrics.reasons


def test_metrics_and_log_are_optional() -> None:
    """The queue works without metrics and log."""
    metrics = NoMetrics()
    metrics.incoming("active", "x")
    metrics.pending("active", 1)
    metrics.in_flight("x", 1)
    metrics.hint("p", "x", "Queue", 0.0)
    metrics.unschedulable("p", PROFILE, 1)
