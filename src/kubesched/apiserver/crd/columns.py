"""The printed columns of a custom resource, as its definition gives them."""

from __future__ import annotations

import json
from typing import Any

from kubesched.apiserver.crd.json_path import first_value, parse_path
from kubesched.apiserver.printing.table import AGE, Cell, Column, Columns, age, columns, since
from kubesched.base.types import JSON

_DESCRIPTION = "Custom resource definition column (in JSONPath format): "


def columns_of(definitions: list[JSON]) -> Columns | None:
    """The columns of a definition, or None if it has none."""
    if not definitions:
        return None
    shown = tuple(
        Column(
            d["name"],
            d.get("type", "string"),
            d.get("priority", 0),
            d.get("format", ""),
            d.get("description") or f"{_DESCRIPTION}{d.get('jsonPath')}",
        )
        for d in definitions
    )
    paths = [parse_path(d.get("jsonPath") or "") for d in definitions]
    default = columns(AGE, lambda obj, now: [age(obj, now)])

    def row(obj: JSON, now: float) -> list[Cell]:
        return [_cell(first_value(obj, path), column.type, now) for path, column in zip(paths, shown, strict=True)]

    return Columns(shown, row, default.name_of)


def _cell(value: Any, type_: str, now: float) -> Cell:
    """A value as its column's type has it; None if it is of another type."""
    if type_ == "string":
        return None if value is None else _text(value)
    if type_ == "date":
        return since(value, now) if isinstance(value, str) else None
    if type_ == "boolean" or isinstance(value, bool):
        return value if type_ == "boolean" and isinstance(value, bool) else None
    if type_ == "integer" and isinstance(value, float):
        return int(value)
    return value if isinstance(value, int | float) else None


def _text(value: Any) -> str:
    """A value as text; objects and lists as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
