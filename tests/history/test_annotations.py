"""Results on pods: kube-scheduler-simulator's keys and shapes, within the limit of an object."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.builders import affinity, node, node_term, pod
from tests.scheduler.world import Lines, World, world

from kubesched.api.objects import Pod
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.protocol import ApiError
from kubesched.history.annotations import HISTORY, LEFT_OUT, LIMIT, PREFIX, Results
from kubesched.history.annotator import Annotator
from kubesched.history.record import AttemptRecord, FilterColumn, Names, RecordedVerdict, ScoreColumn
from kubesched.history.recorder import HistoryRecorder, Sink
from kubesched.scheduler.subscribers.publisher import Subscriber
from kubesched.testing.faulty_api import FaultyApi

KEYS = {
    "bind-result", "filter-result", "finalscore-result", "permit-result", "permit-result-timeout", "postfilter-result",
    "prebind-result", "prefilter-result", "prefilter-result-status", "prescore-result", "reserve-result",
    "result-history", "score-result", "selected-node",
}  # fmt: skip
"""The keys of the example in the simulator's README."""


async def annotated(here: World, sinks: list[Sink], created: Pod) -> dict[str, Any]:
    """Create a pod; returns the results on it, decoded."""
    annotator = Annotator(here.api, here.log)
    sinks.append(annotator.put)
    here.create(created)
    await here.settle(2)
    await annotator.close()
    found = here.pod(created.name).metadata.annotations
    ours = {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}
    return {key: value if key == "selected-node" else json.loads(value) for key, value in ours.items()}


@virtual_time
async def test_a_scheduled_pod_has_the_simulators_annotations(clock: VirtualClock) -> None:
    """All keys are there; scores are strings, final ones weighted; the history has the same once more."""
    sinks: list[Sink] = []
    nodes = [node("n1", cpu="4"), node("n2", cpu="2"), node("n3", cpu="0.5")]
    async with world(clock, *nodes, subscribers=[HistoryRecorder(clock, sinks=sinks)]) as here:
        found = await annotated(here, sinks, pod("web", cpu="1"))
    assert found.keys() == KEYS
    assert found["selected-node"] == "n1"
    assert found["bind-result"] == {"DefaultBinder": "success"}
    assert found["filter-result"]["n1"]["NodeResourcesFit"] == "passed"
    assert found["filter-result"]["n3"] == {
        **dict.fromkeys(found["filter-result"]["n3"], "passed"),
        "NodeResourcesFit": "Insufficient cpu",
    }
    assert found["finalscore-result"].keys() == found["score-result"].keys() == {"n1", "n2"}
    assert found["finalscore-result"]["n1"]["TaintToleration"] == "300"
    assert found["score-result"]["n1"]["TaintToleration"] == "0"
    assert found["prefilter-result-status"]["NodeResourcesFit"] == "success"
    (entry,) = found["result-history"]
    assert json.loads(entry[f"{PREFIX}score-result"]) == found["score-result"]
    assert entry.keys() == {f"{PREFIX}{key}" for key in KEYS - {"result-history"}}


@virtual_time
async def test_an_unschedulable_pod_is_not_tried_for_its_annotations(clock: VirtualClock) -> None:
    """Writing the result of a failed attempt wakes nobody, or the pod would be tried for ever."""
    sinks: list[Sink] = []
    async with world(clock, node("n1", cpu="4"), subscribers=[HistoryRecorder(clock, sinks=sinks)]) as here:
        found = await annotated(here, sinks, pod("huge", cpu="64"))
        await here.settle(60)
        assert here.attempts("huge") == 1
    assert found["selected-node"] == ""
    assert found["filter-result"]["n1"]["NodeResourcesFit"] == "Insufficient cpu"
    assert (found["score-result"], found["bind-result"]) == ({}, {})


@virtual_time
async def test_nodes_that_pre_filter_allows_are_named(clock: VirtualClock) -> None:
    """A pod whose affinity names one node, as in a DaemonSet, has that node in prefilter-result."""
    sinks: list[Sink] = []
    only = affinity(nodes=[node_term(name="n2")])
    async with world(clock, node("n1"), node("n2"), subscribers=[HistoryRecorder(clock, sinks=sinks)]) as here:
        found = await annotated(here, sinks, pod("agent", affinity=only))
    assert found["prefilter-result"] == {"NodeAffinity": ["n2"]}
    assert found["filter-result"].keys() == {"n2"}


