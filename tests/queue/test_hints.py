"""Events and hints: which hints are called, which pods are woken, and that a failing hint wakes its pod."""

from typing import Any

import pytest
from tests.queue.support import ON_NODE_ADD, Rig, make_node, make_pod

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventHint,
    Hint,
    Resource,
    on,
)
from kubesched.queue.hooks import Subqueue

NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
VOLUME_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)
ON_VOLUME_ADD = (on(Resource.PERSISTENT_VOLUME, Action.ADD),)


class Colors:
    """A hint that records its calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        self.asked.append(pod.name)
        assert new is not None
        return Hint.QUEUE if pod.labels.get("color") == new.labels.get("color") else Hint.SKIP


def broken(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    raise SystemExit("no idea")


def test_an_event_wakes_the_pods_it_helps() -> None:
    """The hint decides for each pod; a pod that is not helped stays."""
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, Colors()),)})
    for color in ("red", "blue"):
        rig.reject(make_pod(color, labels={"color": color}), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node(color="red"))
    assert rig.subqueue("red") is Subqueue.BACKOFF
    assert rig.subqueue("blue") is Subqueue.UNSCHEDULABLE


def test_only_plugins_that_rejected_a_pod_are_asked_about_it() -> None:
    """A hint is called only for pods that its plugin rejected."""
    fit, taints = Colors(), Colors()
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, fit),), "Taints": (on(Resource.NODE, Action.ADD, taints),)})
    rig.reject(make_pod("a", labels={"color": "red"}), "Fit")
    rig.reject(make_pod("b", labels={"color": "red"}), "Taints")
    rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert (fit.asked, taints.asked) == (["a"], ["b"])


def test_any_one_of_several_plugins_may_wake_a_pod() -> None:
    """A pod that two plugins rejected is retried when either of them is helped."""
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, Colors()),), "Taints": ON_NODE_ADD})
    rig.reject(make_pod("a", labels={"color": "red"}), "Fit", "Taints")
    rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_an_unregistered_event_wakes_no_pods() -> None:
    """An event that no plugin registered for wakes no pods."""
    rig = Rig({"Fit": ON_NODE_ADD})
    rig.reject(make_pod("a"), "Fit")
    rig.queue.move_all(NODE_DELETE, make_node(), None)
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE


def test_a_registration_without_hint_always_helps() -> None:
    """An event registered without a hint always wakes the pod."""
    rig = Rig({"Volumes": ON_VOLUME_ADD})
    rig.reject(make_pod("a"), "Volumes")
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_a_broken_hint_wakes_the_pod() -> None:
    """A hint that raises is logged with its plugin's name, and the pod is retried."""
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, broken),)})
    rig.reject(make_pod("a"), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.subqueue("a") is Subqueue.BACKOFF
    assert rig.errors() == ["QueueingHintFn returns error"]
    assert rig.metrics.hints[-1][:3] == ("Fit", "NodeAdd", "Error")


def test_what_a_pending_plugin_waited_for_skips_the_backoff() -> None:
    """A pod with a plugin's Pending status becomes active as soon as that plugin is helped."""
    rig = Rig({"Fit": ON_NODE_ADD, "Waiter": ON_VOLUME_ADD})
    rig.reject(make_pod("a"), "Fit", pending=["Waiter"])
    rig.queue.move_all(VOLUME_ADD, None, None)
    assert rig.subqueue("a") is Subqueue.ACTIVE


def test_helping_another_plugin_than_the_pending_one_leaves_the_backoff() -> None:
    """Helping a plugin other than the pending one does not skip the backoff."""
    rig = Rig({"Fit": ON_NODE_ADD, "Waiter": ON_VOLUME_ADD})
    rig.reject(make_pod("a"), "Fit", pending=["Waiter"])
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_a_wildcard_event_wakes_everyone() -> None:
    """The wildcard event also wakes pods whose plugins registered no events."""
    rig = Rig()
    rig.reject(make_pod("a"), "Deaf")
    rig.queue.move_all(UNSCHEDULABLE_TIMEOUT, None, None)
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_a_wildcard_event_may_name_its_pod() -> None:
    """A wildcard event with a pod wakes only that pod."""
    rig = Rig()
    for name in "ab":
        rig.reject(make_pod(name), "Deaf")
    rig.queue.move_all(UNSCHEDULABLE_TIMEOUT, None, make_pod("b"))
    assert (rig.subqueue("a"), rig.subqueue("b")) == (Subqueue.UNSCHEDULABLE, Subqueue.BACKOFF)


def test_an_event_may_be_for_some_pods_only() -> None:
    """The caller's check runs before any hint: a deleted nominated pod does not help pods of higher priority."""
    rig = Rig({"Fit": (on(Resource.POD, Action.DELETE),)})
    rig.reject(make_pod("low", priority=1), "Fit")
    rig.reject(make_pod("high", priority=9), "Fit")
    rig.queue.move_all(ASSIGNED_POD_DELETE, make_pod("gone"), None, check=lambda pod: pod.priority <= 5)
    assert (rig.subqueue("low"), rig.subqueue("high")) == (Subqueue.BACKOFF, Subqueue.UNSCHEDULABLE)


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        (ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), True),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL), True),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), False),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), False),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE), False),
    ],
)
def test_pod_events_are_matched_precisely(event: ClusterEvent, woken: bool) -> None:
    """A plugin that registered for labels gets no events for requests or for generic updates."""
    rig = Rig({"Affinity": (on(Resource.POD, Action.ADD | Action.UPDATE_POD_LABEL),)})
    rig.reject(make_pod("a"), "Affinity")
    rig.queue.move_all(event, make_pod("x", node="n"), make_pod("x", node="n"))
    assert (rig.subqueue("a") is Subqueue.BACKOFF) is woken


