"""Random events against a simple model: no pod is lost, duplicated, or left waiting after an event that helps it.

The model has no heaps or classes. It keeps one state per pod and computes the next state from the rules alone:

- ready: active or backing off, so that it will be tried without any event;
- waits: for an event that helps one of the plugins that rejected it;
- gated: for PreEnqueue to admit it;
- flying: popped, with the events since then; perhaps deleted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import floor

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.queue.support import PROFILE, Rig, make_node, make_pod

from kubesched.api import objects as api
from kubesched.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource, on
from kubesched.framework.status import Status, unresolvable
from kubesched.queue.hooks import Subqueue
from kubesched.queue.pods import QueuedPodInfo

COLORS = ("red", "blue")
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
VOLUME_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)
CSI_NODE_ADD = ClusterEvent(Resource.CSI_NODE, Action.ADD)
CLASS_ADD = ClusterEvent(Resource.STORAGE_CLASS, Action.ADD)
EVENTS = (NODE_ADD, NODE_LABEL, VOLUME_ADD, CSI_NODE_ADD, CLASS_ADD)


def same_color(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.labels["color"] == pod.labels["color"] else Hint.SKIP


def odd_or_even(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.labels["color"] == parity(pod) else Hint.SKIP


def parity(pod: api.Pod) -> str:
    """A color derived from the pod's name, which its class does not determine."""
    return COLORS[int(pod.name.removeprefix("p")) % 2]


def itself(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP


REGISTRATIONS = {
    "Class": (
        on(Resource.NODE, Action.ADD, same_color, by_class=True),
        on(Resource.POD, Action.UPDATE_POD_LABEL, itself, by_class=True),
    ),
    "Single": (on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, odd_or_even),),
    "Waiter": (on(Resource.PERSISTENT_VOLUME, Action.ADD),),
    "Deaf": (),
    "Gates": (on(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, itself),),
    "Door": (on(Resource.CSI_NODE, Action.ADD, same_color),),
}

REJECTORS = st.sets(st.sampled_from(["Class", "Single", "Waiter", "Deaf"]), max_size=2)


@dataclass
class Heard:
    """An event as the model sees it, and the pod it is for, if it is for one pod only."""

    event: ClusterEvent | None
    color: str = ""
    target: str = ""


@dataclass
class ModelPod:
    """The expected state of a pod."""

    pod: api.Pod
    since: float
    state: str = ""
    rejectors: set[str] = field(default_factory=set)
    gate: str = ""
    heard: list[Heard] = field(default_factory=list)
    gone: bool = False

    @property
    def color(self) -> str:
        return self.pod.labels["color"]


def helps(plugin: str, heard: Heard, pod: ModelPod) -> bool:
    """The registrations above as plain conditions. No event means any event."""
    event, own = heard.event, heard.target == pod.pod.uid
    if event is None:
        return not heard.target or own
    match = heard.color == pod.color
    if plugin == "Class":
        return (event == NODE_ADD and match) or (own and event.action == Action.UPDATE_POD_LABEL)
    if plugin == "Single":
        return event in (NODE_ADD, NODE_LABEL) and heard.color == parity(pod.pod)
    if plugin == "Waiter":
        return event == VOLUME_ADD
    if plugin == "Gates":
        return own and event.action == Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if plugin == "Door":
        return event == CSI_NODE_ADD and match
    return False


