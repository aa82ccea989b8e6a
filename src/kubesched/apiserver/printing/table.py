"""Tables: the rows and columns that `kubectl get` prints come from the server.

The `columns_*` modules define the columns and rows of each kind. A kind without its own has name and age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kubesched.apiserver.meta import parse_timestamp
from kubesched.apiserver.wire.status import bad_request
from kubesched.base.types import JSON

Cell = str | int | float | bool | None
Row = Callable[[JSON, float], list[Cell]]
"""Makes the cells of an object at a time, without its name."""

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. A priority above 0 means wide output only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def to_json(self) -> JSON:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a kind and how to fill them. The name comes first, except for events."""

    columns: tuple[Column, ...]
    row: Row
    name_of: Callable[[JSON], str]
    name_last: bool = False
    order: Callable[[JSON], Any] | None = None
    """What rows are sorted by; None if they stay in the order of names."""

    @property
    def shown(self) -> tuple[Column, ...]:
        if self.name_last:
            return (*self.columns, replace(_NAME, priority=1))
        return (_NAME, *self.columns)

    def cells(self, obj: JSON, now: float) -> list[Cell]:
        cells, name = self.row(obj, now), self.name_of(obj)
        return [*cells, name] if self.name_last else [name, *cells]


def _name_of(obj: JSON) -> str:
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


_NAME = Column("Name", format="name", description="The name of the object, unique within its namespace and kind.")
AGE = "Age"


def columns(
    spec: str,
    row: Row,
    name_of: Callable[[JSON], str] = _name_of,
    *,
    name_last: bool = False,
    order: Callable[[JSON], Any] | None = None,
) -> Columns:
    """Columns from a short spec: names separated by commas, ``+`` before a wide one, ``:integer`` after for a type.

    A type may have a format: ``:string/name``.
    """
    return Columns(tuple(_column(part.strip()) for part in spec.split(",")), row, name_of, name_last, order)


def _column(text: str) -> Column:
    name, _, kind = text.partition(":")
    type_, _, format_ = kind.partition("/")
    return Column(name.removeprefix("+"), type_ or "string", 1 if name.startswith("+") else 0, format_)


def age(obj: JSON, now: float) -> str:
    """The age of an object."""
    return since((obj.get("metadata") or {}).get("creationTimestamp"), now)


def since(time: str | None, now: float) -> str:
    """The time since a date, or unknown."""
    if not time:
        return UNKNOWN
    try:
        return human_duration(now - parse_timestamp(time))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """A duration in one or two units, as kubectl prints ages."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def labels_text(labels: JSON | None) -> str:
    """Labels or a simple selector as text."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: JSON | None) -> str:
    """A label selector as text, in the grammar of queries."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    terms += [_expression_text(expression) for expression in selector.get("matchExpressions") or []]
    return ",".join(terms) or NONE


def _expression_text(expression: JSON) -> str:
    key, operator = expression.get("key", ""), expression.get("operator")
    if operator == "Exists":
        return str(key)
    if operator == "DoesNotExist":
        return f"!{key}"
    word = "in" if operator == "In" else "notin"
    return f"{key} {word} ({','.join(sorted(expression.get('values') or []))})"


# --- making tables ----------------------------------------------------------------------------------------------------

_DEFAULT = columns(AGE, lambda obj, now: [age(obj, now)])


class Tabulator:
    """Makes the Tables of one kind."""

    def __init__(self, columns: Columns | None, version: str, include_object: str, now: Callable[[], float]) -> None:
        if include_object not in ("", "Metadata", "Object", "None"):
            raise bad_request(f'unrecognized includeObject value: "{include_object}"')
        self._columns = columns or _DEFAULT
        self._api_version = f"meta.k8s.io/{version}"
        self._include = include_object or "Metadata"
        self._now = now

    def table(self, objects: Iterable[JSON], list_meta: JSON, *, with_columns: bool = True) -> JSON:
        """The objects as a Table."""
        shown = self._columns.shown if with_columns else ()
        if self._columns.order is not None:
            objects = sorted(objects, key=self._columns.order)
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": list_meta,
            "columnDefinitions": [column.to_json() for column in shown],
            "rows": [self._row(obj) for obj in objects],
        }

    def _row(self, obj: JSON) -> JSON:
        row: JSON = {"cells": self._columns.cells(obj, self._now())}
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "Metadata":
            row["object"] = partial(obj)
        return row


def partial(obj: JSON) -> JSON:
    """An object's metadata as PartialObjectMetadata."""
    meta: Any = obj.get("metadata") or {}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
