"""Strict decoding that reports every mistake instead of the first.

kube-scheduler's decoder knows fields by their exact spelling, refuses what it does not know and converts nothing.
msgspec does the same but stops at the first mistake. This walks the value along msgspec's own description of a type.
What cannot be decoded is reported and left at its default, so that the rest of the file still gets checked.
"""

import base64
import binascii
from functools import cache
from typing import TypeVar, cast

import msgspec
from msgspec import UNSET
from msgspec import inspect as mi

from kubesched.config.duration import Duration
from kubesched.config.errors import Problem, join, suggest

S = TypeVar("S", bound=msgspec.Struct)

_describe = cache(mi.type_info)
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127


def decode(cls: type[S], value: object, path: str, problems: list[Problem]) -> S | None:
    """``value`` as a ``cls``; None if it is not an object. A null counts as absent, as in Go."""
    decoded = _struct(value, cast(mi.StructType, _describe(cls)), path, problems)
    return decoded if isinstance(decoded, cls) else None


def _decode(value: object, kind: mi.Type, path: str, problems: list[Problem]) -> object:
    match kind:
        case mi.StructType():
            return _struct(value, kind, path, problems)
        case mi.VarTupleType():
            return _items(value, kind.item_type, path, problems)
        case mi.DictType():
            return _entries(value, kind.value_type, path, problems)
        case mi.UnionType():
            return _decode(
                value, next(each for each in kind.types if not isinstance(each, mi.NoneType)), path, problems
            )
        case mi.LiteralType():
            return _choice(value, kind.values, path, problems)
        case mi.CustomType() if kind.cls is object:
            return value
        case _:
            return _scalar(value, kind, path, problems)


def _struct(value: object, kind: mi.StructType, path: str, problems: list[Problem]) -> object:
    if not isinstance(value, dict):
        return _refuse(value, "an object", path, problems)
    known = {field.encode_name: field for field in kind.fields}
    for name in value:
        if name not in known:
            hint = suggest(str(name), known) or f"the fields here are {', '.join(sorted(known))}"
            problems.append(Problem(join(path, str(name)), "unknown field", hint=hint))
    decoded = {field.name: _field(value, field, path, problems) for field in kind.fields}
    given = {name: item for name, item in decoded.items() if item is not UNSET}
    if any(field.required and field.name not in given for field in kind.fields):
        return UNSET
    return kind.cls(**given)


def _field(value: dict[str, object], field: mi.Field, path: str, problems: list[Problem]) -> object:
    item = value.get(field.encode_name)
    where = join(path, field.encode_name)
    # Go's enumerations are strings, whose empty value means "not set".
    if item is None or (item == "" and isinstance(field.type, mi.LiteralType)):
        if field.required:
            problems.append(Problem(where, f"required, {_one_of(field.type)}"))
        return UNSET
    return _decode(item, field.type, where, problems)


def _items(value: object, kind: mi.Type, path: str, problems: list[Problem]) -> object:
    if not isinstance(value, list | tuple):
        return _refuse(value, "a list", path, problems)
    decoded = [_decode(item, kind, f"{path}[{index}]", problems) for index, item in enumerate(value)]
    return tuple(_placeholder(kind) if item is UNSET else item for item in decoded)


def _placeholder(kind: mi.Type) -> object:
    """Takes the place of an item that could not be decoded, so that later items keep their index in reports."""
    if isinstance(kind, mi.StructType):
        return kind.cls(**{field.name: _placeholder(field.type) for field in kind.fields if field.required})
    return 0 if isinstance(kind, mi.IntType | mi.FloatType) else ""


def _entries(value: object, kind: mi.Type, path: str, problems: list[Problem]) -> object:
    if not isinstance(value, dict):
        return _refuse(value, "an object", path, problems)
    decoded = {key: _decode(item, kind, f'{path}["{key}"]', problems) for key, item in value.items()}
    return {key: item for key, item in decoded.items() if item is not UNSET}


def _choice(value: object, choices: tuple[object, ...], path: str, problems: list[Problem]) -> object:
    if value in choices:
        return value
    expected = f"one of {', '.join(map(str, choices))}"
    return _refuse(value, expected, path, problems, hint=suggest(str(value), map(str, choices)))


def _scalar(value: object, kind: mi.Type, path: str, problems: list[Problem]) -> object:
    match kind, value:
        case (mi.StrType(), str()) | (mi.BoolType(), bool()):
            return value
        case mi.IntType() | mi.FloatType(), bool():
            pass
        case mi.IntType(), int() | float() if value % 1 == 0:
            return _bounded(int(value), kind, path, problems)
        case mi.FloatType(), int() | float() if abs(value) <= _FLOAT32_MAX:
            return float(value)
        case mi.CustomType(), str() if kind.cls is Duration:
            return _duration(value, path, problems)
        case mi.BytesType(), str():
            return _binary(value, path, problems)
    return _refuse(value, _EXPECTED[type(kind)], path, problems)


def _bounded(value: int, kind: mi.IntType, path: str, problems: list[Problem]) -> object:
    low, high = kind.ge, kind.le
    if (low is None or value >= low) and (high is None or value <= high):
        return value
    return _refuse(value, f"an integer between {low} and {high}", path, problems)


def _duration(value: str, path: str, problems: list[Problem]) -> object:
    try:
        return Duration.parse(value)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return UNSET


def _binary(value: str, path: str, problems: list[Problem]) -> object:
    try:
        return base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        problems.append(Problem(path, "not base64", hint="encode the file's bytes, for example with base64 -w0"))
        return UNSET


_EXPECTED: dict[type[mi.Type], str] = {
    mi.StrType: "a string",
    mi.BoolType: "true or false",
    mi.IntType: "an integer",
    mi.FloatType: "a number",
    mi.BytesType: "a base64 string",
    mi.CustomType: 'a duration such as "15s" or "1m30s"',
}


def _one_of(kind: mi.Type) -> str:
    return f"one of {', '.join(map(str, kind.values))}" if isinstance(kind, mi.LiteralType) else "must be given"


def _refuse(value: object, expected: str, path: str, problems: list[Problem], hint: str = "") -> object:
    problems.append(Problem(path, f"expected {expected}", value, hint))
    return UNSET
