"""The printed columns of a custom resource, as its definition gives them."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.crd.json_path import first_value, parse_path
from kubesched.apiserver.printing.table import AGE, Cell, Column, Columns, age, columns, since
from kubesched.base.types import JSON


def columns_of(definitions: list[JSON]) -> Columns | None:
    """The columns of a definition, or None if it has none."""
    if not definitions:
        return None
    shown = tuple(
        Column(d["name"], d.get("type", "string"), d.get("priority", 0), d.get("format", ""), d.get("description", ""))
        for d in definitions
    )
    paths = [parse_path(d.get("jsonPath") or "") for d in definitions]
    default = columns(AGE, lambda obj, now: [age(obj, now)])

    def row(obj: JSON, now: float) -> list[Cell]:
        return [_cell(first_value(obj, path), column.type, now) for path, column in zip(paths, shown, strict=True)]

    return Columns(shown, row, default.name_of)


def _cell(value: Any, type_: str, now: float) -> Cell:
    if value is None:
        return None if type_ != "string" else ""
    if type_ == "date":
        return since(str(value), now)
    if isinstance(value, str | int | bool):
        return value if type_ != "string" or isinstance(value, str) else str(value)
    return str(value)
