"""The three kinds of patch: JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch.

A strategic merge patch merges lists of objects by a key that the type names: containers by name, conditions by type.
Where a type is not described, as inside an unknown field, lists are replaced, as a merge patch would.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from kubesched.apiserver.kinds.schema import Field, ObjectType
from kubesched.apiserver.wire.status import StatusError, bad_request
from kubesched.base.types import JSON

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

MOST_COPIED = 3 << 20
"""Bytes that the copy operations of one JSON patch may add, as in kube-apiserver: each can double the object."""


_NUMBER = re.compile("[-+]?[0-9]+")
_MAX_DIGITS = 18


class PatchError(ValueError):
    """A patch that cannot be applied."""


class JsonPatchError(StatusError):
    """A JSON patch that does not apply to the object."""

    def __init__(self, detail: str) -> None:
        super().__init__(422, f"the server rejected our request due to an error in our request: {detail}")
        self.detail = detail


class JsonPatchTestError(JsonPatchError):
    """The operation `test` found another value."""


# --- JSON patch -------------------------------------------------------------------------------------------------------


def json_patch(target: JSON, operations: Any) -> Any:
    """`target` with a list of operations applied, which may replace it by a list. `target` is not changed."""
    if not isinstance(operations, list):
        raise bad_request("the body of a JSON patch must be a list of operations")
    document: Any = copy.deepcopy(target)
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request(f"not an operation of a JSON patch: {operation!r}")
        document, size = _operate(document, operation)
        copied += size
        if copied > MOST_COPIED:
            grown = f"the accumulated size increase of copy is {copied}, exceeding the limit {MOST_COPIED}"
            raise JsonPatchError(f"Unable to complete the copy, {grown}")
    return document


def _operate(document: Any, operation: JSON) -> tuple[Any, int]:
    """The changed document, and how many bytes were copied."""
    name = operation.get("op", "unknown")
    act = _OPERATIONS.get(str(name))
    if act is None:
        raise JsonPatchError(f"Unexpected kind: {name}")
    size = 0
    if name == "copy":
        size = len(msgspec.json.encode(_copied(document, operation)))
        if size > MOST_COPIED:
            return document, size
    return act(document, operation), size


def _text(operation: JSON, field: str) -> str:
    """The path, or the other path, of an operation."""
    value = operation.get(field)
    if isinstance(value, str):
        return value
    name = operation["op"]
    short = name in ("add", "remove") or (name == "copy" and field == "path")
    why = "missing value" if short else f"operation, missing {field} field: missing value"
    raise JsonPatchError(f"{name} operation failed to decode {field}: {why}")


def _add(document: Any, operation: JSON) -> Any:
    path = _text(operation, "path")
    container, key = _container(document, path, f'add operation does not apply: doc is missing path: "{path}"')
    _insert(container, key, copy.deepcopy(operation.get("value")), f"error in add for path: '{path}'")
    return document


def _remove(document: Any, operation: JSON) -> Any:
    path = _text(operation, "path")
    container, key = _container(document, path, f'remove operation does not apply: doc is missing path: "{path}"')
    _delete(container, key, f"error in remove for path: '{path}'")
    return document


def _replace(document: Any, operation: JSON) -> Any:
    """Replace a value. A field that its object does not have is added, as upstream."""
    path, value = _text(operation, "path"), copy.deepcopy(operation.get("value"))
    if not path:
        if not isinstance(value, dict | list):
            raise JsonPatchError("replace operation value must be object or array: %!w(<nil>)")
        return value
    container, key = _container(document, path, f"replace operation does not apply: doc is missing path: {path}")
    if isinstance(container, dict):
        container[key] = value
        return document
    try:
        container[_index(container, key)] = value
    except PatchError:
        raise JsonPatchError(f"replace operation does not apply: doc is missing key: {path}: missing value") from None
    return document


def _move(document: Any, operation: JSON) -> Any:
    origin = _text(operation, "from")
    start = f"move operation does not apply: doc is missing from path: {origin}"
    container, key = _container(document, origin, start)
    value = _get(container, key, f"error in move for path: '{key}'")
    _delete(container, key, f"error in move for path: '{key}'")
    return _place(document, operation, value, "error in move for path: '{path}'")


def _copy(document: Any, operation: JSON) -> Any:
    value = copy.deepcopy(_copied(document, operation))
    return _place(document, operation, value, "error while adding value during copy")


def _copied(document: Any, operation: JSON) -> Any:
    """The value that a copy operation copies: null for a field that its object does not have, as upstream."""
    origin = _text(operation, "from")
    start = f"copy operation does not apply: doc is missing from path: {origin}"
    container, key = _container(document, origin, start)
    return _get(container, key, f"error in copy for from: '{origin}'")


def _place(document: Any, operation: JSON, value: Any, problem: str) -> Any:
    """Add a value that was moved or copied."""
    path = _text(operation, "path")
    start = f"{operation['op']} operation does not apply: doc is missing destination path: {path}"
    container, key = _container(document, path, start)
    _insert(container, key, value, problem.format(path=path))
    return document


def _test(document: Any, operation: JSON) -> Any:
    path = _text(operation, "path")
    found = document
    if path:
        container, key = _container(document, path, f"test operation does not apply: is missing path: {path}")
        found = _get(container, key, f"error in test for path: '{path}'")
    if found != operation.get("value"):
        raise JsonPatchTestError(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, JSON], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _container(document: Any, path: str, missing: str) -> tuple[Any, str]:
    """The object or list that a path ends in, and the last part of the path. Text before the first slash is ignored."""
    _, *parts = path.split("/")
    names = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    for name in names[:-1]:
        if isinstance(document, list):
            with suppress(PatchError):
                document = document[_index(document, name)]
                continue
        document = document.get(name) if isinstance(document, dict) else None
    if not names or not isinstance(document, dict | list):
        raise JsonPatchError(f"{missing}: missing value")
    return document, names[-1]


def _get(container: Any, key: str, problem: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    try:
        return container[_index(container, key)]
    except PatchError as error:
        raise JsonPatchError(f"{problem}: {error}") from None


def _delete(container: Any, key: str, problem: str) -> None:
    try:
        if isinstance(container, list):
            del container[_index(container, key)]
        elif key in container:
            del container[key]
        else:
            raise PatchError(f"Unable to remove nonexistent key: {key}: missing value")
    except PatchError as error:
        raise JsonPatchError(f"{problem}: {error}") from None


def _insert(container: Any, key: str, value: Any, problem: str) -> None:
    if isinstance(container, dict):
        container[key] = value
        return
    try:
        container.insert(len(container) if key == "-" else _index(container, key, added=True), value)
    except PatchError as error:
        start = "" if "index:" in str(error) else f"value was not a proper array index: '{key}': "
        raise JsonPatchError(f"{problem}: {start}{error}") from None


def _index(items: list[Any], text: str, *, added: bool = False) -> int:
    """The place in a list that a text names. A negative one counts from the end."""
    if not _NUMBER.fullmatch(text):
        raise PatchError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    size = len(items) + added
    if len(text) > _MAX_DIGITS:
        raise PatchError(f'strconv.Atoi: parsing "{text}": value out of range')
    index = int(text)
    if not -size <= index < size:
        raise PatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


# --- strategic merge patch --------------------------------------------------------------------------------------------


def strategic_merge(target: JSON, patch: JSON, type_: ObjectType | None) -> JSON:
    """`target` with a strategic merge `patch` applied. `target` is not changed."""
    try:
        return _merge_object(target, patch, type_)
    except PatchError as error:
        raise bad_request(str(error)) from None


def _merge_object(target: JSON, patch: JSON, type_: ObjectType | None) -> JSON:
    directive = patch.get("$patch")
    if directive == "replace":
        replaced: JSON = _without_directives(patch)
        return replaced
    if directive == "delete":
        return {}
    result = dict(target)
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        if not all(key in retained for key in patch if not key.startswith("$")):
            raise PatchError("invalid patch format of retainKeys")
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(result, key, value, type_)
    _delete_from_primitive_lists(result, patch)
    _order_lists(result, target, patch, type_)
    return result


def _merge_field(result: JSON, key: str, value: Any, type_: ObjectType | None) -> None:
    field = type_.fields.get(key) if type_ is not None else None
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        old = None if field is not None and field.replaces else result.get(key)
        result[key] = _merge_object(old if isinstance(old, dict) else {}, value, _object_type(field))
        if value.get("$patch") == "delete":
            result.pop(key, None)
    elif isinstance(value, list) and field is not None and field.merges:
        result[key] = _merge_list(result.get(key) or [], value, field)
    else:
        result[key] = value


def _object_type(field: Field | None) -> ObjectType | None:
    if field is None:
        return None
    shape = field.shape.item if field.shape.kind in ("list", "map") else field.shape
    return shape.object if shape is not None else None


def _merge_list(old: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if not field.merge_key:
        return [*old, *(item for item in patch if item not in old)]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_without_directives(item) for item in patch if item.get("$patch") != "replace"]
    result = list(old)
    for item in patch:
        _merge_item(result, item, field)
    return result


def _merge_item(result: list[Any], item: Any, field: Field) -> None:
    key = field.merge_key
    if not isinstance(item, dict) or key not in item:
        raise PatchError(f"map: {item!r} does not contain declared merge key: {key}")
    positions = [index for index, known in enumerate(result) if known.get(key) == item[key]]
    if item.get("$patch") == "delete":
        for index in reversed(positions):
            del result[index]
    elif positions:
        result[positions[0]] = _merge_object(result[positions[0]], item, _object_type(field))
    else:
        result.append(_merge_object({}, item, _object_type(field)))


_DELETE_FROM = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"


def _delete_from_primitive_lists(result: JSON, patch: JSON) -> None:
    for key, removed in patch.items():
        name = key.removeprefix(_DELETE_FROM)
        if name != key and isinstance(result.get(name), list) and isinstance(removed, list):
            result[name] = [item for item in result[name] if item not in removed]


def _order_lists(result: JSON, target: JSON, patch: JSON, type_: ObjectType | None) -> None:
    """Order merged lists by ``$setElementOrder``, or else by the patch."""
    for name, field in (type_.fields if type_ is not None else {}).items():
        merged, order = result.get(name), patch.get(f"{_SET_ORDER}{name}", patch.get(name))
        if not field.merges or not isinstance(merged, list) or not isinstance(order, list):
            continue
        listed, before = (
            [_identity(item, field.merge_key) for item in items] for items in (order, target.get(name) or [])
        )
        result[name] = _ordered(merged, listed, before, field.merge_key)


def _ordered(items: list[Any], order: list[Any], before: list[Any], merge_key: str) -> list[Any]:
    """The listed items in their order. Others go before the first listed item that they stood in front of."""
    ranks = {_hashable(identity): rank for rank, identity in enumerate(order)}
    places = {_hashable(identity): place for place, identity in enumerate(before)}
    keyed = [(_hashable(_identity(item, merge_key)), item) for item in items]
    listed = sorted((pair for pair in keyed if pair[0] in ranks), key=lambda pair: ranks[pair[0]])
    others = [pair for pair in keyed if pair[0] not in ranks]
    result = []
    while listed and others:
        other, first = places.get(others[0][0]), places.get(listed[0][0])
        stood_in_front = other is not None and first is not None and other < first
        result.append((others if stood_in_front else listed).pop(0)[1])
    return [*result, *(item for _, item in (*listed, *others))]


def _identity(item: Any, merge_key: str) -> Any:
    return item.get(merge_key) if merge_key and isinstance(item, dict) else item


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_directives(item) for key, item in value.items() if not key.startswith("$")}
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value
