"""What a recording says about its pods: where they went, how long they ran, and when they were decided about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesched.base.types import JSON
from kubesched.snapshots.contents import Contents, Event

ENDED = ("Succeeded", "Failed")


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
    first_node: str = ""
    """The node that it got then; empty if there was none for it."""
    bound: float | None = None
    ended: float | None = None
    """When it got its node, and when it ended."""


def recorded_pods(contents: Contents) -> dict[str, RecordedPod]:
    """By UID, where each pod went and how long it ran."""
    found: dict[str, RecordedPod] = {}
    since: dict[str, float] = {}
    pods = [(0.0, each) for each in contents.items if each.kind == "Pod"]
    pods += [(each.seconds, each.item) for each in contents.changes if each.item.kind == "Pod"]
    initial = sum(each.kind == "Pod" for each in contents.items)
    for index, (seconds, item) in enumerate(pods):
        body = item.body()
        key, phase = pod_key(body), phase_of(body)
        before = found.get(key, RecordedPod())
        node = (body.get("spec") or {}).get("nodeName") or before.node
        if phase == "Running":
            since.setdefault(key, seconds)
        ended = phase in ENDED and before.run_seconds is None
        tried_now = before.tried is None and _was_tried(body)
        meta = body.get("metadata") or {}
        found[key] = RecordedPod(
            name=f"{meta.get('namespace') or 'default'}/{meta.get('name')}",
            node=node,
            run_seconds=seconds - since.get(key, seconds) if ended else before.run_seconds,
            failed=before.failed or phase == "Failed",
            preempted=before.preempted or _was_preempted(body),
            was_bound=before.was_bound or (index < initial and bool(node)),
            tried=seconds if tried_now else before.tried,
            first_node=node if tried_now else before.first_node,
            bound=seconds if before.bound is None and node else before.bound,
            ended=seconds if ended else before.ended,
        )
    return found


def latest_decisions(contents: Contents, pods: Mapping[str, RecordedPod]) -> dict[str, float]:
    """By UID, when each pod was decided about at the latest.

    Recorded is when a decision was written. A scheduler takes pods of one priority in the order of arrival, while
    bindings may overtake each other: so no pod is later than the next one.
    """
    times: dict[str, float] = {}
    first: dict[int, float] = {}
    arrivals = [each for each in contents.changes if each.item.kind == "Pod" and each.event is Event.ADD]
    for change in reversed(arrivals):
        body = change.item.body()
        key, priority = pod_key(body), priority_of(body)
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


def pod_key(body: JSON) -> str:
    """A pod's UID, or its namespace and name where it has none."""
    meta = body.get("metadata") or {}
    return str(meta.get("uid") or f"{meta.get('namespace')}/{meta.get('name')}")


def phase_of(body: JSON) -> str:
    return str((body.get("status") or {}).get("phase") or "")


def priority_of(body: JSON) -> int:
    return int((body.get("spec") or {}).get("priority") or 0)


def is_gated(body: JSON) -> bool:
    """Whether a pod waits for its scheduling gates."""
    return bool((body.get("spec") or {}).get("schedulingGates"))


def _was_preempted(body: JSON) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == "PreemptionByScheduler" for each in conditions)
