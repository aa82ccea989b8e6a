"""Preemption in which extenders have a say: they see all candidates and may drop some, or choose other victims."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.plugins.default_preemption import DefaultPreemption, Trial, worded
from kubesched.scheduler.context import Attempt, Context
from kubesched.scheduler.ports import Extender, ExtenderError, ExtenderVictims

Made = tuple[PostFilterResult | None, Status]


async def post_filter(context: Context, attempt: Attempt, extenders: Sequence[Extender], diagnosis: Diagnosis) -> Made:
    """Run PostFilter; where DefaultPreemption has candidates, have the extenders that can preempt look at them.

    Another PostFilter plugin does not have them asked, in upstream neither.
    """
    framework, state = attempt.profile.engine.framework, attempt.state
    result, status = framework.run_post_filter(state, attempt.pod, diagnosis)
    asked = [extender for extender in extenders if extender.supports_preemption]
    plugin = next((each for each in framework.post_filter if isinstance(each, DefaultPreemption)), None)
    if not asked or plugin is None or plugin.name not in state or not status.is_success:
        return result, status
    result, status = await _choose(context, attempt, plugin, asked, state.read(plugin.name, list))
    return result, status if status.is_success else worded(status).by(plugin.name)


async def _choose(
    context: Context,
    attempt: Attempt,
    plugin: DefaultPreemption,
    extenders: Sequence[Extender],
    candidates: Sequence[Trial],
) -> Made:
    names = context.cluster.nodes.names
    victims = {names[trial.row]: ExtenderVictims(trial.victims, trial.violations) for trial in candidates}
    for extender in extenders:
        if not victims:
            break
        try:
            victims = dict(await extender.process_preemption(attempt.pod, victims))
        except ExtenderError as problem:
            if not extender.ignorable:
                return None, Status(Code.ERROR, str(problem))
            message = "Skipped extender as it returned error and has ignorable flag set"
            context.log(0, message, extender=extender.name, err=problem)
    if not victims:
        return PostFilterResult(""), unschedulable("no candidate node for preemption")
    return plugin.chosen(_trials(context, attempt, victims))


def _trials(context: Context, attempt: Attempt, victims: dict[str, ExtenderVictims]) -> list[Trial]:
    rows = context.cluster.nodes.row_of
    return [
        Trial(rows[name], attempt.state, victims=list(chosen.pods), violations=chosen.violations)
        for name, chosen in victims.items()
    ]
