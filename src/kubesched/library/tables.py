"""Tables of results: as HTML for notebooks, as data frames for those who have pandas or polars."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Row = Mapping[str, object]

MOST_ROWS = 50
"""Rows that a notebook shows; a data frame has all of them."""


def as_html(summary: str, rows: Sequence[Row]) -> str:
    """A summary and a table, with everything escaped: names and messages come from other people's clusters."""
    parts = [f"<p>{escape(line)}</p>" for line in summary.splitlines() if line]
    if rows:
        heads = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
        body = "".join(_html_row(row) for row in rows[:MOST_ROWS])
        parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")
    if len(rows) > MOST_ROWS:
        parts.append(f"<p>and {len(rows) - MOST_ROWS} more rows; to_frame() has them all</p>")
    return "\n".join(parts)


def _html_row(row: Row) -> str:
    cells = ("" if value is None else escape(str(value)) for value in row.values())
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def as_frame(rows: Sequence[Row]) -> Any:
    """The rows as a DataFrame of pandas or polars, whichever the program has imported, else whichever is installed."""
    installed = [name for name in ("pandas", "polars") if find_spec(name) is not None]
    if not installed:
        raise ImportError("a data frame needs pandas or polars; install one of them, or use to_dict()")
    chosen = next((name for name in installed if name in sys.modules), installed[0])
    module = import_module(chosen)
    if chosen == "polars":
        return module.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    return module.DataFrame([dict(row) for row in rows])
