"""Records and the queue as JSON. The shapes are documented in docs/reference/decision-log.md."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kubesched.base.clock import Clock
from kubesched.base.types import JSON
from kubesched.framework.events import Action, ClusterEvent, name_of
from kubesched.history.columns import unpacked
from kubesched.history.record import AttemptRecord, Rejection, ScoreColumn
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.queue.snapshot import WaitingState

VERSION = "kubesched.io/v1alpha1"
BEST = 10
"""Nodes with scores in a summary."""
NAMED = 100
"""Nodes that are named per reason in a summary; all are counted."""


def timestamp(seconds: float) -> str:
    """A time as RFC 3339, in UTC, with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def head(record: AttemptRecord) -> JSON:
    """What an attempt was about and how it ended, without nodes."""
    return {
        "number": record.number,
        "time": timestamp(record.started),
        "namespace": record.namespace,
        "pod": record.name,
        "uid": record.uid,
        "profile": record.profile,
        "attempt": record.attempt,
        "outcome": record.outcome,
        "binding": record.binding,
        "finished": record.finished,
        "node": record.node,
        "message": record.message,
        "seconds": round(record.seconds, 6),
        "evaluatedNodes": record.evaluated,
        "feasibleNodes": record.feasible,
        "nominatedNode": record.nominated_node,
        "victims": list(record.victims),
        "unschedulablePlugins": list(record.unschedulable_plugins),
    }


def summary(record: AttemptRecord) -> JSON:
    """An attempt with its best nodes and its reasons."""
    rejected = record.pre_filter
    return {
        **head(record),
        "points": [{"name": run.point, "status": run.status, "seconds": run.seconds} for run in record.points],
        "preFilter": None
        if rejected is None
        else {"plugin": rejected[0], "code": rejected[1].code, "reasons": list(rejected[1].reasons)},
        "scores": [
            {
                "node": each.node,
                "total": each.total,
                "plugins": {name: {"score": raw, "final": final} for name, (raw, final) in each.plugins.items()},
            }
            for each in record.best(BEST)
        ],
        "rejections": [_rejection(each) for each in record.rejections()],
    }


def columns(record: AttemptRecord) -> JSON:
    """Everything that is known of an attempt: a number per node and plugin."""
    rows = record.feasible_rows()
    return {
        **summary(record),
        "columns": {
            "nodes": list(record.names.names),
            "filtered": unpacked(record.looked_at, record.size).astype("uint8").tolist(),
            "feasible": rows.tolist(),
            "filters": [
                {
                    "plugin": each.plugin,
                    "codes": each.codes.tolist(),
                    "verdicts": {
                        str(code): {"code": verdict.code, "reasons": list(verdict.reasons)}
                        for code, verdict in each.verdicts.items()
                    },
                }
                for each in record.filters
            ],
            "overruled": {
                record.names.names[row]: {"plugin": plugin, "code": verdict.code, "reasons": list(verdict.reasons)}
                for row, (plugin, verdict) in record.overruled.items()
            },
            "scores": [_scores(each, record) for each in record.scores],
        },
    }


def _scores(column: ScoreColumn, record: AttemptRecord) -> JSON:
    rows = record.feasible_rows()
    return {
        "plugin": column.plugin,
        "weight": column.weight,
        "score": column.given(rows).tolist(),
        "final": column.final(rows).tolist(),
    }


def _rejection(each: Rejection) -> JSON:
    return {
        "plugin": each.plugin,
        "code": each.code,
        "reasons": list(each.reasons),
        "count": len(each.nodes),
        "nodes": each.nodes[:NAMED],
    }


def waiting(state: WaitingState, queue: SchedulingQueue, clock: Clock) -> JSON:
    """A pod of the queue."""
    offset = clock.now() - clock.monotonic()
    plugins = (*state.unschedulable_plugins, *state.pending_plugins, *filter(None, (state.gating_plugin,)))
    return {
        "namespace": state.pod.namespace,
        "pod": state.pod.name,
        "uid": state.pod.uid,
        "profile": state.pod.scheduler_name,
        "place": state.place,
        "position": state.position,
        "attempts": state.attempts,
        "since": _moment(state.since, offset),
        "backoffUntil": _moment(state.backoff_until, offset),
        "retriedAt": _moment(state.retried_at, offset),
        "unschedulablePlugins": list(state.unschedulable_plugins),
        "pendingPlugins": list(state.pending_plugins),
        "gatingPlugin": state.gating_plugin,
        "wokenBy": {name: _events(queue.wakes(state.pod.scheduler_name, name)) for name in plugins},
    }


def _moment(time: float | None, offset: float) -> str | None:
    return None if time is None else timestamp(time + offset)


def _events(events: Iterable[ClusterEvent]) -> list[JSON]:
    found: dict[str, Action] = {}
    for event in events:
        resource = name_of(event.resource)
        found[resource] = found.get(resource, Action(0)) | event.action
    return [{"resource": resource, "actions": _actions(action)} for resource, action in found.items()]


def _actions(action: Action) -> list[str]:
    if action == Action.ALL:
        return ["*"]
    whole = action & Action.UPDATE == Action.UPDATE
    single = action & ~Action.UPDATE if whole else action
    words = ["".join(map(str.capitalize, (each.name or "").split("_"))) for each in single]
    return [*words, "Update"] if whole else words