def test_assigned_pods_come_change_and_go_as_events() -> None:
    """The three calls for bound pods send the three kinds of events, with updates as specific as possible."""
    heard: list[str] = []

    def listen(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        heard.append(f"{old.name if old else '-'} {new.name if new else '-'}")
        return Hint.SKIP

    actions = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
    rig = Rig({"Affinity": (on(Resource.POD, actions, listen),)})
    rig.reject(make_pod("a"), "Affinity")
    bound = make_pod("x", node="n")
    rig.queue.assigned_pod_added(bound)
    rig.queue.assigned_pod_updated(bound, make_pod("x", node="n", labels={"new": "label"}))
    rig.queue.assigned_pod_updated(bound, make_pod("x", node="n", tolerations=1))
    rig.queue.assigned_pod_deleted(bound)
    assert heard == ["- x", "x x", "x -"]


def by_class(hint: Colors) -> tuple[EventHint, ...]:
    return (on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint, by_class=True),)


def test_a_hint_by_class_is_asked_once_per_class() -> None:
    """A hint by class is called once per class, and its result applies to all pods of the class."""
    hint = Colors()
    rig = Rig({"Fit": by_class(hint)})
    rig.log.verbosity = 4
    for number in range(20):
        rig.reject(make_pod(f"p{number}", labels={"color": "red" if number % 2 else "blue"}), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node(color="red"))
    assert len(hint.asked) == 2
    assert len(rig.queue.pod_lists().unschedulable) == len(rig.queue.pod_lists().backoff) == 10
    rig.queue.move_all(NODE_LABEL, None, make_node(color="blue"))
    assert len(hint.asked) == 3
    assert len(rig.queue.pod_lists().backoff) == 20


def test_at_verbosity_5_a_hint_is_asked_for_every_pod() -> None:
    """Hints log why an event helps a pod, as upstream's do: so each pod needs its own call, also one that `only` and
    its class would have left out.
    """
    hint = Colors()
    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, hint, by_class=True, only=lambda old, new: ()),)})
    rig.log.verbosity = 5
    for number in range(20):
        rig.reject(make_pod(f"p{number}", labels={"color": "red"}), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert sorted(hint.asked) == sorted(f"p{number}" for number in range(20))


def test_a_class_skipped_by_one_plugin_is_still_another_plugins() -> None:
    """A class skipped by one plugin's hint is still checked by another plugin's."""
    hint = Colors()
    rig = Rig({"Fit": by_class(hint), "Taints": (on(Resource.NODE, Action.ADD, broken),)})
    rig.reject(make_pod("a", labels={"color": "red"}), "Fit", "Taints")
    rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_a_pod_that_changed_its_class_is_asked_about_as_it_is_now() -> None:
    """A pod whose update changed its class is checked under its new class."""
    hint = Colors()
    rig = Rig({"Fit": by_class(hint)})
    old, new = make_pod("a", labels={"color": "red"}), make_pod("a", labels={"color": "blue"})
    rig.reject(old, "Fit")
    rig.queue.update(old, new)
    assert rig.subqueue("a") is Subqueue.UNSCHEDULABLE
    rig.queue.move_all(NODE_ADD, None, make_node(color="blue"))
    assert rig.subqueue("a") is Subqueue.BACKOFF


def test_a_hint_by_spec_is_asked_once_for_all_labels() -> None:
    """A hint that reads the spec alone is called once for pods that differ only in labels and namespace."""
    asked: list[str] = []

    def tolerant(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        asked.append(pod.name)
        return Hint.QUEUE if pod.spec.tolerations else Hint.SKIP

    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, tolerant, by_spec=True),)})
    rig.log.verbosity = 4
    for number in range(20):
        rig.reject(make_pod(f"p{number}", labels={"own": str(number)}, tolerations=number % 2), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert len(asked) == 2
    assert {each.name for each in rig.queue.pod_lists().backoff} == {f"p{number}" for number in range(1, 20, 2)}


@pytest.mark.parametrize("answer", [RuntimeError("broken"), "a-uid", 7], ids=["raises", "text", "number"])
def test_a_plugin_that_cannot_name_its_pods_harms_nothing(answer: object) -> None:
    """If `only` raises or returns nonsense, the failure is logged and every pod of the plugin is checked."""

    def broken_only(old: api.Object | None, new: api.Object | None) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    rig = Rig({"Fit": (on(Resource.NODE, Action.ADD, only=broken_only),)})
    rig.log.verbosity = 4
    rig.reject(make_pod("a"), "Fit")
    rig.queue.move_all(NODE_ADD, None, make_node())
    assert rig.subqueue("a") is Subqueue.BACKOFF
    assert any(fields.get("plugin") == "Fit" for level, _, fields in rig.messages if level == ERROR)
