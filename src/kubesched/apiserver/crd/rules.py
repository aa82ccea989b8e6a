"""The rules in CEL of a custom resource's schema (x-kubernetes-validations)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON
from kubesched.cel import CELError, Environment, Program
from kubesched.cel.times import parse_timestamp
from kubesched.cel.types import DYN

FIELD = "x-kubernetes-validations"
COST_LIMIT = 1_000_000
"""What one rule may cost for one value."""
_REASONS = {"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"}
_OLD = re.compile(r"\boldSelf\b")
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_NOTHING: Any = object()


@lru_cache(maxsize=1024)
def compile_rule(source: str) -> Program:
    """Compile a rule. Raises CELError."""
    return _environment().compile(source)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment({"self": DYN, "oldSelf": DYN}, cost_limit=COST_LIMIT)


def has_rules(schema: JSON) -> bool:
    """Whether any part of a schema has rules."""
    return bool(schema.get(FIELD)) or any(has_rules(part) for part in _parts(schema))


def _parts(schema: JSON) -> Iterator[JSON]:
    nested = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return (part for part in nested if isinstance(part, dict))


def check_rules(obj: JSON, old: JSON | None, schema: JSON, problems: Problems) -> None:
    """Add the rules that an object breaks. Those about changes need the object as it was."""
    _Walk(problems).visit(obj, _NOTHING if old is None else old, schema, "")


@dataclass(slots=True)
class _Walk:
    problems: Problems

    def visit(self, value: Any, old: Any, schema: JSON, path: str) -> None:
        for rule in schema.get(FIELD) or ():
            self._check(rule, value, old, schema, path)
        if isinstance(value, dict):
            properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
            for name, item in value.items():
                part = properties.get(name, additional)
                if isinstance(part, dict):
                    before = old.get(name, _NOTHING) if isinstance(old, dict) else _NOTHING
                    self.visit(item, before, part, f"{path}.{name}" if path else name)
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                before = _counterpart(item, old, schema)
                self.visit(item, before, schema["items"], f"{path}[{index}]")

    def _check(self, rule: JSON, value: Any, old: Any, schema: JSON, path: str) -> None:
        source = rule.get("rule") or ""
        if _OLD.search(source) and old is _NOTHING:
            return
        known = {"self": cel_value(value, schema), "oldSelf": None if old is _NOTHING else cel_value(old, schema)}
        try:
            if compile_rule(source)(known) is True:
                return
            message = self._message(rule, known)
        except CELError as error:
            message = f"rule evaluation error: {error}: {source.strip()}"
        where = f"{path}{rule['fieldPath']}".lstrip(".") if rule.get("fieldPath") else path
        shown = schema.get("type", "object") if isinstance(value, dict | list) else value
        if rule.get("reason") in _REASONS - {"FieldValueInvalid"}:
            word = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}.get(rule["reason"])
            self.problems.add(rule["reason"], where or "<nil>", f"{word or 'Duplicate value'}: {message}")
        else:
            self.problems.invalid(where or "<nil>", shown, message)

    def _message(self, rule: JSON, known: dict[str, object]) -> str:
        if rule.get("messageExpression"):
            try:
                text = compile_rule(rule["messageExpression"])(known)
            except CELError:
                text = ""
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text
        return rule.get("message") or f"failed rule: {(rule.get('rule') or '').strip()}"


def _counterpart(item: Any, old: Any, schema: JSON) -> Any:
    """The item of the old list that an item of a list with keys was. Other items have no history."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _NOTHING
    identity = [item.get(key) for key in keys]
    return next((each for each in old if isinstance(each, dict) and [each.get(k) for k in keys] == identity), _NOTHING)


def cel_value(value: Any, schema: JSON) -> Any:
    """A value as CEL sees it: numbers and dates by their schema, and property names with special characters escaped."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        other = additional if isinstance(additional, dict) else {}
        return {
            _escaped(name) if name in properties else name: cel_value(item, properties.get(name, other))
            for name, item in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [cel_value(item, items if isinstance(items, dict) else {}) for item in value]
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and schema.get("format") == "date-time":
        return parse_timestamp(value) or value
    return value


def _escaped(name: str) -> str:
    for special, text in _ESCAPES:
        name = name.replace(special, text)
    return name
