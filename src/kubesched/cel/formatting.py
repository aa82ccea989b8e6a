"""``'%s: %d'.format(['a', 1])``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kubesched.cel.conversions import string_of_double
from kubesched.cel.equality import keys_of
from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.times import duration_text, timestamp_text
from kubesched.cel.types import Type
from kubesched.cel.values import Duration, Timestamp, TypeValue, Uint, key_of, name_of

library = Library()

_INTEGERS = frozenset({"int", "uint"})
_TIMES = {"google.protobuf.Timestamp", "google.protobuf.Duration"}
_ANY = _INTEGERS | _TIMES | {"string", "bool", "bytes", "double", "map", "list", "type", "null"}
#: The words for a wrong argument, and the types that a verb accepts.
_VERBS: dict[str, tuple[str, frozenset[str]]] = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        "timestamps",
        _ANY,
    ),
    "d": ("decimal clause can only be used on integers", _INTEGERS),
    "o": ("octal clause can only be used on integers", _INTEGERS),
    "b": ("only integers and bools can be formatted as binary", _INTEGERS | {"bool"}),
    "x": ("only integers, byte buffers, and strings can be formatted as hex", _INTEGERS | {"bytes", "string"}),
    "f": ("fixed-point clause can only be used on doubles", frozenset({"double"})),
    "e": ("scientific clause can only be used on doubles", frozenset({"double"})),
}
_SUPERSCRIPT = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_MAX_PRECISION = 1000


class FormatError(EvaluationError):
    """A format that does not fit its arguments."""


@library.define(string_format="string.format(list(dyn)) -> string")
def format_(text: str, args: list[object]) -> str:
    parts, position, used = [], 0, 0
    while (start := text.find("%", position)) >= 0:
        parts.append(text[position:start])
        if text.startswith("%%", start):
            parts.append("%")
            position = start + 2
            continue
        verb, precision, position = clause(text, start + 1)
        if used >= len(args):
            raise FormatError(f"index {used} out of range")
        parts.append(_formatted(verb, precision, args[used]))
        used += 1
    return "".join([*parts, text[position:]])


def clauses(text: str) -> list[str]:
    """The verbs of a format, in order."""
    verbs, position = [], 0
    while (start := text.find("%", position)) >= 0:
        if text.startswith("%%", start):
            position = start + 2
            continue
        verb, _, position = clause(text, start + 1)
        verbs.append(verb)
    return verbs


def mismatch(verb: str, kind: Type | None) -> str:
    """What is wrong with an argument of a known type, or nothing."""
    message, allowed = _VERBS[verb.lower()]
    if kind is None or kind.is_dynamic or kind.is_param or kind.name in allowed:
        return ""
    return f"error during formatting: {message}, was given {kind.name}"


def clause(text: str, position: int) -> tuple[str, int, int]:
    """The verb and the precision after a percent sign, and where the clause ends."""
    if position >= len(text):
        raise FormatError("unexpected end of string")
    precision = 6
    if text[position] == ".":
        digits = re.compile(r"[0-9]*").match(text, position + 1)
        assert digits is not None
        precision, position = _precision(digits[0]), digits.end()
        if position >= len(text):
            raise FormatError(
                "could not parse formatting clause: error while parsing precision: could not find end of "
                "precision specifier"
            )
    verb = text[position]
    if verb not in "sdfexXob":
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return verb, precision, position + 1


def _precision(digits: str) -> int:
    where = "could not parse formatting clause: error while parsing precision"
    if not digits:
        reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        raise FormatError(f"{where}: {reason}")
    if len(digits) > 4 or int(digits) > _MAX_PRECISION:
        raise FormatError(f"{where}: precision is larger than {_MAX_PRECISION}")
    return int(digits)


def _formatted(verb: str, precision: int, value: object) -> str:
    match verb:
        case "s":
            return _text(value)
        case "d":
            return _integer(value, "d")
        case "o":
            return _integer(value, "o")
        case "b":
            if isinstance(value, bool):
                return "1" if value else "0"
            return _integer(value, "b")
        case "x" | "X":
            return _hex(value, verb)
        case "f":
            return _fixed(value, precision)
    return _scientific(value)


def _wrong(verb: str, value: object) -> FormatError:
    return FormatError(f"error during formatting: {_VERBS[verb.lower()][0]}, was given {name_of(type(value))}")


def _integer(value: object, code: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(code, value)
    return format(int(value), code)


def _hex(value: object, code: str) -> str:
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return value.hex() if code == "x" else value.hex().upper()
    return _integer(value, code)


def _fixed(value: object, precision: int) -> str:
    if not isinstance(value, float):
        raise _wrong("f", value)
    return _special(value) or f"{value:,.{precision}f}"


def _scientific(value: object) -> str:
    """The digits of cel-go: always six, and a power of ten in superscript."""
    if not isinstance(value, float):
        raise _wrong("e", value)
    if special := _special(value):
        return special
    mantissa, exponent = f"{value:.6e}".split("e")
    power = exponent.removeprefix("+")
    return f"{mantissa}\u00d710{power.translate(_SUPERSCRIPT)}"


def _special(value: float) -> str:
    if value != value:
        return "NaN"
    return "∞" if value == float("inf") else "-∞" if value == float("-inf") else ""


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case float():
            return string_of_double(value)
        case bytes():
            return value.decode(errors="replace")
    return _nested(value)


def _nested(value: object) -> str:
    """A value inside a list or a map: strings are quoted, doubles have six decimals."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | Uint():
            return str(int(value))
        case float():
            return _special(value) or f"{value:.6f}"
        case str():
            return f'"{value}"'
        case bytes():
            return value.decode(errors="replace")
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case TypeValue():
            return value.name
        case list() | tuple():
            return f"[{', '.join(map(_nested, value))}]"
        case Mapping():
            pairs = sorted((_nested(key), _nested(value[key_of(key)])) for key in keys_of(value))
            return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
    raise _wrong("s", value)
