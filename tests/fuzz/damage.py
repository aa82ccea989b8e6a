"""Damages kept documents: values are replaced by junk anywhere inside, or bytes are cut, doubled and flipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

CORPUS = Path(__file__).with_name("corpus")
Way = tuple[str | int, ...]

NESTED: Any = []
for _ in range(400):
    NESTED = [NESTED]
SMALL: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1,
        2**31,
        2**63 - 1,
        2**63,
        -(2**63) - 1,
        10**30,
        0.5,
        1e308,
        "",
        " ",
        "0",
        "-1",
        "1e40",
        "10E",
    ),
    *(
        "1.5Ki",
        "nan",
        "\x00",
        "\ud7ff",
        "ü" * 300,
        "2026-13-45T99:99:99Z",
        "../../etc/passwd",
        "${x}",
        "{{",
    ),
    *([], [None], [[]], {}, {"": ""}, {"a": None}, {"key": [{}]}),
)
LARGE: tuple[Any, ...] = (
    NESTED,
    "a" * 1_000_000,
    [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(1000)],
    {f"label-{number}": "x" for number in range(10_000)},
)
RARELY = st.integers(0, 15).map(lambda number: number == 7)


@st.composite
def _junk(draw: st.DrawFn) -> Any:
    return draw(st.sampled_from(LARGE if draw(RARELY) else SMALL))


JUNK = _junk()
"""What is put in the place of a value. Now and then 1,000 taints, 10,000 labels, 1 MB of text, or deep nesting."""
BYTES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"&a [*a,*a]",
    b"{{{{",
    b"[" * 2000,
    b"---\n",
    b"\xed\xa0\x80",
    b"1e999",
    b'"',
    b"\r\n\r\n",
)


@cache
def kept(target: str) -> tuple[bytes, ...]:
    """The corpus of a target: good documents, and inputs that once did harm."""
    return tuple(path.read_bytes() for path in sorted((CORPUS / target).iterdir()))


def ways(value: Any, so_far: Way = ()) -> Iterator[Way]:
    """The way to every value inside, containers included."""
    if so_far:
        yield so_far
    if isinstance(value, dict):
        for key, each in value.items():
            yield from ways(each, (*so_far, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from ways(each, (*so_far, index))


def replaced(document: Any, way: Way, junk: Any) -> Any:
    """A copy of a document with junk in one place."""
    copy = deepcopy(document)
    inner = copy
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = junk
    return copy


@cache
def _parsed(target: str) -> tuple[Any, ...]:
    """The kept inputs that are documents; one that did harm may be any bytes."""
    found = []
    for text in kept(target):
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            found.append(yaml.safe_load(text))
    return tuple(found)


@st.composite
def trees(draw: st.DrawFn, target: str) -> Any:
    """A kept document with junk in up to three places."""
    document = draw(st.sampled_from(_parsed(target)))
    for _ in range(draw(st.integers(1, 3))):
        found = list(ways(document))
        if found:
            document = replaced(document, draw(st.sampled_from(found)), draw(JUNK))
    return document


@st.composite
def cut_up(draw: st.DrawFn, target: str) -> bytes:
    """A kept document whose bytes were cut, doubled or replaced."""
    data = draw(st.sampled_from(kept(target)))
    start, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
    filling = draw(st.one_of(st.sampled_from(BYTES), st.binary(max_size=8), st.just(data[start:end] * 2)))
    return data[:start] + filling + data[end:]


def documents(target: str) -> st.SearchStrategy[bytes]:
    """Damaged documents of a target, as text."""
    return st.one_of(st.sampled_from(kept(target)), cut_up(target), trees(target).map(_dumped))


def _dumped(tree: Any) -> bytes:
    return json.dumps(tree).encode()
