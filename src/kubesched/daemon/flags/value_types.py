"""Types of flag values, parsed and formatted as Go's pflag does, so that a command line means the same here.

A type parses the text after ``--flag=`` and formats a value for ``/flagz``. Parsing raises ValueError, which becomes
pflag's "invalid argument" message.
"""

from __future__ import annotations

import csv
import io
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kubesched.api.quantity import NANO, nanos
from kubesched.config.duration import Duration
from kubesched.logs.levels import VModule, verbosity

T = TypeVar("T")

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))


@dataclass(frozen=True, slots=True)
class FlagType(Generic[T]):
    """A type of flag values. `word` is its name in the help."""

    word: str
    parse: Callable[[str], T]
    show: Callable[[T], str] = str
    bare: str = ""
    """The value of a flag given without one; empty if a value is required."""
    add: Callable[[T, T], T] | None = None
    """Combines the values of a repeated flag; None if the last one wins."""


@dataclass(frozen=True, slots=True)
class NamedCertKey:
    """The files of a certificate and its key, and their server names; by default those in the certificate."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


# --- parsing ----------------------------------------------------------------------------------------------------------


def parse_bool(text: str) -> bool:
    """Go's ``strconv.ParseBool``."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f'"{text}" is neither true nor false')


def _integer(text: str, bits: int) -> int:
    """Parse an integer in any of Go's notations: 10, 0x0a, 0o12, 012, 0b1010."""
    octal = re.fullmatch(r"([-+]?)0([0-7]+)", text)
    try:
        value = int(f"{octal[1]}0o{octal[2]}" if octal else text, 0)
    except ValueError:
        raise ValueError(f'"{text}" is not an integer') from None
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"{text} does not fit into {bits} bits")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'"{text}" is not a number') from None


def _address(text: str) -> str:
    """Parse an IP address; blank means all addresses."""
    if not text.strip():
        return "0.0.0.0"  # noqa: S104 - what a blank --bind-address means upstream
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f'failed to parse IP: "{text}"') from None


def parse_words(text: str) -> tuple[str, ...]:
    """Parse a list in one line of CSV, so that an item with a comma can be quoted."""
    return tuple(next(csv.reader([text], strict=True), ())) if text else ()


def _pairs(text: str) -> dict[str, str]:
    """Parse ``key=value`` pairs. A single pair may have commas in its key and value, as metric labels do."""
    parts = (text.strip('"'),) if text.count("=") == 1 else parse_words(text)
    pairs = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part} must be formatted as key=value")
        pairs[key] = value
    return pairs


def _certificate_pair(text: str) -> tuple[NamedCertKey, ...]:
    files, colon, listed = text.partition(":")
    if colon and not listed.strip():
        raise ValueError("empty names list is not allowed")
    names = tuple(name.strip() for name in listed.split(",")) if colon else ()
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    return (NamedCertKey(parts[0], parts[1], names),)


def _bytes(text: str) -> int:
    amount = nanos(text)
    return -(-amount // NANO)


def _vmodule(text: str) -> str:
    VModule(text)
    return text


def _version(text: str) -> str:
    if text == "raw" or text.startswith("v"):
        return text
    return "true" if parse_bool(text) else "false"


# --- formatting -------------------------------------------------------------------------------------------------------


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _show_float(value: float) -> str:
    return f"{value:g}"


def _show_list(value: tuple[Any, ...]) -> str:
    """Return one line of CSV in brackets; items with a comma or a quote are quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(map(str, value))
    return f"[{line.getvalue()}]"


def _show_pairs(value: dict[str, str]) -> str:
    return _show_list(tuple(f"{key}={item}" for key, item in value.items()))


def _show_gates(value: tuple[str, ...]) -> str:
    return ",".join(each if ":" in each else f":{each}" for each in value)


# --- the types --------------------------------------------------------------------------------------------------------

STRING: Final = FlagType("string", str)
BOOL: Final = FlagType("", parse_bool, _show_bool, bare="true")
INT: Final = FlagType("int", lambda text: _integer(text, 64))
INT32: Final = FlagType("int32", lambda text: _integer(text, 32))
FLOAT: Final = FlagType("float32", _float, _show_float)
IP: Final = FlagType("ip", _address)
DURATION: Final = FlagType("duration", Duration.parse)
WORDS: Final[FlagType[tuple[str, ...]]] = FlagType("strings", parse_words, _show_list, add=lambda old, new: old + new)
INTS: Final[FlagType[tuple[int, ...]]] = FlagType(
    "int32Slice",
    lambda text: tuple(_integer(part.strip(), 32) for part in text.split(",")),
    _show_list,
    add=lambda old, new: old + new,
)
PAIRS: Final[FlagType[dict[str, str]]] = FlagType("stringToString", _pairs, _show_pairs, add=lambda old, new: old | new)
GATES: Final[FlagType[tuple[str, ...]]] = FlagType(
    "[component:]Gate=true|false,...",
    lambda text: tuple(part.strip() for part in text.split(",") if part.strip()),
    _show_gates,
    add=lambda old, new: old + new,
)
CERT_KEYS: Final[FlagType[tuple[NamedCertKey, ...]]] = FlagType(
    "namedCertKey",
    _certificate_pair,
    lambda value: f"[{';'.join(map(str, value))}]",
    add=lambda old, new: old + new,
)
QUANTITY: Final = FlagType("quantity", _bytes)
LEVEL: Final = FlagType("Level", verbosity)
VMODULE: Final = FlagType("pattern=N,...", _vmodule)
VERSION: Final = FlagType("version[=true]", _version, bare="true")
PLUGINS: Final[FlagType[tuple[str, ...]]] = FlagType(
    "module:Class", lambda text: (text,), _show_list, add=lambda old, new: old + new
)
PATHS: Final[FlagType[tuple[str, ...]]] = FlagType(
    "path", lambda text: (text,), _show_list, add=lambda old, new: old + new
)
FOLDERS: Final[FlagType[tuple[str, ...]]] = FlagType(
    "folder", lambda text: (text,), _show_list, add=lambda old, new: old + new
)
NAMES_ONLY: Final[FlagType[tuple[str, ...]]] = FlagType(
    "name", lambda text: (text,), _show_list, add=lambda old, new: old + new
)
NAMES: Final[FlagType[tuple[str, ...]]] = FlagType(
    "name[=weight]", lambda text: (text,), _show_list, add=lambda old, new: old + new
)
