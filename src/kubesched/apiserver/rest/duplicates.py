"""Fields that a body has twice. Parsers keep the last one, so they are looked for separately."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from kubesched.apiserver.storage.store import encode
from kubesched.base.documents import REQUEST, compose_yaml

_KEY = re.compile(rb'"\s*:')


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object, repeated ones included."""


def json_duplicates(data: bytes, parsed: Any) -> list[str]:
    """What upstream's decoder says about fields that are repeated in JSON, given what a parser made of it."""
    if encode(parsed) == data or len(_KEY.findall(data)) == _keys_in(parsed):
        return []  # nearly always; what is encoded as we do it cannot repeat a field
    return list(dict.fromkeys(_words(json.loads(data, object_pairs_hook=_Pairs), "", frozenset())))


def with_unknown(data: bytes, repeated: list[str], unknown: list[str]) -> list[str]:
    """The words about repeated fields of a body and about unknown ones, given their paths, in its order."""
    words = [*repeated, *unknown_words(unknown)]
    if not repeated or not unknown:
        return words
    try:
        pairs = json.loads(data, object_pairs_hook=_Pairs)
    except ValueError:  # YAML: repeated keys are found before anything else
        return words
    return list(dict.fromkeys(_words(pairs, "", frozenset(unknown))))


def unknown_words(paths: Iterable[str]) -> list[str]:
    """What is said about unknown fields."""
    return [f'unknown field "{path}"' for path in paths]


def _keys_in(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_keys_in(child) for child in value.values() if isinstance(child, dict | list))
    return sum(_keys_in(child) for child in value) if isinstance(value, list) else 0


def _words(value: Any, path: str, unknown: frozenset[str]) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, child in value:
            here = f"{path}.{name}" if path else name
            if here in unknown:
                yield from unknown_words([here])
                continue
            if name in seen:
                yield f'duplicate field "{here}"'
            seen.add(name)
            yield from _words(child, here, unknown)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _words(child, f"{path}[{index}]", unknown)


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
