"""Rules for the schemas of custom resources: each says completely which types its fields have, and its defaults fit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kubesched.apiserver.crd.schema import Validator
from kubesched.apiserver.crd.values import check_value
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_WITHOUT_TYPE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_NAMED = ("name", "generateName")
_IMPLICIT = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_QUADRATIC = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
_KEY = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
_HERE = "\0"
"""Stands for the default itself in the messages about what is wrong with it."""


def check_schema(schema: JSON, path: str, problems: Problems) -> None:
    """Check a whole schema. Defaults are checked only if the rest is right."""
    if not schema.get("type"):
        problems.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        problems.invalid(f"{path}.type", schema["type"], "must be object at the root")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if (metadata.get("properties") or {}).keys() - set(_NAMED):
        problems.forbidden(f"{path}.properties[metadata]", _IMPLICIT)
    _check_part(schema, path, problems)
    for part, where, level in _parts(schema, path):
        _check_type(part, where, level, problems)
    if not problems.found:
        _check_defaults(schema, path, problems)


def _parts(schema: JSON, path: str) -> Iterator[tuple[JSON, str, str]]:
    """The parts of a schema, with their places and what they are for."""
    for name, part in (schema.get("properties") or {}).items():
        if isinstance(part, dict):
            yield part, f"{path}.properties[{name}]", "object fields"
    for field, level in (("items", "array items"), ("additionalProperties", "object fields")):
        if isinstance(part := schema.get(field), dict):
            yield part, f"{path}.{field}", level


def _check_type(schema: JSON, path: str, level: str, problems: Problems) -> None:
    if not schema.get("type") and not any(schema.get(field) for field in _WITHOUT_TYPE) and "$ref" not in schema:
        problems.required(f"{path}.type", f"must not be empty for specified {level}")
    _check_part(schema, path, problems)
    for part, where, inner in _parts(schema, path):
        _check_type(part, where, inner, problems)


def _check_part(schema: JSON, path: str, problems: Problems) -> None:
    type_ = schema.get("type")
    if type_ and type_ not in _TYPES:
        problems.unsupported(f"{path}.type", type_, _TYPES)
    if schema.get("$ref") is not None:
        problems.forbidden(f"{path}.$ref", "$ref is not supported")
    if schema.get("uniqueItems"):
        problems.forbidden(f"{path}.uniqueItems", _QUADRATIC)
    if isinstance(schema.get("items"), list):
        problems.forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif type_ == "array" and schema.get("items") is None:
        problems.required(f"{path}.items", "must be specified")
    if schema.get("properties") and schema.get("additionalProperties"):
        detail = "additionalProperties and properties are mutual exclusive"
        problems.forbidden(f"{path}.additionalProperties", detail)
    if schema.get("x-kubernetes-list-type") == "map":
        _check_keys(schema, path, problems)


def _check_keys(schema: JSON, path: str, problems: Problems) -> None:
    """Check the keys of a list whose items have keys."""
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        problems.required(f"{path}.x-kubernetes-list-map-keys", detail)
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    for index, key in enumerate(keys if items else ()):
        assert items is not None
        part = (items.get("properties") or {}).get(key)
        if part is None:
            detail = "entries must all be names of item properties"
            problems.invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", key, detail)
        elif key not in (items.get("required") or []) and part.get("default") is None:
            problems.required(f"{path}.items.properties[{key}].default", _KEY)


def _check_defaults(schema: JSON, path: str, problems: Problems) -> None:
    if schema.get("default") is not None:
        _check_default(schema["default"], schema, f"{path}.default", problems)
    for part, where, _ in _parts(schema, path):
        _check_defaults(part, where, problems)


def _check_default(value: Any, schema: JSON, path: str, problems: Problems) -> None:
    completed = {"": copy.deepcopy(value)}
    around = Validator({"type": "object", "properties": {"": schema}})
    if around.prune(completed):
        problems.invalid(path, value, "must not have unknown fields")
        return
    around.default(completed)
    found = Problems()
    check_value(completed[""], schema, _HERE, found)
    for cause in found.found:
        message = cause.message.replace(f"{_HERE}.", "").replace(_HERE, "")
        problems.add(cause.reason, cause.field.replace(_HERE, path), message)
