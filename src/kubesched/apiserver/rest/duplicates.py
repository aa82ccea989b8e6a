"""Fields that a body has twice. Parsers keep the last one, so they are looked for separately."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from kubesched.base.documents import REQUEST, compose_yaml

_KEY = re.compile(rb'"\s*:')


class _Repeating(dict[str, Any]):
    """An object in which keys are repeated."""

    repeated: tuple[str, ...] = ()


def json_duplicates(data: bytes, parsed: Any) -> list[str]:
    """The paths of the fields that are repeated in JSON, given what a parser made of it."""
    if len(_KEY.findall(data)) == _keys_in(parsed):
        return []  # nearly always
    return list(_paths(json.loads(data, object_pairs_hook=_object), ""))


def _keys_in(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_keys_in(child) for child in value.values() if isinstance(child, dict | list))
    return sum(_keys_in(child) for child in value) if isinstance(value, list) else 0


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = _Repeating(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        found.repeated = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return found


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Repeating):
        yield from (f"{path}.{name}".lstrip(".") for name in value.repeated)
        for name, child in value.items():
            yield from _paths(child, f"{path}.{name}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _paths(child, f"{path}[{index}]")


def yaml_duplicates(data: bytes) -> list[str]:
    """What upstream's YAML parser says about keys that are repeated."""
    return list(repeated_keys(compose_yaml(data, REQUEST)))


def repeated_keys(node: yaml.Node | None) -> Iterator[str]:
    """The same about nodes that have been composed."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, child in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
                seen.add(key.value)
            yield from repeated_keys(child)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from repeated_keys(child)
