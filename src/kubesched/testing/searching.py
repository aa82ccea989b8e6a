"""Tries many examples, and if one fails looks for a smaller one with hypothesis, where that is installed.

The examples come from a generator of our own, because hypothesis favours some choices and tries others rarely. It is
no dependency, as running a scheduler does not need it.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.testing.chance import Chance, DrawnChance, SeededChance


def search(once: Callable[[Chance], None], examples: int, seed: int) -> None:
    """Try this many examples, the same ones every time; raises the smallest failure that was found."""
    for number in range(examples):
        try:
            once(SeededChance(seed + number))
        except AssertionError as error:
            _raise_smaller(once, examples, seed)
            raise error.with_traceback(None) from error.__cause__


def _raise_smaller(once: Callable[[Chance], None], examples: int, seed: int) -> None:
    """Raise a failure with a small example if hypothesis finds one."""
    try:
        import hypothesis
        from hypothesis import strategies
    except ImportError:
        return

    found: list[AssertionError] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        report_multiple_bugs=False,
    )
    @hypothesis.given(strategies.data())
    def each(data: strategies.DataObject) -> None:
        try:
            once(DrawnChance(data.draw, strategies))
        except AssertionError as error:
            found.append(error)
            raise

    try:
        each()
    except (AssertionError, hypothesis.errors.Flaky):  # flaky: it cannot be reproduced, so it cannot be made smaller
        found[-1].__notes__ = []  # the single draws; the message has the whole example
        raise found[-1] from found[-1].__cause__
