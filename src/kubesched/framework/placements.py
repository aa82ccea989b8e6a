"""Placements: sets of nodes that a pod group is tried on, and the plugins that propose and score them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Mask
from kubesched.framework.errors import described
from kubesched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE
from kubesched.framework.status import Status, error, unschedulable

if TYPE_CHECKING:
    from kubesched.framework.runtime import Framework

NO_PLACEMENTS = unschedulable("no feasible placements found")


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Some nodes, by row of the node table."""

    name: str
    rows: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """A placement, and the pods of the group that fit there."""

    placement: Placement
    pods: Sequence[PodInfo]


def run_placement_generate(framework: Framework, group: api.PodGroup) -> Sequence[Placement] | Status:
    """The placements to try; all nodes are one without a plugin. At most one plugin generates placements."""
    table = framework.cluster.nodes
    everywhere = Placement("", table.valid[: table.size].copy())
    if not framework.placement_generate:
        return [everywhere]
    plugin = framework.placement_generate[0]
    try:
        found: Sequence[Placement] | Status = plugin.generate_placements(group, everywhere)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return error(described(problem))
    if isinstance(found, Status):
        return found.by(plugin.name)
    return found or NO_PLACEMENTS.by(plugin.name)


def run_placement_score(
    framework: Framework, group: api.PodGroup, candidates: Sequence[Assignments]
) -> list[int] | Status:
    """The total score of each candidate, or the error of a plugin."""
    totals = [0] * len(candidates)
    for plugin in framework.placement_score:
        try:
            scores = [plugin.score_placement(group, each) for each in candidates]
            if hasattr(plugin, "normalize_placements"):
                scores = plugin.normalize_placements(scores)
            wrong = next((score for score in scores if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE), None)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            return error(f'running PlacementScore plugins: plugin "{plugin.name}" failed with: {described(problem)}')
        if wrong is not None:
            return error(
                f'applying score defaultWeights on PlacementScore plugins: plugin "{plugin.name}" returns an invalid '
                f"score {wrong}, it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
            )
        weight = framework.placement_weights.get(plugin.name, 1)
        totals = [total + score * weight for total, score in zip(totals, scores, strict=True)]
    return totals
