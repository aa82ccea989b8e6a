"""Throughput and latency, second by second."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil
from typing import Any

SECONDS = 300
"""How far back the page can look."""
MOST_SAMPLES = 2000
"""Latencies that are kept per second."""


@dataclass(slots=True)
class Second:
    """One second of work."""

    at: int
    bound: int = 0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)

    def row(self) -> list[float | None]:
        """Time, bindings, failed attempts, median and 99th percentile of latency in seconds."""
        ordered = sorted(self.latencies)
        return [self.at, self.bound, self.failed, _at(ordered, 0.5), _at(ordered, 0.99)]


class Rates:
    """Counts what happens in each second."""

    def __init__(self) -> None:
        self._seconds: deque[Second] = deque(maxlen=SECONDS)
        self.exact = False
        """Whether latencies are those of attempts, as a scheduler reports them, and not from creation to binding."""

    def bound(self, now: float, latency: float | None) -> None:
        """A pod got its node. `latency` is from its creation, if that is known."""
        second = self._second(now)
        second.bound += 1
        if latency is not None and not self.exact:
            self._sample(second, latency)

    def attempted(self, when: float, seconds: float, *, bound: bool, failed: bool) -> None:
        """A scheduler reports an attempt. Bindings that were seen already must not count again."""
        self.exact = True
        second = self._second(when)
        second.bound += bound
        second.failed += failed
        self._sample(second, seconds)

    def rows(self, since: int = 0) -> list[list[float | None]]:
        """The seconds from `since` on, as `Second.row` has them."""
        return [each.row() for each in self._seconds if each.at >= since]

    def columns(self) -> dict[str, Any]:
        """All seconds in columns."""
        rows = self.rows()
        return {"columns": [list(each) for each in zip(*rows, strict=True)] if rows else [[], [], [], [], []]}

    def _second(self, now: float) -> Second:
        at = int(now)
        for each in reversed(self._seconds):
            if each.at == at:
                return each
            if each.at < at:
                break
        made = Second(at)
        if not self._seconds or self._seconds[-1].at < at:
            self._seconds.append(made)
        return made

    @staticmethod
    def _sample(second: Second, seconds: float) -> None:
        if len(second.latencies) < MOST_SAMPLES:
            second.latencies.append(seconds)


def _at(ordered: list[float], share: float) -> float | None:
    return round(ordered[max(0, ceil(share * len(ordered)) - 1)], 6) if ordered else None
