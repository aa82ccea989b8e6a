"""Replays a recording: exactly as it was, or only the arrivals, with our own decisions about them.

Exactly: every recorded version of every object is stored at its time. Nothing schedules, reconciles or runs pods. If
the recording has the scheduler's attempts, they are made again beside it (`decisions`).

Arrivals only: pods appear when they appeared, with the scheduler, the kubelets and the controllers of volumes and
devices at work. They end after they have run as long as they ran, and disappear when they disappeared, unless the
recorded scheduler preempted them. Controllers of workloads are off, because their pods are in the recording; if it has
no pods, as simkube's traces, they are on. Where several nodes are equally good, the recorded one is taken, so that
every difference means something.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from kubesched.apiserver.wire.status import StatusError
from kubesched.base import annotations as names
from kubesched.base.types import JSON
from kubesched.reconcile.access import NODES, PODS, Access
from kubesched.scheduler.attempt import Attempt
from kubesched.simulator.cluster import SimulatedCluster, TieChooser
from kubesched.simulator.decisions import DecisionReplay
from kubesched.simulator.report import Agreement
from kubesched.simulator.scenario import Scenario
from kubesched.simulator.scenario_client import ScenarioClient
from kubesched.simulator.settings import ReplayMode
from kubesched.snapshots.contents import Contents, Event, Item, ObjectChange, SchedulerStep
from kubesched.snapshots.reader import load
from kubesched.snapshots.restore import Restorer

ENDED = ("Succeeded", "Failed")
SNAPSHOT_SECONDS = 60.0
"""How long a snapshot without changes is simulated."""
STEP_SECONDS = 0.1
"""Real seconds between two steps of a replay with a speed."""
ROUNDING = 1e-6
"""Times that differ by less are equal: a clock in floating point may stop a little short of one."""
FOREVER = "87600h"
MIRROR = "kubernetes.io/config.mirror"
DECIDED_HERE = frozenset(("PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"))
"""Kinds that follow from decisions: of these only creation and deletion are replayed."""
CONFIG_FIELDS = ("profiles", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")


@dataclass(frozen=True, slots=True)
class RecordedPod:
    """What a recording says about a pod."""

    name: str = ""
    node: str = ""
    run_seconds: float | None = None
    """How long it ran before it ended; None if it did not."""
    failed: bool = False
    preempted: bool = False
    was_bound: bool = False
    """Whether it had a node at the start."""
    tried: float | None = None
    """When the recorded scheduler first decided about it; None if it never did."""
    bound: float | None = None
    ended: float | None = None
    """When it got its node, and when it ended."""


def replay_of(*paths: Path) -> Scenario:
    """The scenario that a snapshot or a recording implies."""
    contents = load(*paths)
    return scenario_of(contents, paths[0])


def scenario_of(contents: Contents, path: Path) -> Scenario:
    """The scenario of contents that were read from a file."""
    config = {key: value for key, value in (contents.config or {}).items() if key in CONFIG_FIELDS}
    name = path.name.partition(".")[0] or str(path)
    duration = contents.seconds if contents.is_recording else SNAPSHOT_SECONDS
    return Scenario(
        name=name,
        source=str(path),
        act=_nothing,
        config=config or None,
        duration=duration,
        contents=contents,
        replay=usual_mode(contents),
    )


def usual_mode(contents: Contents) -> ReplayMode | None:
    """How contents are replayed unless the user says otherwise; None if nothing changes in them."""
    if not contents.is_recording:
        return None
    return ReplayMode.RECORDED if contents.has_pods else ReplayMode.ARRIVALS


async def _nothing(_client: ScenarioClient) -> None:
    """A snapshot has no steps: time passes, and the scheduler places the pods that are pending."""


def rescheduled(contents: Contents) -> Contents:
    """The same cluster with all pods pending, except those that belong to their nodes."""
    items = [_unplaced(each) if each.kind == "Pod" else each for each in contents.items]
    return replace(contents, items=[each for each in items if each is not None])


def _unplaced(item: Item) -> Item | None:
    body = item.body()
    meta = body.get("metadata") or {}
    owners = {each.get("kind") for each in meta.get("ownerReferences") or () if each.get("controller")}
    if _phase(body) in ENDED:
        return None
    if (
        MIRROR in (meta.get("annotations") or {})
        or "DaemonSet" in owners
        or not (body.get("spec") or {}).get("nodeName")
    ):
        return item
    return Item(item.version, item.kind, _arriving(body, RecordedPod()), item.where)


class Replayer:
    """Applies the changes of a recording to a simulated cluster, each at its time."""

    def __init__(
        self,
        contents: Contents,
        mode: ReplayMode,
        cluster: SimulatedCluster,
        speed: float | None = None,
        *,
        follow: bool = False,
        decisions: DecisionReplay | None = None,
    ) -> None:
        """With `follow`, pods arrive when the recorded scheduler decided about them, and end when they ended.
        `decisions` makes the recorded decisions again.
        """
        self._decisions = decisions
        self._contents = contents
        self._mode = mode
        self._cluster = cluster
        self._speed = speed
        self._access = Access(cluster.api)
        self._restorer = Restorer(cluster.api, keep_owners=True)
        self._last: dict[Any, JSON] = {}
        self.pods = recorded_pods(contents)
        self._run_seconds: dict[str, float] = {}
        """If the recorded decisions are followed: how long each pod ran after its start delay."""
        if follow:
            self._follow(cluster.embedded.settings.kubelet.start_delay)

    def _follow(self, start_delay: float) -> None:
        times = decision_times(self._contents, self.pods)
        changes = []
        for each in self._contents.changes:
            moment = times.get(_pod_key(each.item.body())) if each.item.kind == "Pod" else None
            # What happens to a pod before its arrival happens after it.
            changes.append(each if moment is None else replace(each, seconds=max(each.seconds, moment)))
        self._contents = replace(self._contents, changes=sorted(changes, key=lambda each: each.seconds))
        for key, pod in self.pods.items():
            if pod.ended is not None and pod.bound is not None:
                seconds = pod.ended - pod.bound - start_delay
                self._run_seconds[key] = max(0.0, seconds)
                # Longer than it can run: its recorded end comes first.
                waited = pod.bound - times.get(key, pod.bound) + ROUNDING
                self.pods[key] = replace(pod, run_seconds=max(0.0, seconds) + waited + start_delay)

    async def run(self, client: ScenarioClient) -> None:
        """Store the objects of the start, then let time pass."""
        for why in self._restorer.restore(map(self._as_begun, self._contents.items)).refused:
            self._cluster.timeline.note("note", f"not created: {why}")
        if self._decisions is not None:
            for item in self._contents.items:
                self._decisions.change(Event.ADD, item)
        steps = deque(self._contents.steps if self._decisions is not None else ())
        await self._take(steps, 0, client)
        for number, change in enumerate(self._contents.changes, 1):
            await self._pass_until(change.seconds, client)
            self._apply(change)
            if self._decisions is not None:
                self._decisions.change(change.event, change.item)
            await self._take(steps, number, client)
        await self._pass_until(self._contents.seconds, client)

    async def _take(self, steps: deque[SchedulerStep], number: int, client: ScenarioClient) -> None:
        """Let the scheduler do what it did when it had handled so many changes."""
        while steps and steps[0].after == number:
            assert self._decisions is not None
            step = steps.popleft()
            await self._pass_until(step.seconds, client)
            await self._decisions.step(step)

    async def _pass_until(self, moment: float, client: ScenarioClient) -> None:
        """Let virtual time pass; with a speed, real time too, in steps so short that nobody sees them."""
        while (rest := moment - client.now) > ROUNDING:
            step = moment if self._speed is None else client.now + min(rest, STEP_SECONDS * self._speed)
            if self._speed is not None:
                seconds = (step - client.now) / self._speed
                await asyncio.get_running_loop().run_in_executor(None, time.sleep, seconds)
            await client.sleep_until(step)

    def _as_begun(self, item: Item) -> Item:
        if self._mode is ReplayMode.RECORDED or item.kind != "Pod":
            return item
        body = item.body()
        known = self.pods.get(_pod_key(body), RecordedPod())
        if not known.was_bound:
            body = _arriving(body, known)
        elif (body.get("spec") or {}).get("restartPolicy") != "Always":
            _annotate(body, FOREVER)  # its end is recorded, or it has none
        return Item(item.version, item.kind, body, item.where)

    # --- changes ------------------------------------------------------------------------------------------------------

    def _apply(self, change: ObjectChange) -> None:
        resource = self._restorer.resource(change.item)
        if resource is None:
            return
        body = change.item.body()
        meta = body.get("metadata") or {}
        key = resource.key(meta.get("namespace", ""), str(meta.get("name")))
        if self._mode is ReplayMode.RECORDED or change.item.kind not in ("Pod", "Node", *DECIDED_HERE):
            self._store(resource.storage, key, change, body)
        elif change.item.kind == "Pod":
            self._apply_pod(key, change.event, body)
        elif change.item.kind == "Node":
            self._apply_node(key, change, body)
        elif change.event is not Event.UPDATE:
            body.pop("status", None)
            self._store(resource.storage, key, change, body)

    def _store(self, storage: str, key: str, change: ObjectChange, body: JSON) -> None:
        known = self._access.store.get(storage, key)
        if change.event is Event.DELETE:
            if known is not None:
                self._access.store.delete(storage, key)
        elif known is None:
            self._restorer.restore([Item(change.item.version, change.item.kind, body)])
        elif change.item.was_read:
            self._access.put(storage, key, body)
        else:
            self._apply_manifest(storage, key, body)

    def _apply_manifest(self, storage: str, key: str, body: JSON) -> None:
        """Change an object as ``kubectl apply`` would: a manifest lacks what the API server fills in."""

        def edit(obj: JSON) -> None:
            obj |= {name: value for name, value in body.items() if name not in ("metadata", "status")}
            obj["metadata"] |= {
                name: body["metadata"][name] for name in ("labels", "annotations") if name in body["metadata"]
            }

        try:
            self._access.edit(storage, key, edit)
        except StatusError as error:
            self._cluster.timeline.note("note", f"not replayed: {error}")

    def _apply_pod(self, key: str, event: Event, body: JSON) -> None:
        known = self.pods.get(_pod_key(body), RecordedPod())
        stored = self._access.get(PODS, key)
        if event is Event.DELETE:
            if not known.preempted:
                self._access.remove(PODS, key)
        elif stored is None:
            if event is Event.ADD and _phase(body) not in ENDED:
                self._restorer.restore([Item("v1", "Pod", _arriving(body, known))])
        elif known.was_bound and _phase(body) in ENDED:
            self._access.put(PODS, key, {**stored, "status": body.get("status") or {}})
        elif _pod_key(body) in self._run_seconds and _phase(body) in ENDED and _phase(stored) not in ENDED:
            self._end(key, stored, body, known)
        elif not known.preempted and _is_leaving(body) and not _is_leaving(stored):
            self._access.put(PODS, key, _leaving(stored, body))
        elif _changeable(self._last.get(key, body)) != _changeable(body):
            self._access.put(PODS, key, _updated(stored, body))
        self._last[key] = body

    def _end(self, key: str, stored: JSON, body: JSON, known: RecordedPod) -> None:
        """End a pod when it ended, if it is where it was; elsewhere it runs as long as it ran."""
        if (stored.get("spec") or {}).get("nodeName") == known.node:
            self._access.put(PODS, key, {**stored, "status": body.get("status") or {}})
        else:
            _annotate(stored, f"{self._run_seconds[_pod_key(body)]:.6f}", exit_code="1" if known.failed else "")
            self._access.put(PODS, key, stored)

    def _apply_node(self, key: str, change: ObjectChange, body: JSON) -> None:
        before, self._last[f"node {key}"] = self._last.get(f"node {key}"), body
        if change.event is Event.UPDATE and before is not None and _scheduling_part(before) == _scheduling_part(body):
            return  # a heartbeat
        self._store(NODES, key, change, body)


class FollowRecording(TieChooser):
    """Breaks ties as the recording did, and notes where pods go."""

    def __init__(self, pods: Mapping[str, RecordedPod], seed: int) -> None:
        self._pods = pods
        self._random = Random(seed)
        self._wanted = ""
        self._went: dict[str, tuple[str, str]] = {}

    def started(self, attempt: Attempt) -> None:
        pod = attempt.pod
        self._wanted = self._pods.get(pod.uid or pod.key, RecordedPod()).node

    def choose(self, rows: Sequence[int]) -> int:
        """The recorded node if it is one of the best, else one at random."""
        wanted = self.row_of.get(self._wanted)
        return wanted if wanted is not None and wanted in rows else rows[self._random.randrange(len(rows))]

    def bound(self, attempt: Attempt) -> None:
        self._went[attempt.pod.uid] = (attempt.pod.key, attempt.node)

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


# --- what a recording says about pods ---------------------------------------------------------------------------------


def recorded_pods(contents: Contents) -> dict[str, RecordedPod]:
    """By UID, where each pod went and how long it ran."""
    found: dict[str, RecordedPod] = {}
    since: dict[str, float] = {}
    pods = [(0.0, each) for each in contents.items if each.kind == "Pod"]
    pods += [(each.seconds, each.item) for each in contents.changes if each.item.kind == "Pod"]
    initial = sum(each.kind == "Pod" for each in contents.items)
    for index, (seconds, item) in enumerate(pods):
        body = item.body()
        key, phase = _pod_key(body), _phase(body)
        before = found.get(key, RecordedPod())
        node = (body.get("spec") or {}).get("nodeName") or before.node
        if phase == "Running":
            since.setdefault(key, seconds)
        ended = phase in ENDED and before.run_seconds is None
        meta = body.get("metadata") or {}
        found[key] = RecordedPod(
            name=f"{meta.get('namespace') or 'default'}/{meta.get('name')}",
            node=node,
            run_seconds=seconds - since.get(key, seconds) if ended else before.run_seconds,
            failed=before.failed or phase == "Failed",
            preempted=before.preempted or _was_preempted(body),
            was_bound=before.was_bound or (index < initial and bool(node)),
            tried=seconds if before.tried is None and _was_tried(body) else before.tried,
            bound=seconds if before.bound is None and node else before.bound,
            ended=seconds if ended else before.ended,
        )
    return found


def decision_times(contents: Contents, pods: Mapping[str, RecordedPod]) -> dict[str, float]:
    """By UID, when to let each pod arrive so that decisions come in the recorded order.

    A scheduler that is busy decides later than pods arrive, and other things happen meanwhile. It takes pods of one
    priority in the order of arrival, while bindings may overtake each other: so no pod is later than the next one.
    Recorded is when a decision was written. What happened in the moment before that may have been too late for it.
    """
    times: dict[str, float] = {}
    first: dict[int, float] = {}
    arrivals = [each for each in contents.changes if each.item.kind == "Pod" and each.event is Event.ADD]
    for change in reversed(arrivals):
        body = change.item.body()
        key, priority = _pod_key(body), int((body.get("spec") or {}).get("priority") or 0)
        tried = pods[key].tried
        if tried is not None:
            first[priority] = min(first.get(priority, tried), tried)
            times[key] = max(change.seconds, first[priority])
    return times


def _was_tried(body: JSON) -> bool:
    """Whether a scheduler has decided about a pod: it has a node, or a condition says that there is none."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return bool((body.get("spec") or {}).get("nodeName")) or any(
        each.get("type") == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions
    )


