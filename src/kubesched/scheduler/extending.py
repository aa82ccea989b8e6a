"""A decision in which extenders have a say: they narrow the feasible nodes, add scores, and choose victims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.engine.decision import Decision, Outcome
from kubesched.engine.engine import NO_NODES, NOBODY_ELSE, Feasible
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.runtime import PluginError
from kubesched.framework.status import Code, Status
from kubesched.scheduler.context import Attempt, Context
from kubesched.scheduler.extended_preemption import post_filter
from kubesched.scheduler.ports import Extender, ExtenderError

MAX_NODE_SCORE = 100
MAX_EXTENDER_SCORE = 10


async def decide_with_extenders(context: Context, attempt: Attempt) -> Decision:
    """What `Engine.schedule` does, with the interested extenders asked where upstream asks them."""
    info, state = attempt.queued.info, attempt.state
    interested = [extender for extender in context.extenders if extender.is_interested(info.pod)]
    if not interested:
        return attempt.profile.engine.schedule(info, state=state, record=attempt.scores_told)
    try:
        return await _decide(context, attempt, interested)
    except PluginError as problem:
        return attempt.profile.engine.failed(info, state, problem)
    except ExtenderError as problem:
        return Decision(info, Outcome.ERROR, state, message=str(problem))


async def _decide(context: Context, attempt: Attempt, extenders: Sequence[Extender]) -> Decision:
    engine, info, state = attempt.profile.engine, attempt.queued.info, attempt.state
    record = engine.record or attempt.scores_told
    engine.start_laps()
    if not context.cluster.nodes.valid_count:
        return Decision(info, Outcome.ERROR, state, message=NO_NODES)
    refused_by: dict[str, str] = {}
    found = await _find(context, attempt, extenders, refused_by)
    if isinstance(found, Diagnosis):
        made = None
        if engine.framework.post_filter:
            made = await post_filter(context, attempt, extenders, found)
            engine.lap("PostFilter")
        decision = engine.unschedulable(info, state, found, made)
        decision.refused_by = refused_by
        if record:
            found.freeze()
        return decision
    decision = engine.decision_for(info, state, found, record=record)
    decision.refused_by = refused_by
    if found.size == 1:
        best: Ints = np.flatnonzero(found.mask)
    else:
        scores = await _scores(context, attempt, found, extenders)
        engine.resume_laps()
        best = engine.prioritize(info, state, found, decision if record else None, scores)
        engine.lap("Score")
    engine.choose(decision, best)
    return decision


async def _find(
    context: Context, attempt: Attempt, extenders: Sequence[Extender], refused_by: dict[str, str]
) -> Feasible | Diagnosis:
    engine, info, state = attempt.profile.engine, attempt.queued.info, attempt.state
    found = engine.find_feasible(info, state)
    if isinstance(found, Diagnosis):
        return found
    left = await _filtered(context, attempt, extenders, found, refused_by)
    engine.resume_laps()
    if isinstance(left, Diagnosis) and found.nominated:
        # The node the pod was promised will not do, so all others are looked at after all.
        refused_by.clear()
        found = engine.find_feasible(info, state, try_nominated=False)
        if isinstance(found, Diagnosis):
            return found
        left = await _filtered(context, attempt, extenders, found, refused_by)
        engine.resume_laps()
    return left


async def _filtered(
    context: Context, attempt: Attempt, extenders: Sequence[Extender], found: Feasible, refused_by: dict[str, str]
) -> Feasible | Diagnosis:
    """Ask the extenders in turn; each sees what the one before has left. Who refused which node is put down."""
    engine, pod = attempt.profile.engine, attempt.pod
    for extender in extenders:
        if not extender.is_filter:
            continue
        nodes = _nodes(context, found)
        try:
            answer = await extender.filter(pod, nodes)
        except ExtenderError as problem:
            if not extender.ignorable:
                raise
            message = "Skipping extender as it returned error and has ignorable flag set"
            context.log(0, message, extender=extender.name, err=problem)
            continue
        refused = {name: Status(Code.UNSCHEDULABLE, why) for name, why in answer.failed.items()}
        for name, why in answer.unresolvable.items():
            refused[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, why)
        passed = set(answer.nodes)
        refused_by.update((node.name, extender.name) for node in nodes if node.name not in passed)
        left = engine.narrowed(found, answer.nodes, refused)
        if isinstance(left, Diagnosis):
            return left
        found = left
    return found


async def _scores(
    context: Context, attempt: Attempt, found: Feasible, extenders: Sequence[Extender]
) -> Mapping[str, Ints]:
    """What each extender's scores add for every row, brought to the scale of plugins' scores."""
    asked = [extender for extender in extenders if extender.is_prioritizer]
    if not asked:
        return NOBODY_ELSE
    table, pod = context.cluster.nodes, attempt.pod
    nodes = _nodes(context, found)
    totals: dict[str, Ints] = {}
    context.metrics.goroutines("prioritizing_extender", len(asked))
    answers = await asyncio.gather(*(each.prioritize(pod, nodes) for each in asked), return_exceptions=True)
    context.metrics.goroutines("prioritizing_extender", -len(asked))
    for extender, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException):
            message = "Failed to run extender's priority function. No score given by this extender."
            context.log(5, message, error=answer, pod=pod, extender=extender.name)
            continue
        column = totals.setdefault(extender.name, np.zeros(table.size, dtype=np.int64))
        for name, score in answer.items():
            if attempt.scores_told:
                told = {"pod": pod, "extender": extender.name, "node": name, "score": score}
                context.log(10, "Extender scored node for pod", **told)
            if (row := table.row_of.get(name)) is not None:
                column[row] += score * extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
    return totals


def _nodes(context: Context, found: Feasible) -> list[api.Node]:
    nodes = context.cluster.nodes.nodes
    return [node for row in np.flatnonzero(found.mask).tolist() if (node := nodes[row]) is not None]
