"""What a node would score that does not fit: the scores of all feasible nodes and of this one."""

from __future__ import annotations

import numpy as np

from kubesched.cluster.view import Nodes
from kubesched.explain.survey import Survey
from kubesched.framework.errors import PluginError


def scored_rows(survey: Survey, row: int) -> tuple[dict[str, int], int, int] | None:
    """Scores by plugin, total and rank of a row among the feasible ones; None if plugins cannot score it."""
    framework, state, pod = survey.framework, survey.state, survey.pod
    rows = np.union1d(survey.feasible_without(), np.array([row]))
    nodes = Nodes(survey.table, rows)
    position = int(np.searchsorted(rows, row))
    totals = np.zeros(len(rows), dtype=np.int64)
    scores: dict[str, int] = {}
    try:
        skipped = {each.name for each in framework.pre_score if not framework.ask_pre_score(each, state, pod, nodes)}
        for plugin in framework.scores:
            if plugin.name in skipped | state.skip_score:
                continue
            part = framework.ask_normalize(plugin, state, pod, framework.ask_score(plugin, state, pod, nodes))
            column = np.full(len(rows), part) if isinstance(part, int) else part
            totals += column
            scores[plugin.name] = int(column[position])
    except (PluginError, KeyError):
        return None
    return scores, int(totals[position]), 1 + int(np.count_nonzero(totals > totals[position]))
