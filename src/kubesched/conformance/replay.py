"""Runs a recorded scenario through the engine and records its decisions in the corpus's format."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.config.errors import ConfigError
from kubesched.config.load import default, load
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.conformance.claims import services, show_claims, write_claims
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.status import Status
from kubesched.plugins import in_tree_registry

Result = dict[str, Any]
"""One attempt in the corpus's JSON format."""


class Expect(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of a scenario: a configuration error, or a result per attempt."""

    error: str | None = None
    results: list[Result] = []

    def __post_init__(self) -> None:
        for index, result in enumerate(self.results):
            if not isinstance(result.get("pod"), str) or not isinstance(result.get("attempt"), int):
                raise ValueError(f"results[{index}] must have a pod and an attempt")


class RecordedScenario(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a corpus file."""

    name: str
    objects: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    expect: Expect
    config: dict[str, Any] | None = None


def read_scenarios(path: Path) -> Iterator[RecordedScenario]:
    """Read the scenarios of a corpus file, gzipped or not."""
    decoder = msgspec.json.Decoder(RecordedScenario)
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as problem:
                raise ValueError(f"{path}:{number}: not a scenario: {problem}") from None


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            yield from lines
    except (EOFError, OSError, zlib.error) as problem:
        raise ValueError(f"{path}: cannot be read: {problem}") from None


def replay(scenario: RecordedScenario) -> Expect:
    """Return our decisions in a scenario."""
    registry = in_tree_registry()
    cluster = ClusterState()
    try:
        config = _config(scenario.config, registry.points)
    except ConfigError as problem:
        return Expect(error=str(problem))
    for raw in scenario.objects:
        obj = api.decode(raw)
        cluster.set(_unqueued(obj) if isinstance(obj, api.Pod) and not obj.node_name else obj)
    names = cluster.nodes.names
    engines = build_engines(
        config,
        registry,
        cluster,
        Random(0),
        choose=lambda rows: min(rows, key=lambda row: names[row]),
        services=services(cluster),
    )
    replayed = Replay(cluster, engines)
    for raw in scenario.pods:
        replayed.schedule(api.decode_as(api.Pod, raw))
    return Expect(results=replayed.results)


def _config(raw: dict[str, Any] | None, points: Mapping[str, frozenset[str]]) -> KubeSchedulerConfiguration:
    config = default() if raw is None else load(raw, points=points).config
    # The recordings evaluate every node.
    profiles = tuple(msgspec.structs.replace(p, percentage_of_nodes_to_score=None) for p in config.profiles)
    return msgspec.structs.replace(config, percentage_of_nodes_to_score=0, profiles=profiles)


def _unqueued(pod: api.Pod) -> api.Pod:
    """Return a nominated pod that is not in the queue: kube-scheduler knows only its name and its nomination."""
    meta = api.ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    return api.Pod(metadata=meta, status=api.PodStatus(nominated_node_name=pod.nominated_node_name))


class Replay:
    """Schedules a scenario's pods, one after another."""

    def __init__(self, cluster: ClusterState, engines: Mapping[str, Engine]) -> None:
        self._cluster = cluster
        self._engines = engines
        self.results: list[Result] = []

    def schedule(self, pod: api.Pod, attempt: int = 1) -> None:
        """Try to schedule a pod, and once more if preemption made room for it."""
        result: Result = {"pod": pod.key, "attempt": attempt}
        self.results.append(result)
        self._attempt(pod, attempt, result)
        if "claims" not in result:
            show_claims(result, self._cluster)

    def _attempt(self, pod: api.Pod, attempt: int, result: Result) -> None:
        engine = self._engines.get(pod.scheduler_name)
        if engine is None:
            result["error"] = f"no profile {pod.scheduler_name}"
            return
        waiting = engine.framework.run_pre_enqueue(pod)
        if waiting is not None:
            result |= {"preFilter": _status(waiting), "message": "PreEnqueue"}
            return
        decision = engine.schedule(self._cluster.classes.info(pod), record=True)
        if decision.outcome in (Outcome.ERROR, Outcome.NO_NODES):
            result["error"] = decision.message
        elif decision.outcome is Outcome.UNSCHEDULABLE:
            self._unschedulable(result, decision, attempt)
        else:
            self._placed(result, decision, engine)

    def _placed(self, result: Result, decision: Decision, engine: Engine) -> None:
        names = self._cluster.nodes.names
        assert decision.feasible_rows is not None
        assert decision.best_rows is not None
        if decision.diagnosis is not None:
            result["rejected"] = _rejected(decision.diagnosis)
        result["feasible"] = sorted(names[row] for row in decision.feasible_rows.tolist())
        if decision.feasible > 1:
            result |= _scores(decision, result["feasible"])
        result["best"] = sorted(names[row] for row in decision.best_rows.tolist())
        if not engine.place(decision):
            result["reserve"] = _status(decision.objections[0].status)
        elif (failed := write_claims(engine.framework, decision)) is not None:
            engine.take_back(decision)
            result["error"] = f"PreBind: {failed.message}"
        else:
            result["node"] = decision.node

    def _unschedulable(self, result: Result, decision: Decision, attempt: int) -> None:
        diagnosis = decision.diagnosis
        assert diagnosis is not None
        if diagnosis.pre_filter is not None:
            result["preFilter"] = _status(diagnosis.pre_filter)
        result["rejected"] = _rejected(diagnosis)
        result["message"] = decision.message
        result["unschedulablePlugins"] = sorted(diagnosis.unschedulable_plugins)
        status, room = decision.post_filter_status, decision.post_filter
        if status is None:
            return
        result["postFilter"] = {"code": status.code.upstream, "message": status.message}
        if not status.is_success or room is None:
            return
        result["postFilter"] |= {
            "nominatedNode": room.nominated_node_name,
            "victims": sorted(victim.pod.key for victim in room.victims),
        }
        for victim in room.victims:
            self._cluster.remove_pod(victim.pod.uid)
        if attempt == 1:
            show_claims(result, self._cluster)
            promised = msgspec.structs.replace(decision.pod.status, nominated_node_name=room.nominated_node_name)
            self.schedule(msgspec.structs.replace(decision.pod, status=promised), attempt=2)


def _status(status: Status) -> Result:
    return {"plugin": status.plugin, "code": status.code.upstream, "reasons": sorted(status.reasons)}


def _rejected(diagnosis: Diagnosis) -> dict[str, Result]:
    names = diagnosis.table.names
    return {names[row]: _status(status) for status, rows in diagnosis.statuses() for row in rows.tolist()}


def _scores(decision: Decision, feasible: list[str]) -> Result:
    if decision.scores is None:
        return {"scores": {name: {} for name in feasible}, "totals": dict.fromkeys(feasible, 0)}
    by_node = list(decision.scores.by_node())
    return {
        "scores": {node: scores for node, scores, _ in by_node},
        "totals": {node: total for node, _, total in by_node},
    }
