"""Checking a value of a custom resource against a schema of OpenAPI, with upstream's words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.apiserver.crd.formats import fits
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.status import Cause
from kubesched.base.types import JSON
from kubesched.cel.errors import EvaluationError
from kubesched.cel.regexes import matches

EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
NOWHERE = "<nil>"
"""The field of problems that upstream reports without one."""
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}
_INTEGER_BITS = {"int32": 31, "int64": 63}
_MOST_WHOLE = 2**53
"""From here on, floats do not say which integer is meant."""


def check_value(value: Any, schema: JSON, path: str, problems: Problems) -> None:
    """Add the problems of a value and of everything in it."""
    if value is None and schema.get("nullable"):
        return
    if not _has_type(value, schema):
        found, wanted = _type_name(value), "integer,string" if schema.get(_INT_OR_STRING) else schema.get("type")
        if isinstance(value, float) and _is_integer_with_format(schema):
            found, wanted = "float64", schema["format"]
        message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
        problems.add("FieldValueTypeInvalid", path, message)
        if isinstance(value, float) and schema.get("type") == "integer":
            _check_bits(value, schema, path, problems)
        _check_alternatives(value, schema, path, problems)
        return
    _check_alternatives(value, schema, path, problems)
    if schema.get("enum") and value not in schema["enum"]:
        problems.unsupported(path, value, [str(item) for item in schema["enum"]])
    if isinstance(value, str):
        _check_text(value, schema, path, problems)
    elif isinstance(value, dict):
        _check_object(value, schema, path, problems)
    elif isinstance(value, list):
        _check_list(value, schema, path, problems)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, schema, path, problems)


def whole_numbers(value: Any) -> Any:
    """The same value, in which numbers without a fraction are integers: 1.0 is 1, as upstream reads and writes it."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _MOST_WHOLE else value
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, float | dict | list):
                value[name] = whole_numbers(item)
    elif isinstance(value, list):
        value[:] = map(whole_numbers, value)
    return value


# --- types ------------------------------------------------------------------------------------------------------------


def _has_type(value: Any, schema: JSON) -> bool:
    if schema.get(_INT_OR_STRING):
        return isinstance(value, int | str) and not isinstance(value, bool)
    expected = _TYPES.get(schema.get("type") or "")
    if expected is None:
        return True
    return isinstance(value, expected) and not (isinstance(value, bool) and bool not in expected)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    return next(name for name in ("boolean", *_TYPES) if isinstance(value, _TYPES[name]))


# --- anyOf, oneOf, allOf, not -----------------------------------------------------------------------------------------


def _check_alternatives(value: Any, schema: JSON, path: str, problems: Problems) -> None:
    if schema.get("anyOf"):
        tried = _tried(value, schema["anyOf"], path)
        if all(tried):
            _nowhere(problems, f'"{path}" must validate at least one schema (anyOf)')
            problems.found += tried[0]
    if schema.get("oneOf"):
        tried = _tried(value, schema["oneOf"], path)
        valid = sum(not found for found in tried)
        if valid != 1:
            outcome = f"Found {valid} valid alternatives" if valid else "Found none valid"
            _nowhere(problems, f'"{path}" must validate one and only one schema (oneOf). {outcome}')
            problems.found += [] if valid else tried[0]
    if "allOf" in schema:
        tried = _tried(value, schema["allOf"], path)
        problems.found += [problem for found in tried for problem in found]
        if any(tried):
            none = ". None validated" if all(tried) else ""
            _nowhere(problems, f'"{path}" must validate all the schemas (allOf){none}')
    if "not" in schema and not any(_tried(value, [schema["not"]], path)):
        _nowhere(problems, f'"{path}" must not validate the schema (not)')


def _tried(value: Any, schemas: Iterable[JSON], path: str) -> list[list[Cause]]:
    """The problems of a value by each of some schemas."""
    found = []
    for schema in schemas:
        problems = Problems()
        check_value(value, schema, path, problems)
        found.append(problems.found)
    return found


def _nowhere(problems: Problems, message: str) -> None:
    problems.invalid(NOWHERE, "", message)


# --- what the types allow ---------------------------------------------------------------------------------------------


