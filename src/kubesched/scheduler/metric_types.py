"""Counters, gauges and histograms that can be updated in a fraction of a microsecond.

prometheus_client's own take a lock and look up label objects on every update, which costs several times what a
scheduling cycle can afford. The loop is a single thread, so a family is a plain dictionary from label values to
numbers, which prometheus_client sees only on a scrape. As in Go, label values without a sample are not exported.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from operator import add
from typing import Final, Generic, TypeVar

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kubesched.scheduler.native_histograms import NativeBuckets

STABLE: Final = "STABLE"
BETA: Final = "BETA"
ALPHA: Final = "ALPHA"

UNEXPECTED: Final = "unexpected"
"""Replaces label values that ``--allow-metric-labels`` does not list."""

Labels = tuple[str, ...]
Allowed = Mapping[tuple[str, str], frozenset[str]]
"""The allowed values by metric and label."""
NativeByLabels = dict[tuple[tuple[str, str], ...], NativeBuckets]
"""Native buckets by label names and values, sorted."""


class Family:
    """The base of all families: a name, a help text that starts with the stability level, and label names."""

    def __init__(self, name: str, text: str, labels: Labels = (), stability: str = ALPHA) -> None:
        self.name = name
        self.text = f"[{stability}] {text}"
        self.labels = labels
        self.stability = stability

    def metric(self, allowed: Allowed) -> Metric | None:
        """The family in prometheus_client's form; None if it is empty."""
        raise NotImplementedError

    def tidy(self) -> None:
        """Count what waits to be counted, if it is much. Called every second."""

    def reset(self) -> None:
        """Reset the values. As upstream, families without labels are not reset. Unlike upstream, neither are gauges."""

    def shown(self, values: Labels, allowed: Allowed) -> Labels:
        """Label values, with disallowed ones replaced."""
        if not allowed:
            return values
        return tuple(
            UNEXPECTED if value not in allowed.get((self.name, label), (value,)) else value
            for label, value in zip(self.labels, values, strict=True)
        )


class Value(Family):
    """A counter or a gauge: numbers by label values. A family without labels always has one number."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]

    def __init__(self, name: str, text: str, labels: Labels = (), stability: str = ALPHA) -> None:
        super().__init__(name, text, labels, stability)
        self.values: defaultdict[Labels, float] = defaultdict(int, {} if labels else {(): 0})

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Add an amount."""
        self.values[labels] += amount

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
        """Set the current value."""
        self.values[labels] = value


MOST_WAITING = 1000
"""How many values may wait to be counted, before `tidy` counts them."""

T = TypeVar("T")


class Backlog(Generic[T]):
    """Records that are counted when metrics are read, or when there are many: together they take a fraction of the
    time."""

    def __init__(self, count: Callable[[list[T]], None]) -> None:
        self._count = count
        self._records: list[T] = []
        self.add = self._records.append
        """Keep a record."""

    def fold(self) -> None:
        """Count what is kept."""
        records = self._records.copy()
        self._records.clear()
        if records:
            self._count(records)

    def tidy(self) -> None:
        """Count what is kept if it is much."""
        if len(self._records) >= MOST_WAITING:
            self.fold()


class Histogram(Family):
    """Counts of values in buckets, by label values."""

    def __init__(self, name: str, text: str, bounds: list[float], labels: Labels = (), stability: str = ALPHA) -> None:
        super().__init__(name, text, labels, stability)
        self._bounds = np.array(bounds)
        self._les = [*map(go_float, bounds), "+Inf"]
        # One number per bucket, followed by the sum of all values.
        self._empty: list[float] = [0] * (len(bounds) + 2)
        self._values: dict[Labels, list[float]] = {} if labels else {(): self._empty.copy()}
        self.waiting: defaultdict[Labels, list[float]] = defaultdict(list)
        """Values that have yet to be put into buckets. Callers that add one for every pod do so directly."""
        self._native: dict[Labels, NativeBuckets] | None = None

    def keep_native(self) -> None:
        """Keep native buckets too, from now on."""
        self._fold()
        self._native = {} if self.labels else {(): NativeBuckets()}

    def observe(self, labels: Labels, value: float) -> None:
        """Record a value. Values are put into buckets when metrics are read, or by `tidy`: together they take a third
        of the time."""
        self.waiting[labels].append(value)

    def observe_all(self, labels: Labels, values: Sequence[float]) -> None:
        """Record values."""
        if values:
            self.waiting[labels].extend(values)

    def tidy(self) -> None:
        """Put the values that wait into buckets if they are many."""
        if sum(map(len, self.waiting.values())) >= MOST_WAITING:
            self._fold()

    def _fold(self) -> None:
        """Put the values that wait into buckets."""
        for labels, waiting in self.waiting.items():
            numbers = self._values.get(labels)
            if numbers is None:
                numbers = self._values[labels] = self._empty.copy()
            # NumPy takes twice as long to convert a list by itself.
            places = self._bounds.searchsorted(array("d", waiting))
            counts = np.bincount(places, minlength=len(self._les))
            numbers[:-1] = map(add, numbers, counts.tolist())
            numbers[-1] += sum(waiting)
            if self._native is not None:
                buckets = self._native.setdefault(labels, NativeBuckets())
                for value in waiting:
                    buckets.observe(value)
        self.waiting.clear()

    def reset(self) -> None:
        self._fold()
        if self.labels:
            self._values.clear()
            if self._native is not None:
                self._native.clear()

    def native(self, allowed: Allowed) -> NativeByLabels:
        """The native buckets, if they are kept."""
        self._fold()
        totals: NativeByLabels = {}
        for labels, buckets in (self._native or {}).items():
            key = tuple(sorted(zip(self.labels, self.shown(labels, allowed), strict=True)))
            totals.setdefault(key, NativeBuckets()).merge(buckets)
        return totals

    def metric(self, allowed: Allowed) -> Metric | None:
        self._fold()
        totals: dict[Labels, list[float]] = {}
        for labels, numbers in self._values.items():
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
    """Bucket bounds, each `factor` times the previous one. Multiplied step by step, to round as Go does."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return bounds


def go_float(value: float) -> str:
    """A number as Go writes it in the text format. Dashboards compare bucket bounds as text, and Go never writes
    "1.0".
    """
    number = Decimal(repr(float(value)))
    exponent = number.adjusted() if number else 0
    if -4 <= exponent < 6:
        return format(number, "f").removesuffix(".0")
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if number < 0 else ''}{digits[0]}{fraction}e{exponent:+03d}"
