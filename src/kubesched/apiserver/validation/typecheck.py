"""Checking an object against its type: refuses values of the wrong type and drops unknown fields.

The messages are those of Go's decoder, which people find when they search for an error. Unknown fields are never
stored. The client chooses (fieldValidation) whether they are refused, warned about or ignored.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.kinds.schema import ObjectType, ValueType, type_of
from kubesched.apiserver.part_cache import ENTRIES, key_of
from kubesched.apiserver.storage.store import decode, encode
from kubesched.base.types import JSON

_GO_TYPES = {"bool": "bool", "string": "string", "int32": "int32", "int64": "int64", "double": "float64"}
_GO_KINDS = {bool: "bool", str: "string", int: "int64", float: "float64", dict: "map", list: "slice"}
_NUMERIC = "numeric (int or float)"
_TYPED = {
    **dict.fromkeys(("int32", "int64", "double"), _NUMERIC),
    "bool": "boolean",
    "list": "list",
    "map": "map",
    "object": "map",
}
_MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_BASE64 = re.compile(r"[\r\n]*(?:(?:[A-Za-z0-9+/][\r\n]*){4})*(?:(?:[A-Za-z0-9+/][\r\n]*){2,3}=?[\r\n]*=[\r\n]*)?")
_LIMITS = {"int32": 2**31, "int64": 2**63}


class WrongTypeError(ValueError):
    """A value that the field cannot hold.

    `typed` is the message of server-side apply, `converted` that of a strategic merge patch.
    """

    def __init__(self, message: str, typed: str = "", converted: str = "") -> None:
        super().__init__(message)
        self.typed = typed or message
        self.converted = converted or message


def drop_unknown(obj: JSON, type_: ObjectType) -> list[str]:
    """Remove the fields that the type does not have, and return their paths.

    Raises `WrongTypeError` for a value of the wrong type.

    A field that is null counts as absent, and null items of lists and maps become zero values, as in Go's decoder.
    """
    unknown: list[str] = []
    _check_object(obj, type_, "", "", unknown, _checked_spec(obj, type_))
    return unknown


def drop_empty(obj: JSON, type_: ObjectType) -> None:
    """Remove empty lists and maps from optional fields, as Go's encoding does: `tolerations: []` changes nothing."""
    for name in [name for name, value in obj.items() if isinstance(value, dict | list)]:
        field, value = type_.fields.get(name), obj[name]
        if field is None:
            continue
        kind, part = field.shape.kind, field.shape.object
        if not value and kind in ("list", "map"):
            if not (field.required or field.keeps_zero):
                del obj[name]
        elif part is not None:
            drop_empty(value, part)
        elif field.shape.item is not None and (part := field.shape.item.object) is not None:
            for item in value if isinstance(value, list) else value.values():
                if isinstance(item, dict):
                    drop_empty(item, part)


def _checked_spec(obj: JSON, type_: ObjectType) -> JSON | None:
    """The spec of an object, if an equal one has passed the check unchanged."""
    spec, field = obj.get("spec"), type_.fields.get("spec")
    if not isinstance(spec, dict) or field is None or field.shape.object is None:
        return None
    key = key_of(spec)
    return spec if key is not None and _passes(key, field.shape.object.name) else None


@lru_cache(ENTRIES)
def _passes(data: bytes, type_name: str) -> bool:
    """Whether an encoded part of an object passes the check unchanged."""
    part, type_ = decode(data), type_of(type_name)
    if type_ is None:
        return False
    unknown: list[str] = []
    try:
        _check_object(part, type_, "", "", unknown)
    except WrongTypeError:
        return False
    return not unknown and encode(part) == data


def _check_object(
    obj: JSON, type_: ObjectType, path: str, plain: str, unknown: list[str], checked: JSON | None = None
) -> None:
    fields = type_.fields
    surplus: list[str] = []
    for name, value in obj.items():
        field = fields.get(name)
        if field is None:
            if not type_.preserve_unknown:
                surplus.append(name)
                unknown.append(f"{path}.{name}" if path else name)
            continue
        if value is None:
            surplus.append(name)
            continue
        if value is checked:
            continue
        shape = field.shape
        kind = shape.kind
        if kind == "string":
            if not isinstance(value, str):
                raise _wrong(value, type_, f"{plain}.{name}" if plain else name, shape)
            continue
        here = f"{path}.{name}" if path else name
        there = f"{plain}.{name}" if plain else name
        _check(value, shape, type_, here, there, unknown)
    for name in surplus:
        del obj[name]


def _check(value: Any, shape: ValueType, owner: ObjectType, path: str, plain: str, unknown: list[str]) -> None:
    kind = shape.kind
    if kind == "object":
        assert shape.object is not None
        if not isinstance(value, dict):
            raise _wrong(value, owner, plain, shape)
        _check_object(value, shape.object, path, plain, unknown)
    elif kind == "list":
        _check_list(value, shape, owner, path, plain, unknown)
    elif kind == "map":
        _check_map(value, shape, owner, path, plain, unknown)
    else:
        _check_scalar(value, shape, owner, plain)


