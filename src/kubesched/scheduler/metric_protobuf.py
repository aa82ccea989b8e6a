"""Metrics in Prometheus' protobuf format, the only one that has native histograms.

The page is a sequence of MetricFamily messages (io.prometheus.client), each with its length in front.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from kubesched.scheduler.metric_types import NativeByLabels
from kubesched.scheduler.native_histograms import ZERO_THRESHOLD, NativeBuckets

MEDIA_TYPE: Final = "application/vnd.google.protobuf"
MESSAGE: Final = "io.prometheus.client.MetricFamily"
CONTENT_TYPE: Final = f"{MEDIA_TYPE}; proto={MESSAGE}; encoding=delimited; escaping=underscores"

_TYPES: Final = {"counter": 0, "gauge": 1, "summary": 2, "untyped": 3, "histogram": 4}
_VALUE_FIELDS: Final = {"gauge": 2, "counter": 3, "untyped": 5}
_HISTOGRAM: Final = 7

LabelPairs = tuple[tuple[str, str], ...]


def is_wanted(accept: str) -> bool:
    """Whether an Accept header prefers this format to text."""
    for each in accept.split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        if media == MEDIA_TYPE:
            given = dict(part.partition("=")[::2] for part in parameters)
            if given.get("proto") == MESSAGE and given.get("encoding") == "delimited":
                return True
        elif media in ("text/plain", "application/openmetrics-text"):
            return False
    return False


def render(families: Iterable[Metric], native: Mapping[str, NativeByLabels]) -> bytes:
    """The page; `native` has the native buckets of histograms, by name."""
    page = bytearray()
    for family in sorted(families, key=lambda each: each.name):
        if family.samples:
            body = _family(family, native.get(family.name, {}))
            page += _varint(len(body)) + body
    return bytes(page)


def _family(family: Metric, native: NativeByLabels) -> bytes:
    kind = family.type if family.type in _TYPES else "untyped"
    name = family.samples[0].name if kind == "counter" else family.name  # the library removes _total
    body = _text(1, name) + _text(2, family.documentation) + _number(3, _TYPES[kind])
    if kind == "histogram":
        return body + b"".join(_message(4, each) for each in _histograms(family.samples, native))
    for sample in family.samples:
        labels = _labels(sorted(sample.labels.items()))
        body += _message(4, labels + _message(_VALUE_FIELDS[kind], _double(1, sample.value)))
    return body


def _histograms(samples: Iterable[Sample], native: NativeByLabels) -> Iterator[bytes]:
    found: dict[LabelPairs, list[Sample]] = {}
    for sample in samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        found.setdefault(labels, []).append(sample)
    for labels, group in found.items():
        buckets = [sample for sample in group if sample.name.endswith("_bucket")]
        total = next(sample.value for sample in group if sample.name.endswith("_sum"))
        body = _number(1, int(buckets[-1].value)) + _double(2, total)
        for sample in buckets[:-1]:  # the last, for all values, is not written
            body += _message(3, _number(1, int(sample.value)) + _double(2, float(sample.labels["le"])))
        if labels in native:
            body += _native(native[labels])
        yield _labels(labels) + _message(_HISTOGRAM, body)


def _native(buckets: NativeBuckets) -> bytes:
    body = _number(5, _zigzag(buckets.schema)) + _double(6, ZERO_THRESHOLD) + _number(7, buckets.zeros)
    spans, deltas, last = b"", b"", 0
    for offset, counts in buckets.spans():
        spans += _message(12, _number(1, _zigzag(offset)) + _number(2, len(counts)))
        for count in counts:
            deltas += _number(13, _zigzag(count - last))
            last = count
    if not spans and not buckets.zeros:
        spans = _message(12, _number(1, 0) + _number(2, 0))  # says that an empty histogram is a native one
    return body + spans + deltas


def _labels(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_message(1, _text(1, name) + _text(2, value)) for name, value in pairs)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())
