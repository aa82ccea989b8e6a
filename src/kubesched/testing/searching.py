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

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(strategies.data())
    def each(data: strategies.DataObject) -> None:
        once(DrawnChance(data.draw, strategies))

    each()
