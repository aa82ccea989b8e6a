"""Metrics in Prometheus' protobuf format, the only one that has native histograms.

The page is a sequence of MetricFamily messages (io.prometheus.client), each with its length in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from kubesched.base.protobuf import double, integer, nested, text, varint
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
            page += varint(len(body)) + body
    return bytes(page)


def _family(family: Metric, native: NativeByLabels) -> bytes:
    kind = family.type if family.type in _TYPES else "untyped"
    name = family.samples[0].name if kind == "counter" else family.name  # the library removes _total
    body = text(1, name) + text(2, family.documentation) + integer(3, _TYPES[kind])
    if kind == "histogram":
        return body + b"".join(nested(4, each) for each in _histograms(family.samples, native))
    for sample in family.samples:
        labels = _labels(sorted(sample.labels.items()))
        body += nested(4, labels + nested(_VALUE_FIELDS[kind], double(1, sample.value)))
    return body


def _histograms(samples: Iterable[Sample], native: NativeByLabels) -> Iterator[bytes]:
    found: dict[LabelPairs, list[Sample]] = {}
    for sample in samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        found.setdefault(labels, []).append(sample)
    for labels, group in found.items():
        buckets = [sample for sample in group if sample.name.endswith("_bucket")]
        total = next(sample.value for sample in group if sample.name.endswith("_sum"))
        body = integer(1, int(buckets[-1].value)) + double(2, total)
        for sample in buckets[:-1]:  # the last, for all values, is not written
            body += nested(3, integer(1, int(sample.value)) + double(2, float(sample.labels["le"])))
        if labels in native:
            body += _native(native[labels])
        yield _labels(labels) + nested(_HISTOGRAM, body)


def _native(buckets: NativeBuckets) -> bytes:
    body = integer(5, _zigzag(buckets.schema)) + double(6, ZERO_THRESHOLD) + integer(7, buckets.zeros)
    spans, deltas, last = b"", b"", 0
    for offset, counts in buckets.spans():
        spans += nested(12, integer(1, _zigzag(offset)) + integer(2, len(counts)))
        for count in counts:
            deltas += integer(13, _zigzag(count - last))
            last = count
    if not spans and not buckets.zeros:
        spans = nested(12, integer(1, 0) + integer(2, 0))  # says that an empty histogram is a native one
    return body + spans + deltas


def _labels(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(nested(1, text(1, name) + text(2, value)) for name, value in pairs)


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1
