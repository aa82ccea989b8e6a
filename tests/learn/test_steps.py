"""The seven learning steps pass their scenarios and stay short."""

from __future__ import annotations

import pytest

from kubesched.learn.steps import STEPS, Step
from kubesched.simulator.run import run


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_does_what_it_promises(step: Step) -> None:
    """Its scenario passes with every seed."""
    for seed in range(1, 4):
        report = run(step.scenario(), seed)
        assert report.passed, report.expectations
        assert report.expectations


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_is_a_short_file(step: Step) -> None:
    """It has fewer than 150 lines, a title and an explanation."""
    assert len(step.code.splitlines()) < 150
    assert step.title
    assert len(step.text) > 100


def test_a_step_shows_what_it_adds() -> None:
    """The diff contains the new extension point but not the whole file."""
    added = "\n".join(line for line in STEPS[3].diff() if line.startswith("+"))
    assert "def pre_score" in added
    assert "class Scheduler" not in added
