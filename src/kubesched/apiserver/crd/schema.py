"""The schema of a custom resource, as its definition gives it: what it prunes, fills in and refuses."""

from __future__ import annotations

import copy
from typing import Any

from kubesched.apiserver.crd.rules import check_rules, has_rules
from kubesched.apiserver.crd.values import EMBEDDED, check_value
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.status import Cause
from kubesched.base.types import JSON

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_ABSENT: Any = object()
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


class Validator:
    """One version's schema."""

    def __init__(self, schema: JSON) -> None:
        self._schema = schema
        self.has_rules = has_rules(schema)

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
        if self.has_rules:
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
                check_value(obj[name], schema, name, problems)
        return problems.found


def without_nulls(schema: JSON) -> JSON:
    """A schema without parts that are null, which mean the same as missing ones."""

    def cleaned(name: str, part: Any) -> Any:
        if name == "properties":
            return {key: without_nulls(value or {}) for key, value in part.items()}
        if name in ("anyOf", "oneOf", "allOf"):
            return [without_nulls(each or {}) for each in part]
        if name in ("items", "additionalProperties", "not") and isinstance(part, dict):
            return without_nulls(part)
        return part

    return {name: cleaned(name, part) for name, part in schema.items() if part is not None or name == "default"}


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
        elif not (additional or ((is_root or schema.get(EMBEDDED)) and name in _ROOT_FIELDS)):
            del value[name]
            dropped.append(where)


def _default(value: Any, schema: JSON) -> None:
    if isinstance(value, list):
        for item in value:
            _default(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, part in properties.items():
        if value.get(name, _ABSENT) is None and not part.get("nullable"):
            del value[name]  # where it is not allowed, null is as good as nothing
        if name not in value and "default" in part:
            value[name] = copy.deepcopy(part["default"])
        if name in value:
            _default(value[name], part)
    if isinstance(additional, dict):
        for name, item in value.items():
            if name not in properties:
                _default(item, additional)


def _has_defaults(schema: JSON) -> bool:
    parts = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(isinstance(part, dict) and ("default" in part or _has_defaults(part)) for part in parts)