def results(nodes: int, feasible: int) -> Results:
    """An attempt on many nodes; the later ones are rejected for two reasons, by turns."""
    codes = np.arange(nodes) % 2 + 1
    codes[:feasible] = 0
    fit = FilterColumn(
        "Fit",
        codes.astype(np.uint8),
        {1: RecordedVerdict("Unschedulable", ("no cpu",)), 2: RecordedVerdict("Unschedulable", ("no gpu",))},
    )
    scores = [
        ScoreColumn(f"Score{index}", 1, (np.arange(nodes) % 101).astype(np.uint8), whole=True) for index in range(6)
    ]
    mask = np.packbits(codes == 0).tobytes()
    names = Names(tuple(f"node-{index:05}" for index in range(nodes)), 0)
    record = AttemptRecord(
        1, "default", "web", "u", "s", 1, 0.0, names, node="node-00100",
        feasible=feasible, evaluated=nodes, mask=mask, filters=[fit], scores=scores,
    )  # fmt: skip
    return Results(record, ["NodeName", "Fit"], {"bind-result": {"DefaultBinder": "success"}})


@pytest.mark.parametrize("nodes", [300, 5000])
def test_the_limit_is_kept_with_the_best_and_the_refusing_nodes(nodes: int) -> None:
    """However often a pod is tried, all annotations fit; the chosen node and each reason stay, the rest is counted."""
    present = {"mine": "x" * 10_000}
    made = results(nodes, nodes // 2)
    for _ in range(4):
        present |= {key: value for key, value in made.annotations(present).items() if value is not None}
        assert sum(len(key.encode()) + len(value.encode()) for key, value in present.items()) <= LIMIT
    filtered = json.loads(present[f"{PREFIX}filter-result"])
    scores = json.loads(present[f"{PREFIX}score-result"])
    assert len(filtered) + int(present.get(LEFT_OUT, "0")) == nodes
    assert "node-00100" in scores
    assert "node-00100" in filtered
    assert {value.get("Fit") for value in filtered.values()} == {"passed", "no cpu", "no gpu"}
    assert json.loads(present[HISTORY])[-1][f"{PREFIX}filter-result"] == present[f"{PREFIX}filter-result"]
    assert (nodes == 5000) == (LEFT_OUT in present)


def test_a_small_result_keeps_the_whole_history_and_removes_the_old_remark() -> None:
    """What fits is kept in order, and nothing claims that nodes are missing."""
    made = results(10, 5).annotations({LEFT_OUT: "7", HISTORY: '[{"old":"1"}]'})
    assert made[LEFT_OUT] is None
    first, second = json.loads(made[HISTORY] or "")
    assert first == {"old": "1"}
    assert second[f"{PREFIX}selected-node"] == made[f"{PREFIX}selected-node"]


def test_no_room_means_no_annotations() -> None:
    """A pod whose own annotations fill the limit is left as it is."""
    assert results(10, 5).annotations({"mine": "x" * (LIMIT - 100)}) == {}


@virtual_time
async def test_a_missing_right_is_reported_once_and_harms_nothing(clock: VirtualClock) -> None:
    """Without the right to patch pods, pods are bound all the same, and the log says what to do."""

    sinks: list[Sink] = []
    async with world(clock, node("n1"), subscribers=[HistoryRecorder(clock, sinks=sinks)]) as here:
        forbidding, log = Forbidding(clock), Lines()
        annotator = Annotator(forbidding, log)
        sinks.append(annotator.put)
        for each in (pod("a"), pod("b")):
            here.create(each)
            forbidding.create(here.pod(each.name))
        await here.settle(2)
        await annotator.close()
        assert (here.node_of("a"), here.node_of("b")) == ("n1", "n1")
    (error,) = log.errors()
    assert "--annotate-results" in error


class Forbidding(FaultyApi):
    """An API server where pods may be read and not patched."""

    async def merge_patch(self, *args: Any, **more: Any) -> Any:
        raise ApiError(403, "Forbidden", "not for you")


@virtual_time
async def test_events_name_the_runner_up_only_if_asked(clock: VirtualClock) -> None:
    """The second-best node and its distance are in words that follow the event's own."""
    recorder = HistoryRecorder(clock)
    notes: list[str] = []

    class Look(Subscriber):
        def bound(self, attempt: Any) -> None:
            notes.append(recorder.runner_up(attempt))

    async with world(clock, node("n1", cpu="4"), node("n2", cpu="2"), subscribers=[recorder, Look()]) as here:
        here.create(pod("web", cpu="1"))
        await here.settle(2)
        assert here.events.of("Scheduled") == [("web", "Successfully assigned default/web to n1")]
    assert notes[0].startswith(" (runner-up n2, ")
    assert notes[0].endswith("points behind; 2 of 2 nodes fit)")