def _pod_key(body: JSON) -> str:
    meta = body.get("metadata") or {}
    return str(meta.get("uid") or f"{meta.get('namespace')}/{meta.get('name')}")


def _phase(body: JSON) -> str:
    return str((body.get("status") or {}).get("phase") or "")


def _was_preempted(body: JSON) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == "PreemptionByScheduler" for each in conditions)


def _arriving(body: JSON, known: RecordedPod) -> JSON:
    """A pod as it was created: without a node and a status, and with the time for which it will run."""
    meta = {key: value for key, value in body["metadata"].items() if not key.startswith("deletion")}
    annotations = meta.get("annotations") or {}
    spec = body.get("spec") or {}
    if MIRROR not in annotations:
        spec = {key: value for key, value in spec.items() if key != "nodeName"}
    status = body.get("status") or {}
    kept = {"phase": "Pending", **{key: status[key] for key in ("qosClass",) if key in status}}
    new = {**body, "metadata": meta, "spec": spec, "status": kept}
    if known.run_seconds is not None:
        _annotate(new, f"{known.run_seconds:.6f}", exit_code="1" if known.failed else "")
    elif spec.get("restartPolicy") != "Always":
        _annotate(new, FOREVER)
    return new


def _annotate(body: JSON, run_time: str, exit_code: str = "") -> None:
    extra = {names.RUN_TIME: run_time, **({names.EXIT_CODE: exit_code} if exit_code else {})}
    body["metadata"]["annotations"] = {**(body["metadata"].get("annotations") or {}), **extra}


