"""Counters, gauges and histograms that cost a fraction of a microsecond to move.

prometheus_client's own take a lock and walk through label objects at every step, several times what a scheduling cycle
has to spend. The loop is one thread, so a family is a plain dictionary from label values to numbers, and
prometheus_client only sees it when somebody asks for the metrics. What has not happened yet is not shown, as in Go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

STABLE: Final = "STABLE"
BETA: Final = "BETA"
ALPHA: Final = "ALPHA"

UNEXPECTED: Final = "unexpected"
"""Stands for label values that ``--allow-metric-labels`` does not list."""

Labels = tuple[str, ...]
Allowed = Mapping[tuple[str, str], frozenset[str]]
"""Per metric and label, the values that may be shown."""


class Family:
    """What all families have in common: a name, a text with the stability in front, and names of labels."""

    def __init__(self, name: str, text: str, labels: Labels = (), stability: str = ALPHA) -> None:
        self.name = name
        self.text = f"[{stability}] {text}"
        self.labels = labels
        self.stability = stability

    def metric(self, allowed: Allowed) -> Metric | None:
        """The family as prometheus_client knows it; None if there is nothing to show."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew. As upstream, families without labels do not; nor, unlike there, do gauges: they say what is."""

    def shown(self, values: Labels, allowed: Allowed) -> Labels:
        """Label values, with those that are not allowed made one."""
        if not allowed:
            return values
        return tuple(
            UNEXPECTED if value not in allowed.get((self.name, label), (value,)) else value
            for label, value in zip(self.labels, values, strict=True)
        )


class Value(Family):
    """A counter or a gauge: numbers by label values. A family without labels has one, from the start."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]

    def __init__(self, name: str, text: str, labels: Labels = (), stability: str = ALPHA) -> None:
        super().__init__(name, text, labels, stability)
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Move by an amount."""
        values = self.values
        values[labels] = values.get(labels, 0) + amount

    def metric(self, allowed: Allowed) -> Metric | None:
        totals: dict[Labels, float] = {}
        for labels, value in self.values.items():
            shown = self.shown(labels, allowed)
            totals[shown] = totals.get(shown, 0) + value
        if not totals:
            return None
        family = self.kind(self.name, self.text, labels=self.labels)
        for labels, value in totals.items():
            family.add_metric(labels, value)
        return family


class CounterFamily(Value):
    """A number that only grows."""

    kind = CounterMetricFamily

    def reset(self) -> None:
        if self.labels:
            self.values.clear()


class Gauge(Value):
    """A number that goes up and down."""

    kind = GaugeMetricFamily

    def set(self, labels: Labels, value: float) -> None:
        """Say what it is now."""
        self.values[labels] = value


class Histogram(Family):
    """How often values fell between bounds, by label values."""

    def __init__(self, name: str, text: str, bounds: list[float], labels: Labels = (), stability: str = ALPHA) -> None:
        super().__init__(name, text, labels, stability)
        self._bounds = bounds
        self._les = [*map(go_float, bounds), "+Inf"]
        # One number per bucket, the sum of all values behind them.
        self._empty: list[float] = [0] * (len(bounds) + 2)
        self.values: dict[Labels, list[float]] = {} if labels else {(): self._empty.copy()}

    def observe(self, labels: Labels, value: float) -> None:
        """A value was seen."""
        numbers = self.values.get(labels)
        if numbers is None:
            numbers = self.values[labels] = self._empty.copy()
        numbers[bisect_left(self._bounds, value)] += 1
        numbers[-1] += value

    def reset(self) -> None:
        if self.labels:
            self.values.clear()

    def metric(self, allowed: Allowed) -> Metric | None:
        totals: dict[Labels, list[float]] = {}
        for labels, numbers in self.values.items():
            shown = self.shown(labels, allowed)
            before = totals.get(shown, self._empty)
            totals[shown] = [a + b for a, b in zip(before, numbers, strict=True)]
        if not totals:
            return None
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for labels, numbers in totals.items():
            family.add_metric(labels, buckets=list(self._cumulated(numbers)), sum_value=numbers[-1])
        return family

    def _cumulated(self, numbers: list[float]) -> Iterator[tuple[str, float]]:
        total = 0.0
        for le, number in zip(self._les, numbers[:-1], strict=True):
            total += number
            yield le, total


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Bounds of buckets, each `factor` times the one before. Multiplied one after the other, as Go rounds them."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return bounds


def go_float(value: float) -> str:
    """A number as Go's exposition writes it. Dashboards compare bounds of buckets as text, and know no "1.0"."""
    number = Decimal(repr(float(value)))
    exponent = number.adjusted() if number else 0
    if -4 <= exponent < 6:
        return format(number, "f").removesuffix(".0")
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if number < 0 else ''}{digits[0]}{fraction}e{exponent:+03d}"
