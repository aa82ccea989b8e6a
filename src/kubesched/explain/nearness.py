"""How far nodes are from fitting a pod: what rejects them, and how much is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from kubesched.cluster.table import Ints
from kubesched.explain.rules import devices
from kubesched.explain.rules.resources import missing_shares
from kubesched.explain.survey import Survey

WEIGHTS: Final[Mapping[str, float]] = {
    # What the pod says about nodes is meant: a node of another pool is not close, however empty it is.
    "NodeAffinity": 10,
    "NodeName": 10,
    "VolumeZone": 5,
    "VolumeBinding": 5,
    "DynamicResources": 4,
    "InterPodAffinity": 3,
    "TaintToleration": 2,
    "NodeUnschedulable": 1.5,
}
"""How much a plugin's rejection says against a node; 1 for those that are not listed."""


def distances(survey: Survey) -> npt.NDArray[np.float64]:
    """A number per row, 0 where the pod fits; smaller is closer."""
    if "distances" not in survey.memo:
        found = np.minimum(missing_shares(survey), 100) / 101
        for name, verdict in survey.verdicts.items():
            found = found + WEIGHTS.get(name, 1) * verdict.mask
        if "DynamicResources" in survey.verdicts:
            found = found - 0.5 * devices.has_free(survey)
        survey.memo["distances"] = found
    return survey.memo["distances"]  # type: ignore[no-any-return]  # stored above


def nearest_first(survey: Survey, rows: Ints) -> Ints:
    """The rows in the order of their distance."""
    return rows[np.argsort(distances(survey)[rows], kind="stable")]


def closest(survey: Survey) -> int | None:
    """The row that lacks the least; None if there is no node."""
    rows = nearest_first(survey, survey.rows)
    return int(rows[0]) if len(rows) else None
