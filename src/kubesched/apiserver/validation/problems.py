"""Collecting the problems of an object, with upstream's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.apiserver.wire.status import Cause

IMMUTABLE = "field is immutable"


class Problems:
    """A list of problems in upstream's words."""

    def __init__(self) -> None:
        self.found: list[Cause] = []

    def add(self, reason: str, field: str, message: str) -> None:
        self.found.append(Cause(reason, message, field))

    def required(self, field: str, detail: str = "") -> None:
        self.add("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")

    def invalid(self, field: str, value: Any, detail: str) -> None:
        self.add("FieldValueInvalid", field, f"Invalid value: {shown(value)}{f': {detail}' if detail else ''}")

    def unsupported(self, field: str, value: Any, supported: Iterable[str]) -> None:
        known = ", ".join(f'"{word}"' for word in supported)
        self.add("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {known}")

    def duplicate(self, field: str, value: Any, detail: str = "") -> None:
        self.add("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}{f': {detail}' if detail else ''}")

    def forbidden(self, field: str, detail: str) -> None:
        self.add("FieldValueForbidden", field, f"Forbidden: {detail}")

    def not_found(self, field: str, value: Any) -> None:
        self.add("FieldValueNotFound", field, f"Not found: {shown(value)}")


_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def shown(value: Any) -> str:
    """A value as shown in messages. Those of many parts are as Go encodes them."""
    text = msgspec.json.encode(value).decode()
    return text.translate(_ESCAPES) if isinstance(value, dict | list) else text
