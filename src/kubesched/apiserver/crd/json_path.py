"""The JSONPath of printed columns: names, indexes, all items, and filters such as ``[?(@.type=="Ready")]``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Step = Callable[[Any], Iterable[Any]]
"""What a step finds in a value."""

_STEP = re.compile(
    r"""
    \.(?P<name>(?:[^.\[\]\\]|\\.)+)
    | \[(?P<quoted>'[^']*'|"[^"]*")\]
    | \[(?P<index>-?\d{1,9})\]
    | (?P<all>\[\*\]|\.\*)
    | \[\?\(@(?P<path>[^=!<>()\s]*)\s*(?:(?P<operator>==|!=)\s*(?P<value>'[^']*'|"[^"]*"|[^)\s]+)\s*)?\)\]
    """,
    re.VERBOSE,
)


def parse_path(text: str) -> list[Step]:
    """The steps of a path. What cannot be read finds nothing."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return [_nothing]
        steps.append(_step(match))
        at = match.end()
    return steps


def first_value(value: Any, path: list[Step]) -> Any:
    """The first value that a path leads to, or None."""
    return next(iter(_values(value, path)), None)


def _values(value: Any, path: list[Step]) -> Iterator[Any]:
    if not path:
        yield value
        return
    for found in path[0](value):
        yield from _values(found, path[1:])


def _nothing(_value: Any) -> Iterable[Any]:
    return ()


def _step(match: re.Match[str]) -> Step:
    if (name := match["name"] or match["quoted"]) is not None:
        plain = name[1:-1] if match["quoted"] else name
        return _field(re.sub(r"\\(.)", r"\1", plain))
    if match["index"] is not None:
        return _item(int(match["index"]))
    return _children if match["all"] else _filter(match)


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else ()


def _item(index: int) -> Step:
    return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else ()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _filter(match: re.Match[str]) -> Step:
    path, operator = parse_path(match["path"]), match["operator"]
    wanted = _literal(match["value"]) if operator else None

    def holds(item: Any) -> bool:
        found = list(_values(item, path))
        if not operator:
            return bool(found)
        return bool(found) and (found[0] == wanted) is (operator == "==")

    return lambda value: [item for item in value if holds(item)] if isinstance(value, list) else ()


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text
