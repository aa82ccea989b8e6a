"""Replays a recording: exactly as it was, or only the arrivals, with our own decisions about them.

Exactly: every recorded version of every object is stored at its time. Nothing schedules, reconciles or runs pods. If
the recording has the scheduler's attempts, they are made again beside it (`decisions`).

Arrivals only: pods appear when they appeared, with the scheduler, the kubelets and the controllers of volumes and
devices at work. They end after they have run as long as they ran, and disappear when they disappeared, unless the
recorded scheduler preempted them. Controllers of workloads are off, because their pods are in the recording; if it has
no pods, as simkube's traces, they are on. Where several nodes are equally good, the recorded one is taken, pods come to
the scheduler when the recorded one decided about them, and nodes have their images when they had them (`following`), so
that every difference means something.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubesched.apiserver.wire.status import StatusError
from kubesched.base import annotations as names
from kubesched.base.types import JSON
from kubesched.reconcile.access import NODES, PODS, Access
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.decisions import DecisionReplay
from kubesched.simulator.following import Anteroom
from kubesched.simulator.recorded_pods import ENDED, RecordedPod, latest_decisions, phase_of, pod_key, recorded_pods
from kubesched.simulator.scenario import Scenario
from kubesched.simulator.scenario_client import ScenarioClient
from kubesched.simulator.settings import ReplayMode
from kubesched.snapshots.contents import Contents, Event, Item, ObjectChange, SchedulerStep
from kubesched.snapshots.reader import load
from kubesched.snapshots.restore import Restorer

SNAPSHOT_SECONDS = 60.0
"""How long a snapshot without changes is simulated, and a trace that has all changes at its start."""
STEP_SECONDS = 0.1
"""Real seconds between two steps of a replay with a speed."""
ROUNDING = 1e-6
"""Times that differ by less are equal: a clock in floating point may stop a little short of one."""
FOREVER = "87600h"
MIRROR = "kubernetes.io/config.mirror"
DECIDED_HERE = frozenset(("PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"))
"""Kinds that follow from decisions: of these only creation and deletion are replayed."""
CONFIG_FIELDS = ("profiles", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")


def replay_of(*paths: Path) -> Scenario:
    """The scenario that a snapshot or a recording implies."""
    contents = load(*paths)
    return scenario_of(contents, paths[0])


def scenario_of(contents: Contents, path: Path) -> Scenario:
    """The scenario of contents that were read from a file."""
    config = {key: value for key, value in (contents.config or {}).items() if key in CONFIG_FIELDS}
    name = path.name.partition(".")[0] or str(path)
    duration = contents.seconds if contents.is_recording and contents.seconds else SNAPSHOT_SECONDS
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
    """The same cluster with all pods pending, except those that belong to their nodes, and their devices free."""
    pods = {id(each): _unplaced(each) for each in contents.items if each.kind == "Pod"}
    staying = {each.meta.uid for each in contents.items if pods.get(id(each)) is each}
    items = [
        pods[id(each)] if each.kind == "Pod" else _unclaimed(each, staying) if each.kind == "ResourceClaim" else each
        for each in contents.items
    ]
    return replace(contents, items=[each for each in items if each is not None])


def _unclaimed(item: Item, staying: Collection[str | None]) -> Item:
    """A claim on devices as it was made, unless a pod that stays has it."""
    body = item.body()
    users = (body.get("status") or {}).get("reservedFor") or ()
    if any(each.get("uid") in staying for each in users):
        return item
    body.pop("status", None)
    return Item(item.version, item.kind, body, item.where)


def _unplaced(item: Item) -> Item | None:
    body = item.body()
    meta = body.get("metadata") or {}
    owners = {each.get("kind") for each in meta.get("ownerReferences") or () if each.get("controller")}
    if phase_of(body) in ENDED:
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
        self._anteroom: Anteroom | None = None
        """If the recorded decisions are followed: pods that have yet to be decided about."""
        if follow:
            self._follow(cluster.embedded.settings.kubelet.start_delay)

    def _follow(self, start_delay: float) -> None:
        latest = latest_decisions(self._contents, self.pods)
        self._anteroom = Anteroom(self.pods, latest, self._cluster.scheduler)
        for key, pod in self.pods.items():
            if pod.ended is not None and pod.bound is not None:
                seconds = pod.ended - pod.bound - start_delay
                self._run_seconds[key] = max(0.0, seconds)
                # Longer than it can run: its recorded end comes first.
                self.pods[key] = replace(pod, run_seconds=pod.ended + start_delay + ROUNDING)

    def store_initial(self) -> None:
        """Store the objects of the start."""
        for why in self._restorer.restore(map(self._as_begun, self._contents.items)).refused:
            self._cluster.timeline.note("note", f"not created: {why}")

    async def run(self, client: ScenarioClient) -> None:
        """Let time pass, and every change come at its time."""
        if self._decisions is not None:
            for item in self._contents.items:
                self._decisions.change(Event.ADD, item)
        steps = deque(self._contents.steps if self._decisions is not None else ())
        await self._take(steps, 0, client)
        for number, change in enumerate(self._contents.changes, 1):
            await self._pass_until(change.seconds, client)
            await self._let_arrive(change.seconds)
            if self._anteroom is None or not self._anteroom.keeps(change):
                self._apply(change)
            await self._let_arrive()
            if self._decisions is not None:
                self._decisions.change(change.event, change.item)
            await self._take(steps, number, client)
        await self._pass_until(self._contents.seconds, client)

    async def _let_arrive(self, now: float = -1.0) -> None:
        """Give the scheduler the pods whose turn it is, one by one: a decision depends on those before it."""
        while self._anteroom:
            await self._cluster.clock.settle()
            changes = self._anteroom.next(now, self._access.store.version)
            if not changes:
                return
            for change in changes:
                self._apply(change)

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
        known = self.pods.get(pod_key(body), RecordedPod())
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
        if self._mode is not ReplayMode.RECORDED and self._is_published_here(body):
            return
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

    def _is_published_here(self, body: JSON) -> bool:
        """Whether an object is a ResourceSlice that the simulated kubelet of its node writes too."""
        if body.get("kind") != "ResourceSlice" or names.DEVICES not in (body["metadata"].get("annotations") or {}):
            return False
        node = self._access.get(NODES, str((body.get("spec") or {}).get("nodeName"))) or {"metadata": {}}
        return names.DEVICES in (node["metadata"].get("annotations") or {})

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
        known = self.pods.get(pod_key(body), RecordedPod())
        stored = self._access.get(PODS, key)
        if event is Event.DELETE:
            if not known.preempted:
                self._access.remove(PODS, key)
        elif stored is None:
            if event is Event.ADD and phase_of(body) not in ENDED:
                self._restorer.restore([Item("v1", "Pod", _arriving(body, known))])
        elif known.was_bound and phase_of(body) in ENDED:
            self._access.put(PODS, key, {**stored, "status": body.get("status") or {}})
        elif pod_key(body) in self._run_seconds and phase_of(body) in ENDED and phase_of(stored) not in ENDED:
            self._end(key, stored, body, known)
        elif not known.preempted and _is_leaving(body) and not _is_leaving(stored):
            self._access.put(PODS, key, _leaving(stored, body))
        elif _changeable(self._last.get(key, body)) != _changeable(body):
            self._access.put(PODS, key, _updated(stored, body))
        elif self._anteroom is not None and _node(stored) == known.node and _start(body) not in (None, _start(stored)):
            # Preemption prefers victims that started late, by the second.
            self._access.put(PODS, key, {**stored, "status": {**stored["status"], "startTime": _start(body)}})
        self._last[key] = body

    def _end(self, key: str, stored: JSON, body: JSON, known: RecordedPod) -> None:
        """End a pod when it ended, if it is where it was; elsewhere it runs as long as it ran."""
        if (stored.get("spec") or {}).get("nodeName") == known.node:
            self._access.put(PODS, key, {**stored, "status": body.get("status") or {}})
        else:
            _annotate(stored, f"{self._run_seconds[pod_key(body)]:.6f}", exit_code="1" if known.failed else "")
            self._access.put(PODS, key, stored)

    def _apply_node(self, key: str, change: ObjectChange, body: JSON) -> None:
        before, self._last[f"node {key}"] = self._last.get(f"node {key}"), body
        is_same = before is not None and _scheduling_part(before) == _scheduling_part(body)
        if self._anteroom is not None and before is not None:  # otherwise kubelets report which images nodes have
            is_same = is_same and _images(before) == _images(body)
        if change.event is Event.UPDATE and is_same:
            return  # a heartbeat
        self._store(NODES, key, change, body)


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
    elif spec.get("restartPolicy") != "Always" and names.RUN_TIME not in annotations:
        _annotate(new, FOREVER)
    return new


def _annotate(body: JSON, run_time: str, exit_code: str = "") -> None:
    extra = {names.RUN_TIME: run_time, **({names.EXIT_CODE: exit_code} if exit_code else {})}
    body["metadata"]["annotations"] = {**(body["metadata"].get("annotations") or {}), **extra}


def _changeable(body: JSON) -> object:
    """What may change about a pod that waits, apart from what the scheduler decides."""
    spec = body.get("spec") or {}
    return (body.get("metadata") or {}).get("labels"), spec.get("schedulingGates"), spec.get("tolerations")


def _node(body: JSON) -> str:
    return str((body.get("spec") or {}).get("nodeName") or "")


def _start(body: JSON) -> str | None:
    return (body.get("status") or {}).get("startTime")


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


def _images(node: JSON) -> object:
    return (node.get("status") or {}).get("images")
