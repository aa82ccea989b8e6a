"""Decoding JSON into structs, with errors that a person can act on.

Objects come from an API server, from files that people wrote and from recorded scenarios. Most are well formed, so the
fast path is one msgspec call. Only objects that it rejects are examined again: explicit nulls, which Kubernetes treats
as absent, are removed, and if the object still does not decode, the error names the field and its value.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TypeVar

import msgspec

from kubesched.api.quantity import MALFORMED

T = TypeVar("T", bound=msgspec.Struct)


class InvalidObject(ValueError):  # noqa: N818 - "except InvalidObject" says what it catches
    """An object that does not match its kind; the message names the object, the field and the problem."""

    def __init__(self, kind: str, key: str, field: str, problem: str) -> None:
        super().__init__(kind, key, field, problem)
        self.kind = kind
        self.key = key
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        subject = f"{self.kind} {self.key}" if self.key else self.kind
        return ": ".join(part for part in (subject, self.field, self.problem) if part)


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


def kind_of(data: bytes | Mapping[str, object]) -> tuple[str, str]:
    """``(apiVersion, kind)`` of an object; empty strings where they are missing."""
    try:
        meta = _decoder(_TypeMeta).decode(data) if isinstance(data, bytes) else msgspec.convert(data, _TypeMeta)
    except msgspec.ValidationError as error:
        raise InvalidObject("object", "", *_located(str(error))) from None
    except msgspec.DecodeError as error:
        raise InvalidObject("object", "", "", f"not valid JSON: {error}") from None
    except (RecursionError, UnicodeDecodeError) as error:
        raise _unreadable("object", error) from None
    return meta.api_version or "", meta.kind or ""


def decode_as(cls: type[T], data: bytes | Mapping[str, object]) -> T:
    """``data`` as a ``cls``. Unknown fields are skipped; nulls count as absent."""
    try:
        return _decoder(cls).decode(data) if isinstance(data, bytes) else msgspec.convert(data, cls)
    except msgspec.ValidationError:
        return _decode_forgiving(cls, data)
    except msgspec.DecodeError as error:
        raise InvalidObject(cls.__name__, "", "", f"not valid JSON: {error}") from None
    except (RecursionError, UnicodeDecodeError) as error:
        raise _unreadable(cls.__name__, error) from None


def _unreadable(kind: str, error: RecursionError | UnicodeDecodeError) -> InvalidObject:
    """The error for deep nesting and invalid UTF-8, which msgspec does not raise as errors of its own."""
    problem = "nested too deep" if isinstance(error, RecursionError) else "not valid UTF-8"
    return InvalidObject(kind, "", "", f"not valid JSON: {problem}")


@cache
def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(cls)


def _decode_forgiving(cls: type[T], data: bytes | Mapping[str, object]) -> T:
    try:
        raw = _without_nulls(msgspec.json.decode(data) if isinstance(data, bytes) else data)
    except (RecursionError, UnicodeDecodeError) as error:
        raise _unreadable(cls.__name__, error) from None
    try:
        return msgspec.convert(raw, cls)
    except msgspec.ValidationError as error:
        raise _explain(cls, raw, error) from None


def _without_nulls(value: object) -> object:
    """A copy without nulls. Keys and dates that YAML did not read as strings become strings, as Kubernetes has them."""
    if isinstance(value, Mapping):
        return {_text(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value if item is not None]
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat().replace("+00:00", "Z")
    return value


def _text(key: object) -> str:
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


# --- describing errors ------------------------------------------------------------------------------------------------

_LOCATION = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")


def _located(message: str) -> tuple[str, str]:
    """msgspec's message split into the path it names, without the leading ``$.``, and the problem."""
    match = _LOCATION.match(message)
    assert match is not None
    return (match["path"] or "").removeprefix("$").removeprefix("."), _plain(match["problem"])


def _plain(problem: str) -> str:
    text = problem.replace("`", "")
    return text[:1].lower() + text[1:]


def _explain(cls: type[msgspec.Struct], raw: object, error: msgspec.ValidationError) -> InvalidObject:
    if not isinstance(raw, dict):
        return InvalidObject(cls.__name__, "", "", _plain(str(error)))
    path, problem = _located(str(error))
    steps = _steps(cls, raw, f".{path}" if path else "", str(error))
    value = _value_at(raw, steps)
    shown = msgspec.json.encode(value).decode()
    problem = f"quantity {shown} {MALFORMED}" if "matching regex" in problem else f"{problem} ({shown})"
    return InvalidObject(cls.__name__, _key_of(raw), _render(steps), problem)


def _key_of(raw: Mapping[str, object]) -> str:
    meta = raw.get("metadata")
    if not isinstance(meta, Mapping):
        return ""
    return "/".join(str(meta[part]) for part in ("namespace", "name") if meta.get(part))


class _MapKey(str):
    """A step into a map, which is written differently from a step into a struct."""


def _steps(cls: type[msgspec.Struct], raw: dict[str, object], path: str, message: str) -> list[str | int]:
    """The keys and indexes that lead to the faulty value. msgspec does not say which key of a map it was, so each is
    tried until one gives the same message. There may be other mistakes elsewhere."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path):
        if match["name"]:
            steps.append(match["name"])
        elif match["index"]:
            steps.append(int(match["index"]))
        else:
            steps.append(_faulty_key(cls, raw, steps, message))
    return steps


def _faulty_key(cls: type[msgspec.Struct], raw: dict[str, object], steps: list[str | int], message: str) -> _MapKey:
    mapping = _value_at(raw, steps)
    assert isinstance(mapping, dict)
    entries = dict(mapping)
    for key, value in entries.items():
        mapping.clear()
        mapping[key] = value
        try:
            msgspec.convert(raw, cls)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return _MapKey(key)
    raise AssertionError("one entry of the map must be at fault")


def _value_at(raw: object, steps: list[str | int]) -> object:
    for step in steps:
        if isinstance(raw, dict):
            raw = raw[step]
        elif isinstance(raw, list):
            assert isinstance(step, int)
            raw = raw[step]
    return raw


def _render(steps: list[str | int]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif isinstance(step, _MapKey):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text
