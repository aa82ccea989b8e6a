"""Follows a recorded scheduler: breaks ties as it did, and lets pods arrive when it decided about them.

A recording has what was written, and in which order. It does not have what the scheduler had seen of that when it
decided about a pod: something between the pod's arrival and its binding. Of all these moments the first is taken in
which the scheduler here decides as the recorded one. As no pod waits for longer than it must, every later one still
has all of its moments. A decision that differs in all of them is a real difference.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from kubesched.api import objects as api
from kubesched.api.decoding import decode_as
from kubesched.engine.decision import Decision
from kubesched.engine.outcome import Outcome
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.scheduler import Scheduler
from kubesched.simulator.cluster import TieChooser
from kubesched.simulator.recorded_pods import RecordedPod, is_gated, pod_key, priority_of
from kubesched.simulator.report import Agreement
from kubesched.snapshots.contents import Contents, Event, ObjectChange

SKEW_SECONDS = 1.0
"""How much later than another kind's watch one may be."""


def in_written_order(contents: Contents) -> Contents:
    """The same recording with its changes in the order in which they were written, by their versions.

    Every kind has a watch of its own, and one may be a little behind another. A scheduler's own recording has the order
    in which the scheduler has seen them.
    """
    if contents.steps:
        return contents
    found: list[tuple[int, ObjectChange]] = []
    for change in contents.changes:
        version, at, earliest = _version(change), len(found), change.seconds - SKEW_SECONDS
        while at and version and found[at - 1][0] > version and found[at - 1][1].seconds > earliest:
            at -= 1
        seconds = change.seconds if at == len(found) else found[at][1].seconds
        found.insert(at, (version, replace(change, seconds=seconds)))
    return replace(contents, changes=[change for _, change in found])


def _version(change: ObjectChange) -> int:
    text = change.item.meta.resource_version or ""
    return int(text) if text.isdecimal() and len(text) <= 20 else 0


class FollowRecording(TieChooser):
    """Breaks ties as the recording did, and notes where pods go."""

    def __init__(self, pods: Mapping[str, RecordedPod], seed: int) -> None:
        self._pods = pods
        self._uids = {each.name: uid for uid, each in pods.items()}
        self._random = Random(seed)
        self._wanted = ""
        self._went: dict[str, tuple[str, str]] = {}
        self.on_same_node: Callable[[str, list[str]], None] = lambda _node, _images: None
        """Called for every pod that goes where it went, with the node and the pod's images."""

    def started(self, attempt: Attempt) -> None:
        self._wanted = self._recorded(attempt.pod).node

    def choose(self, rows: Sequence[int]) -> int:
        """The recorded node if it is one of the best, else one at random."""
        wanted = self.row_of.get(self._wanted)
        return wanted if wanted is not None and wanted in rows else rows[self._random.randrange(len(rows))]

    def binding_started(self, attempt: Attempt) -> None:
        spec = attempt.pod.spec
        if attempt.node == self._recorded(attempt.pod).node:
            self.on_same_node(attempt.node, [each.image for each in (*spec.init_containers, *spec.containers)])

    def bound(self, attempt: Attempt) -> None:
        self._went[self._uid(attempt.pod)] = (attempt.pod.key, attempt.node)

    def agreement(self) -> Agreement:
        """Compare with the recording. Pods that had a node at the start, or never had one, do not count."""
        same, moved = 0, []
        for uid, recorded in self._pods.items():
            if recorded.was_bound or (not recorded.node and uid not in self._went):
                continue
            pod, node = self._went.get(uid, (recorded.name, ""))
            if node == recorded.node:
                same += 1
            else:
                moved.append((pod, recorded.node, node))
        return Agreement(same, sorted(moved))

    def _recorded(self, pod: api.Pod) -> RecordedPod:
        return self._pods.get(self._uid(pod), RecordedPod())

    def _uid(self, pod: api.Pod) -> str:
        """The recording's UID of a pod. One that was written by hand has another here, and is known by its name."""
        return pod.uid if pod.uid in self._pods else self._uids.get(pod.key, pod.uid)


@dataclass(slots=True)
class _Waiting:
    """A pod that has arrived, and what has happened to it since."""

    pod: api.Pod
    recorded: RecordedPod
    latest: float
    changes: list[ObjectChange] = field(default_factory=list)
    looked_at: int = -1
    """The version of the cluster in which the scheduler here did not decide as the recorded one."""


class Anteroom:
    """Pods that have arrived and that the recorded scheduler has yet to decide about."""

    def __init__(
        self, pods: Mapping[str, RecordedPod], latest: Mapping[str, float], scheduler: Scheduler | None
    ) -> None:
        """`latest` says by when each pod was decided about."""
        self._pods = pods
        self._latest = latest
        self._scheduler = scheduler
        self._waiting: dict[str, _Waiting] = {}
        self._queues: dict[int, deque[str]] = defaultdict(deque)
        """Pods of one priority are taken in the order of arrival."""

    def __len__(self) -> int:
        return len(self._waiting)

    def keeps(self, change: ObjectChange) -> bool:
        """Keep a change if it is the arrival of a pod, or about a pod that waits here."""
        if change.item.kind != "Pod":
            return False
        body = change.item.body()
        key = pod_key(body)
        if change.event is Event.ADD and key in self._latest and not is_gated(body):
            pod = decode_as(api.Pod, {**body, "spec": {**body["spec"], "nodeName": ""}})
            self._waiting[key] = _Waiting(pod, self._pods[key], self._latest[key])
            self._queues[priority_of(body)].append(key)
        if key not in self._waiting:
            return False
        self._waiting[key].changes.append(change)
        return True

    def next(self, now: float, version: int) -> list[ObjectChange]:
        """What to apply for the next pod whose turn it is, its arrival first; nothing if all have to wait.

        The cluster has changed since the last time if it has another version.
        """
        for priority in sorted(self._queues, reverse=True):
            queue = self._queues[priority]
            first = self._waiting[queue[0]]
            if first.latest <= now or (first.looked_at != version and self._decides_as_recorded(first)):
                key = queue.popleft()
                if not queue:
                    del self._queues[priority]
                return self._waiting.pop(key).changes
            first.looked_at = version
        return []

    def _decides_as_recorded(self, waiting: _Waiting) -> bool:
        profile = None if self._scheduler is None else self._scheduler.profiles.get(waiting.pod.scheduler_name)
        if profile is None or self._scheduler is None:
            return False
        cluster = self._scheduler.cluster
        decision = Decision(cluster.classes.info(waiting.pod))
        decision.skips_post_filter = True
        profile.engine.decide(decision)
        decision.close()
        expected = waiting.recorded.first_node
        if decision.outcome is not Outcome.SCHEDULED or decision.best_rows is None or not expected:
            return decision.outcome is not Outcome.SCHEDULED and not expected
        return cluster.nodes.row_of.get(expected) in decision.best_rows
