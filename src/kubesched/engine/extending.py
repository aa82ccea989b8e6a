"""Extenders in a scheduling cycle: they narrow the feasible nodes, add scores, and choose victims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.engine.decision import Decision
from kubesched.engine.filtering import Feasible
from kubesched.engine.scoring import NO_EXTRA
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.extender import (
    Extender,
    ExtenderCall,
    ExtenderError,
    ExtenderFilterResult,
    Extenders,
    ExtenderVictims,
)
from kubesched.framework.plugin import MAX_NODE_SCORE, PostFilterResult
from kubesched.framework.preemption_contract import PostFilterAnswer
from kubesched.framework.status import Code, Status, unschedulable

if TYPE_CHECKING:
    from kubesched.engine.engine import Engine

MAX_EXTENDER_SCORE = 10


class ExtenderRound:
    """The extenders that are interested in one pod, in one cycle."""

    def __init__(
        self, engine: Engine, decision: Decision, extenders: Extenders, interested: Sequence[Extender]
    ) -> None:
        self._filtering = engine.filtering
        self._framework = engine.framework
        self._table = engine.cluster.nodes
        self._decision = decision
        self._extenders = extenders
        self._interested = interested

    @classmethod
    def begin(cls, engine: Engine, decision: Decision, extenders: Extenders) -> ExtenderRound | None:
        """None if no extender is interested in the pod."""
        interested = extenders.interested(decision.pod)
        return cls(engine, decision, extenders, interested) if interested else None

    # Filter

    async def filter(self, found: Feasible) -> Feasible | Diagnosis:
        """What extenders leave of the feasible nodes. If they refuse the nominated node, all other nodes are tried."""
        left = await self._filter(found)
        if isinstance(left, Diagnosis) and found.nominated:
            again = self._filtering.find(self._decision, try_nominated=False)
            left = again if isinstance(again, Diagnosis) else await self._filter(again)
        return left

    async def _filter(self, found: Feasible) -> Feasible | Diagnosis:
        """Ask the extenders in turn; each sees what the one before has left."""
        refused_by: dict[str, str] = {}
        self._decision.refused_by = refused_by
        left: Feasible | Diagnosis = found
        for extender in self._interested:
            if not extender.is_filter or isinstance(left, Diagnosis):
                continue
            nodes = self._nodes(left)
            answer = await self._ask_filter(extender, nodes)
            if answer is not None:
                passed = set(answer.nodes)
                refused_by.update((node.name, extender.name) for node in nodes if node.name not in passed)
                left = self._filtering.narrowed(left, answer.nodes, _statuses(answer))
        self._decision.begin_point()
        return left

    async def _ask_filter(self, extender: Extender, nodes: Sequence[api.Node]) -> ExtenderFilterResult | None:
        try:
            return await extender.filter(self._decision.pod, nodes)
        except ExtenderError as problem:
            if not extender.ignorable:
                raise
            self._decision.extender_calls.append(ExtenderCall(extender.name, "filter", problem))
            return None

    # Score

    async def score(self, found: Feasible) -> Mapping[str, Ints]:
        """Each extender's scores for every row, on the scale of plugins' scores."""
        prioritizers = [extender for extender in self._interested if extender.is_prioritizer]
        if not prioritizers:
            return NO_EXTRA
        decision, columns = self._decision, dict[str, Ints]()
        for extender, answer in await self._extenders.prioritize(prioritizers, decision.pod, self._nodes(found)):
            if isinstance(answer, BaseException):
                decision.extender_calls.append(ExtenderCall(extender.name, "prioritize", answer))
                continue
            decision.extender_calls.append(ExtenderCall(extender.name, "prioritize", scores=answer))
            column = columns.setdefault(extender.name, np.zeros(self._table.size, dtype=np.int64))
            for name, score in answer.items():
                if (row := self._table.row_of.get(name)) is not None:
                    column[row] += score * extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
        decision.begin_point()
        return columns

    # Preemption

    async def preempt(self, made: PostFilterAnswer) -> PostFilterAnswer:
        """Let extenders drop candidates of a preemption plugin, or choose other victims.

        Other PostFilter plugins do not have extenders asked, and neither has upstream.
        """
        plugin, decision = self._framework.preemption, self._decision
        extenders = [extender for extender in self._interested if extender.supports_preemption]
        if not extenders or plugin is None or not made[1].is_success:
            return made
        candidates = plugin.candidates(decision.state)
        if not candidates:
            return made
        names = self._table.names
        victims = {names[each.row]: ExtenderVictims(each.victims, each.violations) for each in candidates}
        for extender in extenders:
            if not victims:
                break
            try:
                victims = dict(await extender.process_preemption(decision.pod, victims))
            except ExtenderError as problem:
                if not extender.ignorable:
                    return None, _preemption_status(Status(Code.ERROR, str(problem)), plugin.name)
                decision.extender_calls.append(ExtenderCall(extender.name, "preempt", problem))
        if not victims:
            none = _preemption_status(unschedulable("no candidate node for preemption"), plugin.name)
            return PostFilterResult(""), none
        rows = self._table.row_of
        return plugin.choose(
            decision.state, [(rows[name], chosen.pods, chosen.violations) for name, chosen in victims.items()]
        )

    def _nodes(self, found: Feasible) -> list[api.Node]:
        nodes = self._table.nodes
        return [node for row in np.flatnonzero(found.mask).tolist() if (node := nodes[row]) is not None]


def _statuses(answer: ExtenderFilterResult) -> dict[str, Status]:
    refused = {name: Status(Code.UNSCHEDULABLE, why) for name, why in answer.failed.items()}
    for name, why in answer.unresolvable.items():
        refused[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, why)
    return refused


def _preemption_status(status: Status, plugin: str) -> Status:
    return Status(status.code, f"preemption: {status.message}", plugin=plugin)
