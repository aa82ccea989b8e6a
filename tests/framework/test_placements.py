"""PlacementGenerate and PlacementScore with plugins that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kubesched.api import objects as api
from kubesched.framework.placements import Assignments, Placement, run_placement_generate, run_placement_score
from kubesched.framework.status import Code, Status


class Leaves:
    """Exits wherever it is asked."""

    name = "Leaves"

    def generate_placements(self, group: api.PodGroup, parent: Placement) -> list[Placement]:
        raise SystemExit(3)

    def score_placement(self, group: api.PodGroup, assignments: Assignments) -> int:
        raise SystemExit(3)


class Words:
    """Scores with words."""

    name = "Words"

    def score_placement(self, group: api.PodGroup, assignments: Assignments) -> str:
        return "best"


def framework(plugin: object) -> Any:
    """What the two functions read of a framework."""
    table = SimpleNamespace(valid=np.ones(2, bool), size=2)
    return SimpleNamespace(
        cluster=SimpleNamespace(nodes=table),
        placement_generate=[plugin],
        placement_score=[plugin],
        placement_weights={},
    )


def test_a_plugin_that_exits_generates_no_placements() -> None:
    """An exception of any kind is an error of the group's attempt."""
    status = run_placement_generate(framework(Leaves()), api.PodGroup())
    assert isinstance(status, Status)
    assert (status.code, status.message) == (Code.ERROR, "SystemExit: 3")


@pytest.mark.parametrize(("plugin", "why"), [(Leaves(), "SystemExit: 3"), (Words(), "TypeError: ")])
def test_a_plugin_that_cannot_score_placements_is_named(plugin: object, why: str) -> None:
    """An exception of any kind, and a score that is no number, are errors that name the plugin."""
    candidates = [Assignments(Placement("", np.ones(2, bool)), ())]
    status = run_placement_score(framework(plugin), api.PodGroup(), candidates)
    assert isinstance(status, Status)
    assert (status.code, f'plugin "{type(plugin).__name__}" failed with: {why}' in status.message) == (Code.ERROR, True)
