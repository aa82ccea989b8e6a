"""Where the examples of `check_plugin` come from: a seeded generator, or hypothesis, which also finds small ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Chance(Protocol):
    """A source of choices that can be replayed."""

    def choice(self, options: Sequence[T]) -> T:
        """One of these; the first is the simplest."""
        ...

    def number(self, low: int, high: int) -> int:
        """An integer between these, both included."""
        ...


class SeededChance:
    """Choices of Python's own generator."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class DrawnChance:
    """Choices of hypothesis."""

    def __init__(self, draw: Callable[[Any], Any], strategies: Any) -> None:
        self._draw = draw
        self._strategies = strategies

    def choice(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, low: int, high: int) -> int:
        drawn: int = self._draw(self._strategies.integers(low, high))
        return drawn
