"""Reading YAML and JSON from outside: right, and within limits."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubesched.base.documents import (
    FILE,
    REQUEST,
    DocumentError,
    DocumentLimitError,
    DocumentLimits,
    read_json,
    read_yaml,
    read_yaml_documents,
    within_depth,
)

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
NESTED = "[" * 40_000 + "]" * 40_000
HOSTILE = {
    "flow brackets": (NESTED, "nested deeper than 128 levels"),
    "flow braces": ('{"a":' * 20_000 + "1" + "}" * 20_000, "nested deeper than 128 levels"),
    "block lists": ("- " * 40_000 + "x", "nested deeper than 128 levels"),
    "open brackets": ("[" * 80_000, "nested deeper than 128 levels"),
    "alias bomb": (BOMB, "values, with those that aliases repeat"),
    "long aliases": (f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]", "aliases repeat more than"),
    "deep aliases": (
        "a: &a []\n"
        + "".join(f"{name}: &{name} {'[' * 60}*{before}{']' * 60}\n" for before, name in ("ab", "bc", "cd")),
        "nested deeper than 128 levels",
    ),
    "itself": ("a: &a [*a]", "an alias refers to a value that contains it"),
    "size": (f"a: {'x' * (4 << 20)}", "at most 3,145,728 are read"),
}


@pytest.mark.parametrize(("text", "limit"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("encoded", [False, True])
def test_a_hostile_document_is_refused_with_the_limit(text: str, limit: str, encoded: bool) -> None:
    """Nesting, aliases, numbers and size beyond a limit are an error that names it, soon."""
    started = time.process_time()
    with pytest.raises(DocumentLimitError, match=limit):
        read_yaml(text.encode() if encoded else text, REQUEST)
    with pytest.raises(DocumentLimitError, match=limit):
        read_yaml_documents(f"---\nb: 1\n---\n{text}", REQUEST)
    assert time.process_time() - started < 30


@pytest.mark.parametrize(
    "text",
    [
        '!!int ""',
        "!!int +",
        '!!float ""',
        "!!float _",
        "!!bool maybe",
        "!!null 1",
        "!!timestamp x",
        "!!timestamp 2001-01-01",
        "!!set {b, c}",
        "!!omap [b: 1]",
        "!!pairs [b: 1]",
        "!!binary /w==",
        ".inf",
        ".nan",
        f"!!int {'1:' * 100000}1",
    ],
)
def test_a_tag_makes_nothing_but_json(text: str) -> None:
    """A value that is not what its tag says, or that JSON does not have, is refused, soon."""
    started = time.process_time()
    with pytest.raises(DocumentError):
        read_yaml(f"a: {text}")
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!int 0x1f", 31),
        ("!!float 1", 1.0),
        ("!!bool y", True),
        ("!!null ~", None),
        ("!!binary YQ==", "a"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", float(2**64)),
        ("0x10000000000000000",) * 2,
        ("1e400",) * 2,
        ("-1e400",) * 2,
    ],
)
def test_tagged_and_large_values_are_those_of_go(text: str, value: object) -> None:
    """Tags that fit are followed. What Go's numbers cannot hold is a float, or else a string."""
    read = read_yaml(f"a: {text}")["a"]
    assert (read, type(read)) == (value, type(value))


def test_merged_mappings_count_as_repeated() -> None:
    """A bomb of merge keys is refused as one of aliases is."""
    steps = "".join(
        f"{name}: &{name} {{<<: [{','.join([f'*{before}'] * 60)}], {name}: 1}}\n"
        for before, name in zip("abcd", "bcde", strict=True)
    )
    with pytest.raises(DocumentLimitError, match="aliases repeat"):
        read_yaml(f"a: &a {{k: v}}\n{steps}", REQUEST)


@pytest.mark.parametrize("text", [NESTED, '{"a":' * 500 + "1" + "}" * 500, "[" * 129 + "]" * 129, "[" * 90_000])
def test_deep_json_is_refused_with_the_limit(text: str) -> None:
    """JSON that is nested too deep is an error that names the limit, whether Python could read it or not."""
    for data in (text, text.encode()):
        with pytest.raises(DocumentLimitError, match="nested deeper than 128 levels"):
            read_json(data)


def test_limits_are_reached_exactly() -> None:
    """The limit itself is allowed, in YAML, in JSON and in values."""
    text = "[" * 128 + "]" * 128
    assert read_yaml(text) == read_json(text) == within_depth(json.loads(text))
    assert read_yaml("[1, 2]", DocumentLimits(size=6, values=3)) == [1, 2]
    for tight in (DocumentLimits(size=5, values=3), DocumentLimits(size=6, values=2)):
        with pytest.raises(DocumentLimitError):
            read_yaml("[1, 2]", tight)


def test_ordinary_aliases_work() -> None:
    """Anchors, aliases and merges of an ordinary size are read as ever; an anchor may be used in every document."""
    assert read_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, z: 2}") == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "z": 2}}
    assert read_yaml_documents("a: &a 1\nb: *a\n---\na: &a 2\nb: *a\n") == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]


@pytest.mark.parametrize("text", ["a: [", "a: 1\n---\nb: 2", "a: *b", "!!python/object:os.x {}", "{[1]: 2}", "~: 1"])
def test_a_broken_document_says_where(text: str) -> None:
    """An error of syntax is a DocumentError; it knows the line."""
    with pytest.raises(DocumentError) as caught:
        read_yaml(text)
    assert not isinstance(caught.value, DocumentLimitError)
    assert caught.value.line >= 1 or "null" in text or "~" in text


@pytest.mark.parametrize("data", [b"\xff\xff", b'a: "\xff"', "a: \x00", "a: " + "9" * 5000])
def test_broken_text_is_a_document_error(data: str | bytes) -> None:
    """Bytes that are no text and numbers that are no numbers are an error like any other."""
    with pytest.raises(DocumentError):
        read_yaml(data)


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b"1e400", "nul"])
def test_broken_json_is_a_document_error(data: str | bytes) -> None:
    """Text that is no JSON, invalid UTF-8 among it, is a DocumentError."""
    with pytest.raises(DocumentError):
        read_json(data)


def test_keys_are_strings() -> None:
    """Keys become what they are in JSON, as Go's library does: an API object has no other."""
    assert read_yaml("{2: a, true: b, 1.5: c, x: d}") == {"2": "a", "true": "b", "1.5": "c", "x": "d"}


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text("ab\"'[{:#\\ é\n"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab: ", min_size=1), inner, max_size=4),
    max_leaves=30,
)


@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    """What JSON and YAML writers write is read as it was, by both readers."""
    text = json.dumps(value)
    assert read_json(text) == read_json(text.encode()) == value
    assert read_yaml(yaml.safe_dump(value, allow_unicode=True)) == value


@given(st.text("[]{}&*a:,- \n\"'!<|>?#", max_size=200))
def test_nothing_else_is_ever_raised(text: str) -> None:
    """Whatever the text, the outcome is a value or a DocumentError."""
    for read in (read_yaml, read_yaml_documents, read_json):
        with contextlib.suppress(DocumentError):
            read(text, FILE)
