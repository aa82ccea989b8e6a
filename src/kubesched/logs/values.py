"""How values look in a log.

Code that logs passes objects and leaves formatting to this module: a pod is ``"namespace/name"`` in text and an object
with these two fields in JSON. The rule depends on a value's type alone and is looked up once per type.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubesched.api import objects as api
from kubesched.base.log import text_of
from kubesched.config.duration import Duration
from kubesched.logs.quoting import compact_json, number, quote, quote_ascii
from kubesched.logs.references import KRef

Render = Callable[[Any], str]


# --- text -------------------------------------------------------------------------------------------------------------


def text_pair(key: str, value: object) -> str:
    """`` key=value`` in klog's text format. Logging must not fail, so a value that cannot be shown says why."""
    try:
        render = _TEXT.get(type(value)) or _text_rule(value)
        return f" {key}{render(value)}"
    except Exception as problem:
        return f" {key}={quote(f'<panic: {problem}>')}"


def _string(value: str) -> str:
    if "\n" not in value:
        return "=" + quote(value)
    body = value if value.endswith("\n") else value + "\n"
    return "=<\n" + "".join(f"\t{line}\n" for line in body[:-1].split("\n")) + " >"


def _sequence(value: list[Any] | tuple[Any, ...]) -> str:
    if value and all(isinstance(item, api.Object | KRef) for item in value):
        return "=[" + ",".join(f'"{item.key}"' for item in value) + "]"
    return "=" + compact_json(plain(value))


_TEXT: Final[dict[type, Render]] = {
    str: _string,
    int: lambda value: f"={value}",
    bool: lambda value: "=true" if value else "=false",
    float: lambda value: "=" + number(value),
    type(None): lambda _: "=null",
    KRef: lambda value: f'="{value.key}"',
    bytes: lambda value: "=" + quote_ascii(value),
    list: _sequence,
    tuple: _sequence,
}


def _text_rule(value: object) -> Render:
    rule: Render
    if isinstance(value, api.Object):
        rule = _TEXT[KRef]
    elif isinstance(value, Enum):
        return lambda member: text_pair("", member.value)[1:]
    elif _as_string(value) is not None:
        rule = lambda item: _string(_as_string(item) or "")  # noqa: E731 - a rule like those in the table
    else:
        rule = lambda item: "=" + compact_json(plain(item))  # noqa: E731 - a rule like those in the table
    _TEXT[type(value)] = rule
    return rule


def _as_string(value: object) -> str | None:
    """The text of what upstream would treat as a Stringer or an error; None for values shown as JSON."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, BaseException):
        return text_of(value) or type(value).__name__
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, timedelta):
        return str(Duration(round(value.total_seconds() * 1e9)))
    if isinstance(value, int | float | AbstractSet | Mapping | list | tuple | msgspec.Struct):
        return None
    message = getattr(value, "message", None)
    return message if isinstance(message, str) else str(value)


# --- JSON -------------------------------------------------------------------------------------------------------------


def json_value(value: object) -> str:
    """A value in klog's JSON format."""
    try:
        if isinstance(value, api.Object):
            meta = value.metadata
            namespace = f',"namespace":{known_json(meta.namespace)}' if meta.namespace else ""
            return f'{{"name":{_encode(meta.name)}{namespace}}}'
        return _encode(plain(value))
    except Exception as problem:
        return _encode(f"<panic: {problem}>".encode("utf-8", "replace").decode())


@lru_cache(maxsize=4096)
def known_json(text: str) -> str:
    """A quoted string, cached: messages, keys and places repeat often."""
    return json_value(text)


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def plain(value: object) -> object:
    """The value converted to JSON's own types."""
    if value is None or (isinstance(value, str | bool | int | float) and type(value) in _PLAIN):
        return value
    if isinstance(value, api.Object | KRef):
        return _reference(value.namespace, value.name)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, AbstractSet):
        return {str(item): {} for item in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value)}
    if isinstance(value, bytes):
        return b64encode(value).decode()
    string = _as_string(value)
    return string if string is not None else msgspec.to_builtins(value)


_PLAIN: Final = frozenset((str, bool, int, float))


def _reference(namespace: str, name: str) -> dict[str, str]:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}
