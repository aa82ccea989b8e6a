"""The rules in CEL of a custom resource's schema (x-kubernetes-validations)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON
from kubesched.cel import CELError, Environment, Program
from kubesched.cel.times import parse_duration, parse_timestamp
from kubesched.cel.types import DYN, Type, optional_of
from kubesched.cel.values import NONE, Optional

FIELD = "x-kubernetes-validations"
COST_LIMIT = 1_000_000
"""What one rule may cost for one value."""
_WORDS = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}
_OLD = re.compile(r"\boldSelf\b")
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_RESERVED = frozenset(
    """true false null in as break const continue else for function if import let loop package namespace return var void
    while""".split()  # noqa: SIM905
)
"""The words of CEL that cannot be names of fields."""
_NOTHING: Any = object()


@lru_cache(maxsize=1024)
def compile_rule(source: str) -> Program:
    """Compile a rule. Raises CELError."""
    return _environment().compile(source)


def checked(source: str, about: Type | None, is_old_optional: bool) -> Program:
    """Compile an expression with the type of what it is about. Raises CELError."""
    known = about or DYN
    old = optional_of(known) if is_old_optional else known
    return Environment({"self": known, "oldSelf": old}).compile(source)


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
        is_new, is_optional = old is _NOTHING, rule.get("optionalOldSelf") is True
        if _OLD.search(source) and is_new and not is_optional:
            return
        before = None if is_new else cel_value(old, schema)
        if is_optional:
            before = NONE if is_new else Optional(True, before)
        known = {"self": cel_value(value, schema), "oldSelf": before}
        try:
            if compile_rule(source)(known) is True:
                return
        except CELError as error:
            why = f"{error} evaluating rule: {rule.get('message') or source.strip()}"
            self.problems.invalid(path or "<nil>", schema.get("type", "object"), why)
            return
        where = f"{path}{rule['fieldPath']}".lstrip(".") if rule.get("fieldPath") else path
        self._refuse(rule.get("reason") or "", where or "<nil>", value, self._message(rule, known))

    def _refuse(self, reason: str, where: str, value: Any, message: str) -> None:
        if reason in _WORDS:
            self.problems.add(reason, where, f"{_WORDS[reason]}: {message}")
        elif reason == "FieldValueDuplicate":
            # Upstream shows neither the value nor the message here, and below no value of many parts.
            self.problems.add(reason, where, "Duplicate value")
        elif isinstance(value, dict | list):
            self.problems.add("FieldValueInvalid", where, f"Invalid value: {message}")
        else:
            self.problems.invalid(where, value, message)

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
    """A value as CEL sees it: numbers, times and bytes by their schema, special characters of names escaped."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        other = additional if isinstance(additional, dict) else {}
        return {
            escaped(name) if name in properties else name: cel_value(item, properties.get(name, other))
            for name, item in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [cel_value(item, items if isinstance(items, dict) else {}) for item in value]
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    parse = _FORMATS.get(schema.get("format") or "") if isinstance(value, str) else None
    if parse is None:
        return value
    parsed = parse(value)
    return value if parsed is None else parsed


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


_FORMATS: dict[str, Callable[[str], object]] = {
    "byte": _bytes,
    "date": lambda text: parse_timestamp(f"{text}T00:00:00Z"),
    "date-time": parse_timestamp,
    "duration": parse_duration,
}


def escaped(name: str) -> str:
    """The name of a field as rules of schemas spell it."""
    return f"__{name}__" if name in _RESERVED else with_escapes(name)


def with_escapes(name: str) -> str:
    """The name of a field as policies spell it, which may use reserved words."""
    for special, text in _ESCAPES:
        name = name.replace(special, text)
    return name
