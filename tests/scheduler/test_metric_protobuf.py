"""Metrics in protobuf, and the native histograms of the gate NativeHistograms."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.scheduler import metric_protobuf
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.native_histograms import MOST_BUCKETS, NativeBuckets

ACCEPT = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain"


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message, as any protobuf reader sees them."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 1:
            yield tag >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
        else:
            length, at = varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length


def families(page: bytes) -> dict[str, list[tuple[int, int | float | bytes]]]:
    """The messages of a page, by the name of the metric."""
    found, at = {}, 0
    while at < len(page):
        length, at = varint(page, at)
        message = list(fields(page[at : at + length]))
        at += length
        name = dict(message)[1]
        assert isinstance(name, bytes)
        found[name.decode()] = message
    return found


def part(message: list[tuple[int, int | float | bytes]], *path: int) -> list[tuple[int, int | float | bytes]]:
    """The message in a message."""
    for number in path:
        inner = next(value for field, value in message if field == number)
        assert isinstance(inner, bytes)
        message = list(fields(inner))
    return message


def attempts(*, native: bool, values: tuple[int, ...] = (1, 1, 2)) -> list[tuple[int, int | float | bytes]]:
    """The histogram of attempts after pods needed so many."""
    metrics = Metrics(process=False, native_histograms=native)
    for value in values:
        metrics.scheduled(value, None, after_flush=False)
    page, content_type = metrics.render(ACCEPT)
    assert content_type == metric_protobuf.CONTENT_TYPE
    return part(families(page)["scheduler_pod_scheduling_attempts"], 4, 7)


def test_families_in_protobuf() -> None:
    """Names, help texts, types, labels and values are where Prometheus expects them."""
    metrics = Metrics(process=False)
    metrics.attempt("scheduled", "default-scheduler", 0.5)
    found = families(metrics.render(ACCEPT)[0])
    counter = found["scheduler_schedule_attempts_total"]
    assert dict(counter)[3] == 0
    assert part(counter, 4, 1) == [(1, b"profile"), (2, b"default-scheduler")]
    assert part(counter, 4, 3) == [(1, 1.0)]
    assert dict(found["scheduler_pending_pods"])[3] == 1
    assert list(found) == sorted(found)


def test_a_histogram_without_the_gate() -> None:
    """A histogram has count, sum and classic buckets."""
    histogram = attempts(native=False)
    assert [field for field, _ in histogram] == [1, 2, 3, 3, 3, 3, 3]
    assert histogram[:2] == [(1, 3), (2, 4.0)]
    assert list(fields(histogram[2][1])) == [(1, 2), (2, 1.0)]  # type: ignore[arg-type]  # a message


def test_a_native_histogram() -> None:
    """With NativeHistograms it has exponential buckets too, byte for byte as kube-scheduler's for the same values."""
    histogram = attempts(native=True, values=(1,) * 11 + (2,) * 10)
    recorded = [(5, 6), (6, 2.0**-128), (7, 0), (12, b"\x08\x00\x10\x01"), (12, b"\x08\x0e\x10\x01"), (13, 22), (13, 1)]
    assert histogram[-7:] == recorded


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (ACCEPT, True),
        ("text/plain;version=0.0.4;q=0.5," + ACCEPT, False),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_who_gets_protobuf(accept: str, wanted: bool) -> None:
    """Only scrapers that put the delimited format first get it."""
    assert metric_protobuf.is_wanted(accept) is wanted


def upper_bound(schema: int, key: int) -> float:
    return float(2.0 ** (key * 2.0**-schema))


@given(st.lists(st.floats(min_value=1e-30, max_value=1e30), max_size=400))
def test_every_value_is_in_its_bucket(values: list[float]) -> None:
    """No value is lost, and each bucket holds what is above the bucket before it and not above its own bound."""
    buckets = NativeBuckets()
    for value in values:
        buckets.observe(value)
    assert sum(buckets.counts.values()) == len(values)
    assert len(buckets.counts) <= MOST_BUCKETS
    for value in values:
        alone = NativeBuckets()
        alone.schema = buckets.schema
        alone.observe(value)
        (key,) = alone.counts
        assert key in buckets.counts
        assert (
            upper_bound(buckets.schema, key - 1) * (1 - 1e-12) < value <= upper_bound(buckets.schema, key) * (1 + 1e-12)
        )


@given(st.lists(st.floats(min_value=0, max_value=1e9), max_size=50), st.lists(st.floats(min_value=0, max_value=1e9)))
def test_merging(first: list[float], second: list[float]) -> None:
    """Two histograms that are merged are the histogram of all values."""
    merged, other, both = NativeBuckets(), NativeBuckets(), NativeBuckets()
    for value in first:
        merged.observe(value)
        both.observe(value)
    for value in second:
        other.observe(value)
        both.observe(value)
    merged.merge(other)
    assert (merged.schema, merged.zeros, merged.counts) == (both.schema, both.zeros, both.counts)


def test_spans_fill_small_gaps() -> None:
    """Buckets that are near each other are one span; infinity is counted with the largest values."""
    buckets = NativeBuckets()
    for value in (1.0, 2 ** (3 / 8), 2.0, inf):
        buckets.observe(value)
    assert list(buckets.spans()) == [(0, [1, 0, 0, 1]), (4, [1]), (8183, [1])]