def _check_object(value: JSON, schema: JSON, path: str, problems: Problems) -> None:
    count = len(value)
    if count < schema.get("minProperties", 0):
        problems.invalid(path, count, f"{path} in body should have at least {schema['minProperties']} properties")
    _check_most(count, schema.get("maxProperties"), path, problems)
    embedded = ("apiVersion", "kind") if schema.get(EMBEDDED) else ()
    for name in dict.fromkeys((*(schema.get("required") or ()), *embedded)):
        if name not in value:
            problems.required(f"{path}.{name}")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        part = properties.get(name, additional)
        if isinstance(part, dict):
            check_value(item, part, f"{path}.{name}", problems)


def _check_list(value: list[Any], schema: JSON, path: str, problems: Problems) -> None:
    count = len(value)
    if count < schema.get("minItems", 0):
        problems.invalid(path, count, f"{path} in body should have at least {schema['minItems']} items")
    _check_most(count, schema.get("maxItems"), path, problems)
    for index, item in enumerate(value):
        check_value(item, schema.get("items") or {}, f"{path}[{index}]", problems)
    _check_duplicates(value, schema, path, problems)


def _check_most(count: int, most: int | None, path: str, problems: Problems) -> None:
    if most is not None and count > most:
        items = "item" if most == 1 else "items"
        problems.add("FieldValueTooMany", path, f"Too many: {count}: must have at most {most} {items}")


def _check_duplicates(value: list[Any], schema: JSON, path: str, problems: Problems) -> None:
    """The items of a set, and the keys of a map, are different."""
    kind = schema.get(_LIST_TYPE)
    if kind not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        if kind == "map":
            item = {key: item[key] for key in schema.get(_LIST_KEYS) or () if isinstance(item, dict) and key in item}
        identity = msgspec.json.encode(item, order="deterministic")
        if identity in seen:
            problems.duplicate(f"{path}[{index}]", item)
        seen.add(identity)


def _check_number(value: float, schema: JSON, path: str, problems: Problems) -> None:
    least, most = schema.get("minimum"), schema.get("maximum")
    start = f"{path} in body should be"
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        bound = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        problems.invalid(path, value, f"{start} {bound} {least}")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        bound = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        problems.invalid(path, value, f"{start} {bound} {most}")
    if schema.get("multipleOf") and not _is_multiple(value, schema["multipleOf"]):
        problems.invalid(path, value, f"{start} a multiple of {schema['multipleOf']}")
    if _is_integer_with_format(schema):
        _check_bits(value, schema, path, problems)


def _is_integer_with_format(schema: JSON) -> bool:
    return schema.get("type") == "integer" and schema.get("format") in _INTEGER_BITS


def _check_bits(value: float, schema: JSON, path: str, problems: Problems) -> None:
    bits = _INTEGER_BITS.get(schema.get("format", ""), 63)
    if not (-(1 << bits) <= value < 1 << bits and value == int(value)):
        which = f"with format {schema['format']}" if _is_integer_with_format(schema) else "(default format)"
        _nowhere(problems, f"Checked value must be of type integer {which} in {path}")


def _is_multiple(value: float, factor: float) -> bool:
    """Whether a quotient is an integer, apart from what computing with floats adds to it."""
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    try:
        quotient = 1 / factor * value if factor < 1 else value / factor
    except OverflowError:
        return False
    return math.isfinite(quotient) and math.isclose(quotient, round(quotient))


def _check_text(value: str, schema: JSON, path: str, problems: Problems) -> None:
    if len(value) < schema.get("minLength", 0):
        problems.invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        problems.add("FieldValueTooLong", path, f"Too long: may not be more than {schema['maxLength']} bytes")
    if "pattern" in schema and not _matches(value, schema["pattern"]):
        problems.invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if not fits(value, schema.get("format", "")):
        message = f"Invalid value: {msgspec.json.encode(value).decode()}: {path} in body must be of type"
        problems.add("FieldValueTypeInvalid", path, f'{message} {schema["format"]}: "{value}"')


def _matches(value: str, pattern: str) -> bool:
    try:
        return matches(value, pattern)
    except EvaluationError:  # in a definition from before patterns were checked
        return False
