"""Runtime values of CEL.

Values that JSON has are plain Python values: bool, int, float, str, bytes, None, list and dict. So objects of the API
need no conversion. The classes here are the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MIN_INT = -(2**63)
MAX_INT = 2**63 - 1
MAX_UINT = 2**64 - 1

NANOS = 10**9


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since the epoch, in UTC."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The value of ``type(x)`` and of names such as ``int``."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing: ``optional.of(x)`` and ``optional.none()``."""

    present: bool
    value: object = None


NONE = Optional(False)


class StructValue(dict[str, object]):
    """An object that an expression creates: ``Object.spec{replicas: 3}``. Its fields are those that were given."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: Mapping[str, object]) -> None:
        super().__init__(fields)
        self.type_name = type_name


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as the key of a dict, where Python would take True for 1."""

    value: bool


def key_of(value: object) -> object:
    """The dict key under which a map literal stores an entry."""
    return BoolKey(value) if isinstance(value, bool) else value


def from_key(key: object) -> object:
    """The value that a dict key stands for."""
    return key.value if isinstance(key, BoolKey) else key


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    tuple: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
    StructValue: "Object",
}


def register(kind: type, name: str) -> None:
    """Give a library's class of values its name in CEL."""
    _NAMES[kind] = name


def name_of(kind: type) -> str:
    """The CEL name of a Python class: ``int``, ``map``, ``kubernetes.Quantity``."""
    name = _NAMES.get(kind)
    if name is None:
        name = next((known for base, known in reversed(_NAMES.items()) if issubclass(kind, base)), "dyn")
        _NAMES[kind] = name
    return name
