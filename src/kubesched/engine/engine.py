"""One scheduling cycle: which nodes fit, which is best, and if none fits, what would make room.

`Engine.cycle` is the algorithm from top to bottom. It is a coroutine that waits only for extenders. The loop
awaits it; replays and tests, which have no extenders, run it to its end at once with `Engine.schedule`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.engine.batching import Batching
from kubesched.engine.decision import Decision
from kubesched.engine.extending import ExtenderRound
from kubesched.engine.failure import Failure
from kubesched.engine.filtering import Feasible, Filtering
from kubesched.engine.outcome import Outcome
from kubesched.engine.scoring import NO_EXTRA, Scoring
from kubesched.engine.tie_breaking import Best, Choose, TieBreaker
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.errors import PluginError
from kubesched.framework.extender import ExtenderError, Extenders
from kubesched.framework.preemption_contract import PostFilterAnswer
from kubesched.framework.runtime import Framework

Evict = Callable[[PostFilterAnswer], Awaitable[PostFilterAnswer]]
"""Deletes the victims of PostFilter's result; returns the result that counts."""


class Engine:
    """Decides for the pods of one profile."""

    def __init__(
        self,
        framework: Framework,
        random: Random,
        *,
        percentage_of_nodes_to_score: int = 0,
        choose: Choose | None = None,
        extended: bool = False,
        extenders: bool = False,
    ) -> None:
        """`extended` says whether extenders filter or score nodes, so that one feasible node is not enough; `extenders`
        that there are any, so that pods have no signatures."""
        self.framework = framework
        self.cluster = framework.cluster
        self._break_tie = TieBreaker(random, choose)
        self.batching = Batching(framework, self._break_tie, extenders=extenders)
        self.filtering = Filtering(framework, percentage_of_nodes_to_score, self.batching, extended=extended)
        self._scoring = Scoring(framework)
        self._batches = framework.cluster.features.opportunistic_batching

    def schedule(self, info: PodInfo, *, record: bool = False) -> Decision:
        """Choose a node for a pod, or find out why there is none. With `record`, every score and rejection is kept."""
        decision = Decision(info, detailed=record)
        self.decide(decision)
        decision.close()
        return decision

    def decide(self, decision: Decision) -> None:
        """Run a cycle without extenders."""
        _run_at_once(self.cycle(decision, None))

    async def cycle(self, decision: Decision, extenders: Extenders | None, evict: Evict | None = None) -> None:
        """The scheduling algorithm. The result is written to the decision. `evict` deletes victims as a part of
        PostFilter; without it, that is left to the caller."""
        decision.begin_point()
        try:
            if not self.cluster.nodes.valid_count:
                decision.has_no_nodes()
                return
            if self._batches and decision.cycle:
                self.batching.begin(decision)
            extender_round = None if extenders is None else ExtenderRound.begin(self, decision, extenders)
            found = self.filtering.find(decision)  # PreFilter, Filter
            if extender_round is not None and isinstance(found, Feasible):
                found = await extender_round.filter(found)
            if isinstance(found, Diagnosis):
                await self._make_room(decision, found, extender_round, evict)  # PostFilter
                return
            self._feasible(decision, found)
            if found.size == 1:
                best: Best = np.flatnonzero(found.mask)
            else:
                extra = NO_EXTRA if extender_round is None else await extender_round.score(found)
                best = self._scoring.best(decision, found, extra)  # PreScore, Score, NormalizeScore
                decision.end_point("Score")
            self._select(decision, best)
            self.batching.store(decision)
        except (PluginError, ExtenderError) as problem:
            decision.has_failed(problem)

    async def _make_room(
        self, decision: Decision, diagnosis: Diagnosis, extender_round: ExtenderRound | None, evict: Evict | None
    ) -> None:
        """No node fits: see whether PostFilter can make room, and word the message."""
        said = ""
        if self.framework.post_filter and not decision.skips_post_filter:
            made = self.framework.run_post_filter(decision.state, decision.pod, diagnosis)
            if extender_round is not None:
                made = await extender_round.preempt(made)
            if evict is not None and made[0] is not None and made[0].victims:
                made = await evict(made)
            decision.post_filter, decision.post_filter_status = made
            said = made[1].message
            decision.end_point("PostFilter", made[1].code.upstream)
        decision.found_none(diagnosis)
        decision.message = diagnosis.message(said)
        if decision.detailed:
            diagnosis.freeze()

    def _feasible(self, decision: Decision, found: Feasible) -> None:
        decision.found = found
        decision.feasible = found.size
        everywhere = found.looked_everywhere
        decision.evaluated = self.cluster.nodes.valid_count if everywhere else int(np.count_nonzero(found.looked_at))
        if decision.detailed:
            decision.feasible_rows = np.flatnonzero(found.mask)
            decision.diagnosis = self.filtering.rejected_elsewhere(found)

    def _select(self, decision: Decision, best: Best) -> None:
        """Take one of the best nodes."""
        decision.best_rows = best
        decision.chosen = self.cluster.nodes.names[self._break_tie(best)]
        decision.outcome = Outcome.SCHEDULED

    # After the decision

    def place(self, decision: Decision) -> bool:
        """Assume the pod on its node and run Reserve and Permit. If one rejects it, everything is undone and the
        decision says why."""
        framework, state, node = self.framework, decision.state, decision.chosen
        decision.reopen()
        pod = decision.assumed = on_node(decision.pod, node)
        self.cluster.assume(decision.info, node)
        rejection = framework.run_reserve(state, pod, node)
        if rejection is None:
            rejection, decision.permit_timeouts = framework.run_permit(state, pod, node)
        if rejection is None:
            return True
        self.take_back(decision)
        decision.refused(Failure.of_refusal(rejection))
        return False

    def take_back(self, decision: Decision) -> None:
        """Run Unreserve, and forget the assumed pod."""
        self.framework.run_unreserve(decision.state, decision.assumed, decision.chosen)
        self.cluster.forget(decision.assumed.uid)


def on_node(pod: api.Pod, node_name: str) -> api.Pod:
    """The pod as it will be once bound."""
    return replace(pod, spec=replace(pod.spec, node_name=node_name))


def _run_at_once(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError("a scheduling cycle without extenders has waited")
