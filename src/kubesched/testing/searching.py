"""Many examples, one after another: hypothesis makes them where it is installed, our own generator otherwise.

hypothesis finds smaller examples of the same mistake. It is not asked for, because whoever runs a scheduler needs no
search for mistakes, and a plugin's author may have other tools.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.testing.generate import Chance, DrawnChance, SeededChance


def search(once: Callable[[Chance], None], examples: int, seed: int) -> None:
    """Try this many examples, the same ones every time; the first failure is raised."""
    try:
        import hypothesis
        from hypothesis import strategies
    except ImportError:
        for number in range(examples):
            once(SeededChance(seed + number))
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
    except (AssertionError, hypothesis.errors.Flaky):  # flaky: it comes and goes, and cannot be made smaller
        found[-1].__notes__ = []  # what was drawn, a line each; the example that it came to is in the message
        raise found[-1] from found[-1].__cause__
