"""The smallest changes that help. Each is tried out: it is shown only if the pod then gets a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

import msgspec

from kubesched.api import objects as api
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.engine.filtering import Feasible
from kubesched.explain.change import Change, applied
from kubesched.explain.commands import recreate
from kubesched.explain.evicting import evictions
from kubesched.explain.nearness import nearest_first
from kubesched.explain.rules.known import fixes_of
from kubesched.explain.survey import Survey
from kubesched.framework.errors import PluginError

MOST = 5
MOST_TRIES = 60
ROWS_PER_COMBINATION = 2
MOST_COMBINATIONS = 10
CHOICES_PER_PLUGIN = 3


class Suggestion(msgspec.Struct, frozen=True, rename="camel"):
    """Changes after which the pod gets a node. That was verified by deciding again."""

    words: str
    kinds: tuple[str, ...]
    cost: float
    """How much it asks; only the order means something."""
    node: str
    """Where the pod then goes."""
    nodes: int
    """How many nodes then fit."""
    commands: tuple[str, ...] = ()


class Tried:
    """A suggestion together with the changes themselves, for those who want to make them."""

    __slots__ = ("changes", "suggestion")

    def __init__(self, suggestion: Suggestion, changes: tuple[Change, ...]) -> None:
        self.suggestion = suggestion
        self.changes = changes


def suggest(
    engines: Mapping[str, Engine], pod: api.Pod, survey: Survey, before: tuple[Change, ...] = (), most: int = MOST
) -> list[Tried]:
    """Verified suggestions, the one that asks least first. `before` are changes that the survey was made after."""
    found: list[Tried] = []
    seen: set[tuple[str, ...]] = set()
    kinds: set[tuple[str, ...]] = set()
    for plan in islice(_plans(survey, before), MOST_TRIES):
        words = tuple(sorted({change.words for change in plan}))
        kind = tuple(sorted({change.kind for change in plan}))
        if words in seen or kind in kinds or any(set(kind) > set(other) for other in kinds):
            continue
        seen.add(words)
        tried = attempt(engines, pod, plan)
        if tried is not None:
            found.append(tried)
            kinds.add(kind)
            if len(found) == most:
                break
    return found


def attempt(engines: Mapping[str, Engine], pod: api.Pod, plan: tuple[Change, ...]) -> Tried | None:
    """Decide again with the changes made; None if the pod still gets no node."""
    cluster = next(iter(engines.values())).cluster
    with applied(cluster, plan, pod) as changed:
        engine = engines.get(changed.scheduler_name)
        if engine is None or changed.node_name:
            return None
        try:
            if engine.framework.run_pre_enqueue(changed) is not None:
                return None
            info = cluster.classes.info(changed)
            # Without PostFilter: a preemption would be another answer, and takes long.
            found = engine.filtering.find(Decision(info))
        except PluginError:
            return None
        if not isinstance(found, Feasible):
            return None
        decision = engine.schedule(info)
    if not decision.node:
        return None
    suggestion = Suggestion(
        words=", and ".join(dict.fromkeys(change.words for change in plan)) + _template(plan, pod),
        kinds=tuple(dict.fromkeys(change.kind for change in plan)),
        cost=round(_cost(plan), 2),
        node=decision.node,
        nodes=decision.feasible,
        commands=tuple(_commands(plan, pod, changed)),
    )
    return Tried(suggestion, plan)


def _commands(plan: Sequence[Change], pod: api.Pod, changed: api.Pod) -> Iterator[str]:
    """The plan for a shell. A pod of a workload has no command of its own, since the template makes the next one."""
    for change in plan:
        if change.edit is None or not _needs_new_pod(plan):
            yield from change.commands
    if _needs_new_pod(plan) and not _workload(pod):
        yield recreate(pod, changed)


def _needs_new_pod(plan: Sequence[Change]) -> bool:
    return any(change.edit is not None and not change.commands for change in plan)


def _template(plan: Sequence[Change], pod: api.Pod) -> str:
    owner = _workload(pod)
    return f", in the pod template of {owner}" if owner and _needs_new_pod(plan) else ""


def _workload(pod: api.Pod) -> str:
    """The workload that a pod belongs to, if any. A ReplicaSet with a hash in its name belongs to a Deployment."""
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return ""
    suffix = f"-{pod.labels.get('pod-template-hash', '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return f"Deployment {owner.name.removesuffix(suffix)}"
    return f"{owner.kind} {owner.name}"


def _cost(plan: Sequence[Change]) -> float:
    return sum(change.cost for change in {change.words: change for change in plan}.values())


def _plans(survey: Survey, before: tuple[Change, ...]) -> Iterator[tuple[Change, ...]]:
    """Sets of changes to try, cheapest first."""
    plans: dict[tuple[str, ...], tuple[Change, ...]] = {}
    if before and len(survey.feasible_without()):
        plans[()] = ()
    for row in _candidates(survey):
        for plan in _on_row(survey, row):
            plans.setdefault(tuple(change.words for change in plan), plan)
    for change in evictions(survey):
        plans.setdefault((change.words,), (change,))
    return ((*before, *plan) for plan in sorted(plans.values(), key=lambda plan: (_cost(plan), len(plan))))


def _candidates(survey: Survey) -> Iterator[int]:
    """Rows of every combination of rejecting plugins, those first that lack the least."""
    for _, rows in survey.combinations()[:MOST_COMBINATIONS]:
        yield from nearest_first(survey, rows)[:ROWS_PER_COMBINATION].tolist()


def _on_row(survey: Survey, row: int) -> Iterator[tuple[Change, ...]]:
    """One change for each plugin that rejects the row. A plugin without one may be satisfied by the others'."""
    choices = [fixes_of(survey, verdict, row)[:CHOICES_PER_PLUGIN] for verdict in survey.refusers(row)]
    for chosen in islice(product(*filter(None, choices)), 30):
        plan = tuple({change.words: change for change in chosen}.values())
        if plan:
            yield plan
