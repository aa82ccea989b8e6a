"""The queue as the page shows it: as the scheduler says, or as far as the pods themselves tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubesched.api import objects as api
from kubesched.base.types import JSON

MOST = 100
PLACES = ("active", "backoff", "unschedulable", "gated", "inFlight", "permit")


def from_scheduler(page: JSON) -> JSON:
    """The scheduler's own page of its queue, in columns."""
    permit = page["waitingOnPermit"]
    at_permit = {_key(each) for each in permit}
    items = [each for each in page["items"] if _key(each) not in at_permit]
    counts = page["counts"]
    in_flight = counts["inFlight"] - (len(page["items"]) - len(items))
    return {
        "exact": True,
        "counts": {**counts, "inFlight": in_flight, "permit": len(permit)},
        "pod": [*map(_key, items), *map(_key, permit)],
        "place": [*(_place(each["place"]) for each in items), *("permit" for _ in permit)],
        "attempts": [*(each["attempts"] for each in items), *(0 for _ in permit)],
        "until": [*(each["backoffUntil"] or each["retriedAt"] for each in items), *(None for _ in permit)],
        "plugins": [*(_plugins(each) for each in items), *(", ".join(each["plugins"]) for each in permit)],
    }


def from_pods(pods: Iterable[api.Pod]) -> JSON:
    """What the conditions of pending pods tell. Backoff and turns are known to the scheduler alone."""
    counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))
    columns: dict[str, list[object]] = {name: [] for name in ("pod", "place", "attempts", "until", "plugins")}
    for pod in pods:
        if pod.is_terminating:
            continue
        place = _told_by(pod)
        counts[place] += 1
        if len(columns["pod"]) < MOST:
            for name, value in zip(columns, (pod.key, place, None, None, ""), strict=True):
                columns[name].append(value)
    return {"exact": False, "counts": counts, **columns}


def _told_by(pod: api.Pod) -> str:
    if pod.spec.scheduling_gates:
        return "gated"
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    return "unschedulable" if scheduled is not None and scheduled.status == "False" else "active"


def _place(name: str) -> str:
    return name[:1].lower() + name[1:]


def _key(each: JSON) -> str:
    return f"{each['namespace']}/{each['pod']}"


def _plugins(each: JSON) -> str:
    named = (*each["unschedulablePlugins"], *each["pendingPlugins"], each["gatingPlugin"])
    return ", ".join(dict.fromkeys(filter(None, named)))
