"""Sets of fields, as paths, and merging by them.

A path is a tuple of elements as they are written in managedFields: ``f:spec``, ``k:{"name":"web"}``, ``v:"x"``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kubesched.apiserver.apply.shapes import MergeShape
from kubesched.base.types import JSON

Path = tuple[str, ...]
Leaves = dict[Path, object]
"""Every field that can be owned, with its value. A map or an item of a list that is itself owned has the value None."""


def leaves(value: object, shape: MergeShape) -> Leaves:
    """The fields of a value that can be owned."""
    return dict(_leaves(value, shape, ()))


def _leaves(value: object, shape: MergeShape, path: Path) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict) and not shape.atomic:
        for name, child in value.items():
            child_path = (*path, f"f:{name}")
            child_shape, declared = shape.field(name)
            yield from _leaves(child, child_shape, child_path)
            if isinstance(child, dict) and (not child or not declared) and not child_shape.atomic:
                yield child_path, None
    elif isinstance(value, list) and shape.keys is not None:
        for child in value:
            child_path = (*path, shape.key_of(child))
            yield from _leaves(child, shape.item, child_path)
            if isinstance(child, dict):
                yield child_path, None
    elif path:
        yield path, value


# --- the form in managedFields ----------------------------------------------------------------------------------------


def encode(paths: Iterable[Path]) -> JSON:
    """A set of paths in the form FieldsV1."""
    root: JSON = {}
    members = set(paths)
    for path in sorted(members):
        here = root
        for element in path:
            here = here.setdefault(element, {})
    for path in members:
        here = root
        for element in path:
            here = here[element]
        if here:
            here["."] = {}
    return root


def decode(tree: Any) -> set[Path]:
    """The paths of a set in the form FieldsV1."""
    return set(_decode(tree, ())) if isinstance(tree, dict) else set()


def _decode(tree: JSON, path: Path) -> Iterator[Path]:
    if path and (not tree or "." in tree):
        yield path
    for element, children in tree.items():
        if element != "." and isinstance(children, dict):
            yield from _decode(children, (*path, element))


def shown(path: Path) -> str:
    """A path as messages name it: ``.spec.containers[name="web"].image``."""
    return "".join(_shown(element) for element in path)


def _shown(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = json.loads(text)
        return f"[{','.join(f'{key}={json.dumps(value)}' for key, value in keys.items())}]"
    return f"[={text}]"


# --- merging ----------------------------------------------------------------------------------------------------------


def merge(live: Any, wanted: Any, shape: MergeShape) -> Any:
    """`live` with what is `wanted` in it. Neither is changed."""
    if isinstance(wanted, dict) and isinstance(live, dict) and not shape.atomic:
        result = dict(live)
        for name, value in wanted.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merge(live.get(name), value, shape.field(name)[0])
        return result
    if isinstance(wanted, list) and isinstance(live, list) and shape.keys is not None:
        return _merge_lists(live, wanted, shape)
    return wanted


def _merge_lists(live: list[Any], wanted: list[Any], shape: MergeShape) -> list[Any]:
    """Items in the order in which they are wanted. The others stay before the item that they stood before."""
    known = {shape.key_of(item): item for item in live}
    ours = {shape.key_of(item) for item in wanted}
    result: list[Any] = []
    rest = list(live)
    for item in wanted:
        while rest and shape.key_of(rest[0]) not in ours:
            result.append(rest.pop(0))
        key = shape.key_of(item)
        if key in known:
            rest = [each for each in rest if shape.key_of(each) != key]
        result.append(merge(known[key], item, shape.item) if key in known else item)
    return result + rest


def without(value: Any, gone: set[Path], shape: MergeShape) -> Any:
    """A value without some of its fields. What is left empty goes too."""
    return _without(value, encode(gone), shape)


def _without(value: Any, tree: JSON, shape: MergeShape) -> Any:
    if isinstance(value, dict) and not shape.atomic:
        result = {}
        for name, child in value.items():
            below = tree.get(f"f:{name}")
            left = child if below is None else _left(child, below, shape.field(name)[0])
            if left is not None or below is None:
                result[name] = left
        return result
    if isinstance(value, list) and shape.keys is not None:
        items = []
        for child in value:
            below = tree.get(shape.key_of(child))
            left = child if below is None else _left(child, below, shape.item)
            if left is not None:
                items.append(left)
        return items
    return value


def _left(value: Any, below: JSON, shape: MergeShape) -> Any:
    """What is left of a field, or None."""
    if not below or "." in below:
        return None
    return _without(value, below, shape) or None
