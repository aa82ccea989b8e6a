"""An attempt as annotations of kube-scheduler-simulator, within the limit of an object's annotations.

Values are JSON with sorted keys and numbers as strings, as the simulator writes them. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Final

import msgspec
import numpy as np

from kubesched.config.duration import Duration
from kubesched.history.record import AttemptRecord
from kubesched.scheduler.attempt import Attempt

PREFIX: Final = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY: Final = f"{PREFIX}result-history"
LEFT_OUT: Final = "kubesched.io/results-left-out"
LIMIT: Final = 256 * 1024
"""Bytes that all annotations of an object may have together, keys included."""
SPARE: Final = 1024
MOST_NODES: Final = 2000
"""More nodes cannot fit, however short their names are."""
PASSED, SUCCESS, WAIT, VICTIM = "passed", "success", "wait", "preemption victim"

_encoder = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True)
class Results:
    """What an annotation needs beside the record: small things that are copied when the attempt has ended."""

    record: AttemptRecord
    filters: Sequence[str] = ()
    """The Filter plugins that ran, in order."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """The annotations that have no entry per node, by key without the prefix."""

    @classmethod
    def of(cls, record: AttemptRecord, attempt: Attempt) -> Results:
        """The results of an attempt that has ended."""
        framework, skipped = attempt.profile.engine.framework, attempt.state.skip_filter
        filters = [each.name for each in framework.filters if each.name not in skipped]
        placed = bool(attempt.assumed.uid)
        reserve = _run(attempt, "Reserve", framework.reserve) if placed else {}
        permitted = placed and not any(each.point == "Reserve" for each in attempt.objections)
        permit = _run(attempt, "Permit", framework.permit) if permitted else {}
        binds = any(run.point == "Bind" for run in attempt.points)
        small: dict[str, Any] = {
            "prefilter-result": dict(record.narrowed),
            "prefilter-result-status": _pre_filter(attempt),
            "prescore-result": {}
            if attempt.skip_score is None
            else {each.name: "" if each.name in attempt.skip_score else SUCCESS for each in framework.pre_score},
            "postfilter-result": _post_filter(attempt),
            "reserve-result": reserve,
            "permit-result": permit | dict.fromkeys(attempt.permit_timeouts, WAIT),
            "permit-result-timeout": {
                each.name: _duration(attempt.permit_timeouts.get(each.name, 0.0))
                for each in framework.permit
                if each.name in permit
            },
            "prebind-result": _run(attempt, "PreBind", framework.pre_bind) if binds else _objected(attempt, "PreBind"),
            "bind-result": _run(attempt, "Bind", framework.bind[:1]) if binds else {},
        }
        small |= _extenders(attempt)
        return cls(record, filters, small)

    def annotations(self, present: Mapping[str, str]) -> dict[str, str | None]:
        """The annotations to write to a pod that has these. None stands for one to remove."""
        others = {key: value for key, value in present.items() if not key.startswith(PREFIX) and key != LEFT_OUT}
        budget = LIMIT - SPARE - _size(others)
        order = self._order()
        keep = min(len(order), MOST_NODES)
        while True:
            made = self._made(order[:keep], len(order) - keep)
            newest = _text([made])
            size = _size(made) + len(HISTORY) + len(newest.encode())
            if size <= budget or not keep:
                break
            keep = min(keep - 1, int(keep * max(budget, 0) / size))
        if size > budget:
            return {}  # the pod's own annotations leave no room
        history = _extended(present.get(HISTORY, "[]"), made, budget - size + len(newest.encode()))
        stale: dict[str, str | None] = {LEFT_OUT: None} if LEFT_OUT in present and LEFT_OUT not in made else {}
        return stale | made | {HISTORY: history}

    def _made(self, nodes: Sequence[int], left_out: int) -> dict[str, str]:
        names = self.record.names.names
        given, final = self._scores(nodes)
        found = {
            **self.small,
            "filter-result": {names[row]: self._filtered(row) for row in nodes},
            "score-result": given,
            "finalscore-result": final,
        }
        made = {f"{PREFIX}{key}": _text(value) for key, value in sorted(found.items())}
        made[f"{PREFIX}selected-node"] = self.record.node
        if left_out:
            made[LEFT_OUT] = str(left_out)
        return made

    def _filtered(self, row: int) -> dict[str, str]:
        """A node's results up to the first plugin that rejects it: the simulator calls no other."""
        record = self.record
        codes = {column.plugin: column.verdicts.get(int(column.codes[row])) for column in record.filters}
        if row in record.overruled:
            plugin, verdict = record.overruled[row]
            codes = {plugin: verdict}
        results: dict[str, str] = {}
        for plugin in self.filters:
            rejected = codes.get(plugin)
            results[plugin] = PASSED if rejected is None else ", ".join(rejected.reasons)
            if rejected is not None:
                break
        return results

    def _scores(self, nodes: Sequence[int]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
        record = self.record
        rows = record.feasible_rows()
        if not record.scores:
            return {}, {}
        at = np.flatnonzero(np.isin(rows, np.array(nodes, dtype=np.int64)))
        given: dict[str, dict[str, str]] = {record.names.names[row]: {} for row in rows[at].tolist()}
        final: dict[str, dict[str, str]] = {name: {} for name in given}
        for column in record.scores:
            both = zip(given, column.given(rows, at).tolist(), column.final(rows, at).tolist(), strict=True)
            for name, raw, weighted in both:
                given[name][column.plugin], final[name][column.plugin] = str(raw), str(weighted)
        return given, final

    def _order(self) -> list[int]:
        """Rows by how much they tell: the chosen one, then by turns the best of the others and some per rejection."""
        record = self.record
        rows, totals = record.totals()
        best = rows[np.argsort(-totals, kind="stable")].tolist()
        row_of = {name: row for row, name in enumerate(record.names.names)}
        if record.node in row_of and row_of[record.node] in best:
            best.remove(row_of[record.node])
            best.insert(0, row_of[record.node])
        groups = [[row_of[name] for name in each.nodes] for each in record.rejections()]
        refused = [row for row in chain.from_iterable(zip_longest(*groups)) if row is not None]
        return [row for row in chain.from_iterable(zip_longest(best, refused)) if row is not None]


def _extended(present: str, made: Mapping[str, str], budget: int) -> str:
    """The history with one more result, without the oldest ones that have no room."""
    try:
        entries = msgspec.json.decode(present, type=list[dict[str, str]])
    except msgspec.MsgspecError:
        entries = []  # written by another program
    texts = [_text(each) for each in (*entries, made)]
    sizes = [len(each.encode()) + 1 for each in texts]
    first = 0
    while first < len(texts) - 1 and sum(sizes[first:]) + 1 > budget:
        first += 1
    return f"[{','.join(texts[first:])}]"


def _text(value: object) -> str:
    return _encoder.encode(value).decode()


def _size(annotations: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


# What ran beside Filter and Score


def _run(attempt: Attempt, point: str, plugins: Iterable[Any]) -> dict[str, str]:
    """The results of the plugins at a point after the decision, up to the one that objected."""
    objected = _objected(attempt, point)
    results: dict[str, str] = {}
    for plugin in plugins:
        results[plugin.name] = objected.get(plugin.name, SUCCESS)
        if plugin.name in objected:
            break
    return results


def _objected(attempt: Attempt, point: str) -> dict[str, str]:
    return {each.plugin: each.reason for each in attempt.objections if each.point == point}


def _pre_filter(attempt: Attempt) -> dict[str, str]:
    """A plugin that skips has an empty text, since its status is no success and has no message."""
    rejected = attempt.diagnosis.pre_filter if attempt.diagnosis is not None else None
    results: dict[str, str] = {}
    for plugin in attempt.profile.engine.framework.pre_filter:
        if rejected is not None and rejected.plugin == plugin.name:
            return results | {plugin.name: rejected.message}
        results[plugin.name] = "" if plugin.name in attempt.state.skip_filter else SUCCESS
    return results


def _post_filter(attempt: Attempt) -> dict[str, dict[str, str]]:
    made = attempt.post_filter
    if made is None or not made.nominated_node_name:
        return {}
    status = attempt.post_filter_status
    plugins = attempt.profile.engine.framework.post_filter
    name = status.plugin if status is not None and status.plugin else plugins[0].name
    return {made.nominated_node_name: {name: VICTIM}}


def _extenders(attempt: Attempt) -> dict[str, Any]:
    """The answers of extenders, as their Go types are encoded; only where there was one."""
    found: dict[str, Any] = {}
    failed: dict[str, dict[str, str]] = {}
    for node, extender in attempt.refused_by.items():
        failed.setdefault(extender, {})[node] = ""
    if failed:
        found["extender-filter-result"] = {
            name: {"Nodes": None, "NodeNames": None, "FailedNodes": nodes} for name, nodes in failed.items()
        }
    scored = {each.extender: each.scores for each in attempt.extender_calls if each.verb == "prioritize"}
    if scored:
        found["extender-prioritize-result"] = {
            name: [{"Host": node, "Score": score} for node, score in scores.items()] for name, scores in scored.items()
        }
    errors = [each for each in attempt.extender_calls if each.error is not None]
    for verb in ("preempt", "bind"):
        results = {each.extender: {"Error": str(each.error)} for each in errors if each.verb == verb}
        if results:
            found[f"extender-{verb}-result"] = results
    return found


def _duration(seconds: float) -> str:
    return str(Duration(round(seconds * 1e9)))
