"""The schema and the printed columns of a custom resource, as its definition gives them."""

from __future__ import annotations

import copy
import re
from typing import Any

from kubesched.apiserver.crd.rules import check_rules, has_rules
from kubesched.apiserver.printing.table import AGE, Cell, Column, Columns, age, columns, since
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.status import Cause
from kubesched.base.types import JSON
from kubesched.cel.errors import EvaluationError
from kubesched.cel.regexes import matches

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}


class Validator:
    """One version's schema."""

    def __init__(self, schema: JSON) -> None:
        self._schema = schema
        self._has_rules = has_rules(schema)

    def prune(self, obj: JSON) -> list[str]:
        """Drop the fields that the schema does not know. Returns their paths."""
        dropped: list[str] = []
        if self._schema.get("type") == "object" or "properties" in self._schema:
            _prune(obj, self._schema, "", dropped, is_root=True)
        return dropped

    def default(self, obj: JSON) -> None:
        """Fill in the schema's defaults."""
        _default(obj, self._schema)

    def broken_rules(self, obj: JSON, old: JSON | None) -> list[Cause]:
        """The rules in CEL that the object breaks, or the change from the old one."""
        problems = Problems()
        if self._has_rules:
            check_rules(obj, old, self._schema, problems)
        return problems.found

    @property
    def has_defaults(self) -> bool:
        """Whether any part of the schema has a default."""
        return _has_defaults(self._schema)

    def problems(self, obj: JSON) -> list[Cause]:
        """The rules of the schema that the object breaks."""
        problems = Problems()
        properties = self._schema.get("properties") or {}
        for name in self._schema.get("required") or []:
            if name not in obj:
                problems.required(name)
        for name, schema in properties.items():
            if name in obj and name not in _ROOT_FIELDS:
                _validate(obj[name], schema, name, problems)
        return problems.found


def _prune(value: Any, schema: JSON, path: str, dropped: list[str], *, is_root: bool = False) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _prune(item, schema.get("items") or {}, f"{path}[{index}]", dropped)
        return
    if not isinstance(value, dict) or schema.get(_PRESERVE):
        return
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in list(value):
        where = f"{path}.{name}" if path else name
        if name in properties:
            if not (is_root and name in _ROOT_FIELDS):
                _prune(value[name], properties[name], where, dropped)
        elif isinstance(additional, dict):
            _prune(value[name], additional, where, dropped)
        elif not (additional or ((is_root or schema.get(_EMBEDDED)) and name in _ROOT_FIELDS)):
            del value[name]
            dropped.append(where)


def _default(value: Any, schema: JSON) -> None:
    if isinstance(value, list):
        for item in value:
            _default(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    for name, part in (schema.get("properties") or {}).items():
        if name not in value and "default" in part:
            value[name] = copy.deepcopy(part["default"])
        if name in value:
            _default(value[name], part)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        for item in value.values():
            _default(item, additional)


def _has_defaults(schema: JSON) -> bool:
    parts = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(isinstance(part, dict) and ("default" in part or _has_defaults(part)) for part in parts)


def _validate(value: Any, schema: JSON, path: str, problems: Problems) -> None:
    if value is None and schema.get("nullable"):
        return
    if not _has_type(value, schema):
        wanted = schema.get("type")
        problems.add(
            "FieldValueTypeInvalid",
            path,
            f'Invalid value: "{_type_name(value)}": {path} in body must be of type {wanted}: "{_type_name(value)}"',
        )
        return
    if "enum" in schema and value not in schema["enum"]:
        problems.unsupported(path, value, [str(item) for item in schema["enum"]])
    _validate_range(value, schema, path, problems)
    if isinstance(value, dict):
        _validate_object(value, schema, path, problems)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _validate(item, schema.get("items") or {}, f"{path}[{index}]", problems)


def _validate_object(value: JSON, schema: JSON, path: str, problems: Problems) -> None:
    for name in schema.get("required") or []:
        if name not in value:
            problems.required(f"{path}.{name}")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        part = properties.get(name, additional)
        if isinstance(part, dict):
            _validate(item, part, f"{path}.{name}", problems)


def _validate_range(value: Any, schema: JSON, path: str, problems: Problems) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            problems.invalid(path, value, f"{path} in body should be greater than or equal to {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            problems.invalid(path, value, f"{path} in body should be less than or equal to {schema['maximum']}")
    if isinstance(value, str):
        if "pattern" in schema and not _matches(value, schema["pattern"]):
            problems.invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
        if len(value) < schema.get("minLength", 0):
            problems.invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            problems.add("FieldValueTooLong", path, f"Too long: may not be more than {schema['maxLength']} bytes")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            problems.invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            problems.add(
                "FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
            )


def _matches(value: str, pattern: str) -> bool:
    try:
        return matches(value, pattern)
    except EvaluationError:  # in a definition from before patterns were checked
        return False


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


# --- columns ----------------------------------------------------------------------------------------------------------


def columns_of(definitions: list[JSON]) -> Columns | None:
    """The columns of a definition, or None if it has none."""
    if not definitions:
        return None
    shown = tuple(
        Column(d["name"], d.get("type", "string"), d.get("priority", 0), d.get("format", ""), d.get("description", ""))
        for d in definitions
    )
    paths = [_parse_path(d.get("jsonPath", "")) for d in definitions]
    default = columns(AGE, lambda obj, now: [age(obj, now)])

    def row(obj: JSON, now: float) -> list[Cell]:
        return [_cell(_value_at(obj, path), column.type, now) for path, column in zip(paths, shown, strict=True)]

    return Columns(shown, row, default.name_of)


def _parse_path(text: str) -> list[str]:
    """The steps of a simple JSONPath: names, quoted names and indexes."""
    return [match[1] or match[2] or match[3] for match in re.finditer(r"\.([^.\[\]]+)|\['([^']+)'\]|\[(\d+)\]", text)]


def _value_at(value: Any, path: list[str]) -> Any:
    for step in path:
        step = step.replace("\\.", ".")
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _cell(value: Any, type_: str, now: float) -> Cell:
    if value is None:
        return None if type_ != "string" else ""
    if type_ == "date":
        return since(str(value), now)
    if isinstance(value, str | int | bool):
        return value if type_ != "string" or isinstance(value, str) else str(value)
    return str(value)
