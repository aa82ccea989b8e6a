"""A decision in which extenders have a say: they narrow the feasible nodes, add scores, and choose victims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.engine.decision import Decision, Outcome
from kubesched.engine.engine import NO_NODES, Feasible
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
        return attempt.profile.engine.schedule(info, state=state)
    try:
        return await _decide(context, attempt, interested)
    except PluginError as problem:
        return attempt.profile.engine.failed(info, state, problem)
    except ExtenderError as problem:
        return Decision(info, Outcome.ERROR, state, message=str(problem))


async def _decide(context: Context, attempt: Attempt, extenders: Sequence[Extender]) -> Decision:
    engine, info, state = attempt.profile.engine, attempt.queued.info, attempt.state
    engine.start_laps()
    if not context.cluster.nodes.valid_count:
        return Decision(info, Outcome.ERROR, state, message=NO_NODES)
    found = await _find(context, attempt, extenders)
    if isinstance(found, Diagnosis):
        if not engine.framework.post_filter:
            return engine.unschedulable(info, state, found)
        made = await post_filter(context, attempt, extenders, found)
        engine.lap("PostFilter")
        return engine.unschedulable(info, state, found, made)
    decision = engine.decision_for(info, state, found)
    if found.size == 1:
        best: Ints = np.flatnonzero(found.mask)
    else:
        scores = await _scores(context, info.pod, found, extenders)
        engine.resume_laps()
        best = engine.prioritize(info, state, found, None, scores)
        engine.lap("Score")
    engine.choose(decision, best)
    return decision


async def _find(context: Context, attempt: Attempt, extenders: Sequence[Extender]) -> Feasible | Diagnosis:
    engine, info, state = attempt.profile.engine, attempt.queued.info, attempt.state
    found = engine.find_feasible(info, state)
    if isinstance(found, Diagnosis):
        return found
    left = await _filtered(context, attempt, extenders, found)
    engine.resume_laps()
    if isinstance(left, Diagnosis) and found.nominated:
        # The node the pod was promised will not do, so all others are looked at after all.
        found = engine.find_feasible(info, state, try_nominated=False)
        left = found if isinstance(found, Diagnosis) else await _filtered(context, attempt, extenders, found)
        engine.resume_laps()
    return left


async def _filtered(
    context: Context, attempt: Attempt, extenders: Sequence[Extender], found: Feasible
) -> Feasible | Diagnosis:
    """Ask the extenders in turn; each sees what the one before has left."""
    engine, pod = attempt.profile.engine, attempt.pod
    for extender in extenders:
        if not extender.is_filter:
            continue
        try:
            answer = await extender.filter(pod, _nodes(context, found))
        except ExtenderError as problem:
            if not extender.ignorable:
                raise
            message = "Skipping extender as it returned error and has ignorable flag set"
            context.log(0, message, extender=extender.name, err=problem)
            continue
        refused = {name: Status(Code.UNSCHEDULABLE, why) for name, why in answer.failed.items()}
        for name, why in answer.unresolvable.items():
            refused[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, why)
        left = engine.narrowed(found, answer.nodes, refused)
        if isinstance(left, Diagnosis):
            return left
        found = left
    return found


async def _scores(context: Context, pod: api.Pod, found: Feasible, extenders: Sequence[Extender]) -> Ints | None:
    """What the extenders' scores add for every row, brought to the scale of plugins' scores."""
    asked = [extender for extender in extenders if extender.is_prioritizer]
    if not asked:
        return None
    table = context.cluster.nodes
    nodes = _nodes(context, found)
    totals = np.zeros(table.size, dtype=np.int64)
    context.metrics.goroutines("prioritizing_extender", len(asked))
    answers = await asyncio.gather(*(each.prioritize(pod, nodes) for each in asked), return_exceptions=True)
    context.metrics.goroutines("prioritizing_extender", -len(asked))
    for extender, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException):
            message = "Failed to run extender's priority function. No score given by this extender."
            context.log(5, message, error=answer, pod=pod, extender=extender.name)
            continue
        for name, score in answer.items():
            if (row := table.row_of.get(name)) is not None:
                totals[row] += score * extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
    return totals


def _nodes(context: Context, found: Feasible) -> list[api.Node]:
    nodes = context.cluster.nodes.nodes
    return [node for row in np.flatnonzero(found.mask).tolist() if (node := nodes[row]) is not None]
