"""Reduces a failing story to the few steps that it needs."""

from __future__ import annotations

import time
from collections.abc import Callable

from kubesched.torture.run import StoryOutcome, run_story

Run = Callable[[int, list[int]], StoryOutcome]


def reduce(failed: StoryOutcome, seconds: float = 120.0, run: Run = run_story) -> StoryOutcome:
    """The shortest story found within `seconds` that breaks the same invariant."""
    assert failed.violation is not None
    wanted, deadline = failed.violation.invariant, time.monotonic() + seconds
    best = failed
    steps = [step.number for step in failed.steps[: failed.reached]]
    size = max(1, len(steps) // 2)
    while time.monotonic() < deadline:
        smaller = _without_some(best, steps, size, wanted, deadline, run)
        if smaller is not None:
            best = smaller
            steps = [step.number for step in best.steps[: best.reached]]
            size = min(size, max(1, len(steps) // 2))
        elif size == 1:
            break
        else:
            size //= 2
    return best


def _without_some(
    best: StoryOutcome, steps: list[int], size: int, wanted: str, deadline: float, run: Run
) -> StoryOutcome | None:
    # Late steps first: an early step is more often one that later ones build on.
    for start in range((len(steps) - 1) // size * size, -1, -size):
        if time.monotonic() > deadline:
            return None
        rest = steps[:start] + steps[start + size :]
        outcome = run(best.seed, rest)
        if outcome.violation is not None and outcome.violation.invariant == wanted:
            return outcome
    return None