def _check_list(value: Any, shape: ValueType, owner: ObjectType, path: str, plain: str, unknown: list[str]) -> None:
    if not isinstance(value, list):
        raise _wrong(value, owner, plain, shape)
    item_shape = shape.item
    assert item_shape is not None
    for index, item in enumerate(value):
        if item is None:
            value[index] = _zero(item_shape)
        else:
            _check(item, item_shape, owner, f"{path}[{index}]", plain, unknown)


def _check_map(value: Any, shape: ValueType, owner: ObjectType, path: str, plain: str, unknown: list[str]) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, owner, plain, shape)
    item_shape = shape.item
    assert item_shape is not None
    for key, item in value.items():
        if item is None:
            value[key] = _zero(item_shape)
        else:
            _check(item, item_shape, owner, f"{path}.{key}", plain, unknown)


_ZEROS = {
    "string": "",
    "bytes": "",
    "bool": False,
    "double": 0,
    "int32": 0,
    "int64": 0,
    "intorstring": 0,
    "quantity": "0",
}


def _zero(shape: ValueType) -> Any:
    """The value that Go's decoder makes of null."""
    return {} if shape.kind == "object" else _ZEROS.get(shape.kind)


def _check_scalar(value: Any, shape: ValueType, owner: ObjectType, plain: str) -> None:
    kind = shape.kind
    if kind in ("any", "schema", "schemaorbool"):
        return
    if kind in ("int32", "int64"):
        fits = isinstance(value, int) and not isinstance(value, bool)
        if not fits or not -_LIMITS[kind] <= value < _LIMITS[kind]:
            raise _wrong(value, owner, plain, shape)
    elif kind == "bool":
        if not isinstance(value, bool):
            raise _wrong(value, owner, plain, shape)
    elif kind == "double":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(value, owner, plain, shape)
    elif kind == "quantity":
        _check_quantity(value)
    elif kind == "intorstring":
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _wrong(value, owner, plain, shape)
    elif not isinstance(value, str):
        raise _wrong(value, owner, plain, shape)
    elif kind in ("time", "microtime") and not _TIME.match(value):
        layout = "2006-01-02T15:04:05.000000Z07:00" if kind == "microtime" else "2006-01-02T15:04:05Z07:00"
        raise WrongTypeError(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"')
    elif kind == "bytes" and not _BASE64.fullmatch(value):
        raise WrongTypeError(f"illegal base64 data at input byte {_first_illegal(value)}")


def _first_illegal(value: str) -> int:
    found = re.search(r"[^A-Za-z0-9+/]", value)
    return found.start() if found else len(value) // 4 * 4


def _check_quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise WrongTypeError(_MALFORMED)
    try:
        nanos(value)
    except QuantityError:
        raise WrongTypeError(_MALFORMED) from None


def _wrong(value: Any, owner: ObjectType, plain: str, shape: ValueType) -> WrongTypeError:
    message = f"json: cannot unmarshal {json_word(value)} into Go struct field {owner.short_name}.{plain}"
    typed = f".{plain}: expected {_found_instead(value, _TYPED.get(shape.kind, 'string'))}"
    return WrongTypeError(f"{message} of type {_go_type(shape)}", typed, _not_converted(value, shape))


def _found_instead(value: Any, expected: str) -> str:
    """What server-side apply says about a value: its type, or the value as Go prints it."""
    if expected == _NUMERIC:
        kinds = {"map": "map[string]interface {}", "slice": "[]interface {}"}
        return f"{expected}, got {kinds.get(_GO_KINDS[type(value)], _GO_KINDS[type(value)])}"
    shown = f"value.valueUnstructured{{Value:{go_text(value)}}}" if expected == "string" else f"{{{go_text(value)}}}"
    return f"{expected}, got &{shown}"


_RESTORED = {"list": "slice from", "map": "map from", "object": "struct from:"}


def _not_converted(value: Any, shape: ValueType) -> str:
    """What Go's converter of untyped objects says about a value."""
    source = _GO_KINDS[type(value)]
    if shape.kind in _RESTORED:
        return f"cannot restore {_RESTORED[shape.kind]} {source}"
    wanted = _go_type(shape)
    convertible = (source, wanted) in (("int64", "string"), ("float64", "int32"), ("float64", "int64"))
    return f"cannot convert {source} to {wanted}" if convertible else f"unrecognized type: {wanted}"


def json_word(value: Any) -> str:
    """A kind of JSON value in the words of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return f"number {value}" if isinstance(value, float) else "number"


def _go_type(shape: ValueType) -> str:
    if shape.kind == "list" and shape.item is not None:
        return f"[]{_go_type(shape.item)}"
    if shape.kind == "map" and shape.item is not None:
        return f"map[string]{_go_type(shape.item)}"
    if shape.object is not None:
        return f"v1.{shape.object.short_name}"
    return _GO_TYPES.get(shape.kind, "string")


def go_text(value: Any) -> str:
    """A value as Go prints it with the verb %+v."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
