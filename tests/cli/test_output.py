"""Data as YAML, and tables that keep words whole."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kubesched.cli.output import as_json, as_yaml, show
from kubesched.explain.document import Table

WORDS = st.text(max_size=12) | st.sampled_from(
    ["yes", "No", "null", "1e3", "a: b", "- x", "#", "x y", "2026-01-01", "~"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(WORDS, VALUES, min_size=1, max_size=4))
def test_yaml_reads_back_as_it_was(data: dict[str, Any]) -> None:
    """Whatever the data, a YAML library reads the same from it, and from the JSON."""
    try:
        "".join(_texts(data)).encode()
    except UnicodeEncodeError:
        return  # a lone surrogate, which neither format can hold
    if any(not each.isprintable() for each in _texts(data)):
        return  # YAML forbids some control characters even where JSON allows them
    assert yaml.safe_load(as_yaml(data)) == data
    assert yaml.safe_load(as_json(data)) is not None


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (key, *_texts(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_tables_fit_and_keep_words_whole(width: int) -> None:
    """Every word of every cell is on some line, whole, and no line is too long for the terminal."""
    cells = ["default/web", "cpu short by 3.5: asks for 6, 2.5 free", "uncordon node-1"]
    out = io.StringIO()
    show([Table(["NAME", "WHY", "FIX"], [cells, cells])], Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = [word for line in lines for word in line.split()]
    for word in " ".join(cells).split():
        assert words.count(word) == 2 * " ".join(cells).split().count(word)