def _changeable(body: JSON) -> object:
    """What may change about a pod that waits, apart from what the scheduler decides."""
    spec = body.get("spec") or {}
    return (body.get("metadata") or {}).get("labels"), spec.get("schedulingGates"), spec.get("tolerations")


def _is_leaving(body: JSON) -> bool:
    return bool((body.get("metadata") or {}).get("deletionTimestamp"))


def _leaving(stored: JSON, body: JSON) -> JSON:
    """The pod as it is while it is being deleted. It is gone when the recording says so, and not before."""
    marks = {key: value for key, value in body["metadata"].items() if key.startswith("deletion")}
    annotations = {**(stored["metadata"].get("annotations") or {}), names.STOP_TIME: FOREVER}
    return {**stored, "metadata": {**stored["metadata"], **marks, "annotations": annotations}}


def _updated(stored: JSON, body: JSON) -> JSON:
    spec = {**stored["spec"]}
    for field in ("schedulingGates", "tolerations", "nodeSelector", "affinity"):
        spec.pop(field, None)
        if field in body.get("spec", {}):
            spec[field] = body["spec"][field]
    labels = (body.get("metadata") or {}).get("labels") or {}
    return {**stored, "metadata": {**stored["metadata"], "labels": labels}, "spec": spec}


def _scheduling_part(node: JSON) -> object:
    status = node.get("status") or {}
    ready = [each.get("status") for each in status.get("conditions") or () if each.get("type") == "Ready"]
    return (node.get("metadata") or {}).get("labels"), node.get("spec"), status.get("allocatable"), ready
