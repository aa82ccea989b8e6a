"""What the explanation of a plugin consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kubesched.explain.change import Change
from kubesched.explain.survey import Survey

Value = str | int | float


class Detail(msgspec.Struct, frozen=True, rename="camel"):
    """One reason why a plugin rejects a node, with the numbers and names behind it."""

    text: str
    values: dict[str, Value] = {}


class Rule(NamedTuple):
    """How a plugin's verdict on a row is explained, and which changes would satisfy the plugin there."""

    details: Callable[[Survey, int], list[Detail]]
    fixes: Callable[[Survey, int], list[Change]]


def no_fixes(survey: Survey, row: int) -> list[Change]:
    """Nothing is known that would satisfy the plugin."""
    return []


def node_of(survey: Survey, row: int) -> str:
    """The name of a row's node."""
    return survey.table.names[row]


MOST_NAMES = 3


def some(names: list[str], count: int | None = None) -> str:
    """Some names, and how many more there are; of `count` if the list is not complete."""
    left = (len(names) if count is None else count) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {left} more" if left > 0 else "")
