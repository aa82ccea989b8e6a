"""The three kinds of patch: JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch.

A strategic merge patch merges lists of objects by a key that the type names: containers by name, conditions by type.
Where a type is not described, as inside an unknown field, lists are replaced, as a merge patch would.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
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


def json_patch(target: JSON, operations: Any) -> JSON:
    """`target` with a list of operations applied. `target` is not changed."""
    if not isinstance(operations, list):
        raise bad_request("the body of a JSON patch must be a list of operations")
    document: Any = copy.deepcopy(target)
    copied = 0
    for operation in operations:
        copied += _copied_bytes(document, operation)
        if copied > MOST_COPIED:
            size = f"the accumulated size increase of copy is {copied}, exceeding the limit {MOST_COPIED}"
            raise JsonPatchError(f"Unable to complete the copy, {size}")
        document = _operate(document, operation)
    if not isinstance(document, dict):
        raise JsonPatchError("the patch leaves no object")
    return document


def _copied_bytes(document: Any, operation: Any) -> int:
    if not isinstance(operation, dict) or operation.get("op") != "copy" or not isinstance(operation.get("from"), str):
        return 0
    return len(msgspec.json.encode(_copied(document, operation)))


def _operate(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise bad_request(f"not an operation of a JSON patch: {operation!r}")
    name = operation.get("op", "unknown")
    act = _OPERATIONS.get(str(name))
    if act is None:
        raise JsonPatchError(f"Unexpected kind: {name}")
    for field in ("path", "from") if name in ("move", "copy") else ("path",):
        if not isinstance(operation.get(field), str):
            raise JsonPatchError(
                f"{name} operation failed to decode {field}: operation, missing {field} field: missing value"
            )
    if not _is_pointer(operation["path"]):
        raise JsonPatchError(f"{name} operation does not apply: doc is missing {_where(operation)}: missing value")
    return act(document, _pointer(operation["path"]), operation)


def _where(operation: JSON) -> str:
    """The path of an operation, as messages about it have it."""
    name, path = operation["op"], operation["path"]
    if name in ("add", "remove"):
        return f'path: "{path}"'
    return f"destination path: {path}" if name in ("move", "copy") else f"path: {path}"


def _add(document: Any, path: list[str], operation: JSON) -> Any:
    return _insert(document, path, operation.get("value"), operation)


def _remove(document: Any, path: list[str], operation: JSON) -> Any:
    parent, last = _parent(
        document, path, f'remove operation does not apply: doc is missing path: "{operation["path"]}"'
    )
    if isinstance(parent, list):
        del parent[_index(parent, last, len(parent) - 1)]
    elif last in parent:
        del parent[last]
    else:
        where = f"error in remove for path: '{operation['path']}'"
        raise JsonPatchError(f"{where}: Unable to remove nonexistent key: {last}: missing value")
    return document


def _replace(document: Any, path: list[str], operation: JSON) -> Any:
    """Replace a value. A field that its object does not have is added, as upstream."""
    value = copy.deepcopy(operation.get("value"))
    if not path:
        return value
    parent, last = _parent(
        document, path, f"replace operation does not apply: doc is missing path: {operation['path']}"
    )
    parent[_index(parent, last, len(parent) - 1) if isinstance(parent, list) else last] = value
    return document


def _move(document: Any, path: list[str], operation: JSON) -> Any:
    origin = operation["from"]
    source = _pointer(origin)
    parent, last = _parent(document, source, f"move operation does not apply: doc is missing from path: {origin}")
    if isinstance(parent, dict) and last not in parent:
        raise JsonPatchError(
            f"error in move for path: '{last}': Unable to remove nonexistent key: {last}: missing value"
        )
    value = _get(parent, [last])
    document = _remove(document, source, {"path": origin})
    return _insert(document, path, value, operation)


def _copy(document: Any, path: list[str], operation: JSON) -> Any:
    return _insert(document, path, _copied(document, operation), operation)


def _copied(document: Any, operation: JSON) -> Any:
    """The value that a copy operation copies: null for a field that its object does not have, as upstream."""
    origin = operation["from"]
    parent, last = _parent(
        document, _pointer(origin), f"copy operation does not apply: doc is missing from path: {origin}"
    )
    return _get(parent, [last])


def _test(document: Any, path: list[str], operation: JSON) -> Any:
    if _get(document, path) != operation.get("value"):
        raise JsonPatchTestError(f"testing value {operation['path']} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, list[str], JSON], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _is_pointer(text: str) -> bool:
    return not text or text.startswith("/")


def _pointer(text: str) -> list[str]:
    if not _is_pointer(text):
        raise bad_request(f"not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str], missing: str = "") -> Any:
    """The value at a path. If there is none: an error that starts with `missing`, or None if that is empty."""
    for part in path:
        if isinstance(document, list):
            document = document[_index(document, part, len(document) - 1)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        elif missing:
            raise JsonPatchError(f"{missing}: missing value")
        else:
            return None
    return document


def _parent(document: Any, path: list[str], missing: str) -> tuple[Any, str]:
    parent = _get(document, path[:-1], missing) if path else None
    if not isinstance(parent, dict | list):
        raise JsonPatchError(f"{missing}: missing value")
    return parent, path[-1]


def _insert(document: Any, path: list[str], value: Any, operation: JSON) -> Any:
    parent, last = _parent(
        document, path, f"{operation['op']} operation does not apply: doc is missing {_where(operation)}"
    )
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, len(parent)), copy.deepcopy(value))
    else:
        parent[last] = copy.deepcopy(value)
    return document


def _index(items: list[Any], text: str, highest: int) -> int:
    try:
        index = int(text)
    except ValueError:
        raise JsonPatchError(f"not an index into a list: {text!r}") from None
    if not -len(items) <= index <= highest:
        raise JsonPatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index


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