class QueueMachine(RuleBasedStateMachine):
    """Drives the queue and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.shut: set[str] = set()
        self.rig = Rig(REGISTRATIONS, self.pre_enqueue, on_ready=self.wake)
        self.model: dict[str, ModelPod] = {}
        self.flying: dict[str, QueuedPodInfo] = {}
        self.awake = True
        self.made = 0

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        plugin = self.closed(pod)
        return unresolvable("not yet").by(plugin) if plugin else None

    def closed(self, pod: api.Pod) -> str:
        if pod.spec.scheduling_gates:
            return "Gates"
        return "Door" if pod.labels["color"] in self.shut else ""

    def wake(self) -> None:
        self.awake = True

    # Transitions of the model

    def knock(self, pod: ModelPod) -> None:
        """Make the pod ready, if PreEnqueue allows it."""
        pod.gate = self.closed(pod.pod)
        if pod.gate:
            pod.state = "gated"
            pod.rejectors.add(pod.gate)
        else:
            pod.state = "ready"

    def hear(self, heard: Heard) -> None:
        """Apply an event to all pods."""
        for pod in self.model.values():
            if pod.state == "flying":
                pod.heard.append(heard)
            elif pod.state in ("waits", "gated") and self.frees(pod, heard):
                self.knock(pod)

    def frees(self, pod: ModelPod, heard: Heard) -> bool:
        """Whether an event is a reason to retry a pod; for a gated pod only its gate's registration counts."""
        asked = pod.rejectors if pod.state == "waits" else {pod.gate}
        return any(helps(plugin, heard, pod) for plugin in asked)

    def hear_own(self, pod: ModelPod, heard: Heard) -> None:
        """Apply an event to one pod; a gated one may also be moved by plugins that rejected it before."""
        if pod.state == "flying":
            pod.heard.append(heard)
        elif pod.state in ("waits", "gated") and any(helps(plugin, heard, pod) for plugin in pod.rejectors):
            self.knock(pod)

    def pick(self, data: st.DataObject, *states: str) -> ModelPod:
        uids = [uid for uid, pod in self.model.items() if not states or pod.state in states]
        return self.model[data.draw(st.sampled_from(uids))]

    # Steps

    @initialize(time=st.floats(0, 5), colors=st.lists(st.sampled_from(COLORS), min_size=2, max_size=6))
    def start(self, time: float, colors: list[str]) -> None:
        self.rig.clock.time = 100 + time
        for color in colors:
            self.add(color, 0, 0)

    @rule(color=st.sampled_from(COLORS), priority=st.integers(0, 2), gates=st.integers(0, 2))
    def add(self, color: str, priority: int, gates: int) -> None:
        self.made += 1
        names = [f"g{n}" for n in range(gates)]
        pod = make_pod(f"p{self.made}", priority=priority, labels={"color": color}, gates=names)
        self.rig.queue.add(pod)
        self.model[pod.uid] = ModelPod(pod, self.rig.clock.time)
        self.knock(self.model[pod.uid])

    @rule()
    def pop(self) -> None:
        lists = self.rig.queue.pod_lists()
        queued = self.rig.queue.pop()
        if queued is None:
            assert not lists.active
            self.awake = False
            return
        pod = self.model[queued.uid]
        assert (pod.state, pod.pod) == ("ready", queued.pod)
        if lists.active:
            assert pod.pod.priority == max(other.priority for other in lists.active)
        pod.state, pod.heard, pod.rejectors = "flying", [], set()
        self.flying[queued.uid] = queued

    @rule(data=st.data(), rejectors=REJECTORS)
    def pop_and_fail(self, data: st.DataObject, rejectors: set[str]) -> None:
        """An attempt without events in flight, which is the usual case."""
        before = set(self.flying)
        self.pop()
        for uid in set(self.flying) - before:
            self.fail_one(data, self.model[uid], rejectors)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), rejectors=REJECTORS)
    def fail(self, data: st.DataObject, rejectors: set[str]) -> None:
        self.fail_one(data, self.pick(data, "flying"), rejectors)

    def fail_one(self, data: st.DataObject, pod: ModelPod, rejectors: set[str]) -> None:
        uid = pod.pod.uid
        queued = self.flying.pop(uid)
        pending = rejectors & {"Waiter"}
        queued.rejected_by(rejectors - pending, pending)
        subqueue = self.rig.queue.add_unschedulable_if_not_present(queued)
        self.rig.queue.nominate(queued.info, data.draw(st.sampled_from(["", "node"])))
        if pod.gone:
            assert subqueue is None
            del self.model[uid]
            return
        pod.rejectors = set(rejectors)
        pod.since = self.rig.clock.time
        if not rejectors or any(helps(plugin, heard, pod) for heard in pod.heard for plugin in rejectors):
            self.knock(pod)
            if (
                pod.state == "ready"
                and "Waiter" in rejectors
                and any(helps("Waiter", h, pod) for h in pod.heard if h.event)
            ):
                assert subqueue is Subqueue.ACTIVE
        else:
            pod.state = "waits"

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        self.land(self.pick(data, "flying").pod.uid)

    def land(self, uid: str) -> None:
        del self.flying[uid], self.model[uid]
        self.rig.cluster.nominations.remove(uid)
        self.rig.queue.done(uid)

    @rule(event=st.sampled_from(EVENTS), color=st.sampled_from(COLORS))
    def happen(self, event: ClusterEvent, color: str) -> None:
        self.rig.queue.move_all(event, None, make_node(color=color))
        self.hear(Heard(event, color))

    @rule(color=st.sampled_from(COLORS), reopen=st.booleans())
    def turn_door(self, color: str, reopen: bool) -> None:
        """Close or open the gate for a color; pods are checked again only on the next event."""
        (self.shut.discard if reopen else self.shut.add)(color)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), color=st.sampled_from(COLORS), gates=st.integers(0, 1))
    def update(self, data: st.DataObject, color: str, gates: int) -> None:
        pod = self.pick(data)
        if pod.gone:
            return
        old = pod.pod
        kept = [gate.name for gate in old.spec.scheduling_gates][:gates]
        new = make_pod(old.name, priority=old.priority, labels={"color": color}, gates=kept)
        self.rig.queue.update(old, new)
        pod.pod = new
        changes = [Action.UPDATE_POD_LABEL] if old.labels != new.labels else []
        if old.spec.scheduling_gates and not kept:
            changes.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        for change in changes:
            self.hear_own(pod, Heard(ClusterEvent(Resource.UNSCHEDULED_POD, change), target=new.uid))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        pod = self.pick(data)
        self.rig.queue.delete(pod.pod)
        if pod.state == "flying":
            pod.gone = True
        else:
            del self.model[pod.pod.uid]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        pod = self.pick(data)
        self.rig.queue.activate([pod.pod])
        if pod.state == "flying":
            pod.heard.append(Heard(None, target=pod.pod.uid))
        elif pod.state != "ready":
            self.knock(pod)
        if pod.state == "ready":
            assert self.rig.subqueue(pod.pod) is Subqueue.ACTIVE

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5, 12.0]))
    def flush_backoff(self, seconds: float) -> None:
        self.rig.clock.time += seconds
        self.rig.queue.flush_backoff()
        for pod in self.model.values():
            if pod.state == "ready" and floor(pod.since + 10) < floor(self.rig.clock.time):
                assert self.rig.subqueue(pod.pod) is Subqueue.ACTIVE

    @rule(seconds=st.sampled_from([10.0, 301.0]))
    def flush_unschedulable(self, seconds: float) -> None:
        self.rig.clock.time += seconds
        now = self.rig.clock.time
        self.rig.queue.flush_unschedulable()
        late = [p for p in self.model.values() if p.state in ("waits", "gated") and now - p.since > 300]
        for pod in late:
            pod.since = now
            self.knock(pod)
        if late:
            for pod in self.model.values():
                if pod.state == "flying":
                    pod.heard.append(Heard(None))

    # Invariants

    @invariant()
    def every_pod_is_where_it_should_be(self) -> None:
        lists = self.rig.queue.pod_lists()
        subqueues = {
            "ready": [*lists.active, *lists.backoff],
            "waits": lists.unschedulable,
            "gated": lists.gated,
            "flying": lists.in_flight,
        }
        found = sorted((pod.uid, state) for state, pods in subqueues.items() for pod in pods)
        assert found == sorted((uid, pod.state) for uid, pod in self.model.items())
        for pods in subqueues.values():
            for pod in pods:
                assert pod == self.model[pod.uid].pod

    @invariant()
    def whoever_waits_for_pods_has_been_woken(self) -> None:
        assert self.awake or not self.rig.queue.ready

    @invariant()
    def counts_agree(self) -> None:
        lists, metrics = self.rig.queue.pod_lists(), self.rig.metrics
        sizes = {
            "active": len(lists.active),
            "backoff": len(lists.backoff),
            "unschedulable": len(lists.unschedulable),
            "gated": len(lists.gated),
        }
        assert +metrics.pendings == +Counter(sizes)
        reasons: Counter[tuple[str, str]] = Counter()
        for uid in self.model:
            queued = self.rig.queue.get(uid)
            if queued is not None:
                reasons.update((plugin, PROFILE) for plugin in queued.rejectors)
        assert +metrics.reasons == reasons
        assert metrics.in_flights["PodPopped"] == len(lists.in_flight)
        if not lists.in_flight:
            assert not +metrics.in_flights

    @invariant()
    def no_ghost_is_nominated(self) -> None:
        nominated = {info.pod.uid for info in self.rig.cluster.nominations.on("node")}
        assert nominated <= {uid for uid, pod in self.model.items() if not pod.gone}

    def teardown(self) -> None:
        """Open every gate and let all time pass: each pod is popped exactly once."""
        self.shut.clear()
        for uid in list(self.flying):
            self.land(uid)
        for pod in self.model.values():
            if pod.pod.spec.scheduling_gates:
                self.rig.queue.update(pod.pod, make_pod(pod.pod.name, labels=pod.pod.labels))
        self.rig.clock.time += 1000
        self.rig.queue.flush_unschedulable()
        self.rig.queue.flush_backoff()
        assert sorted(self.rig.pop_names()) == sorted(self.model)


QueueMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=80, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestQueue = QueueMachine.TestCase
TestQueue.__doc__ = "After every step of any sequence of events, the queue and the model agree."
