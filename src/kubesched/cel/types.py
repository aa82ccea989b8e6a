"""Types of the checker, and the small language in which functions are declared (``list(A).map(A) -> bool``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True, slots=True)
class Type:
    """A type such as ``int``, ``list(string)`` or ``kubernetes.Quantity``.

    ``fields`` holds the fields of an object type; ``max_size`` bounds the size of a value for the cost estimate.
    """

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, compare=False, repr=False)
    max_size: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name

    @property
    def declared(self) -> str:
        """The type as Kubernetes names it outside of compiler messages."""
        name = _DECLARED.get(self.name, self.name)
        return f"{name}({', '.join(param.declared for param in self.params)})" if self.params else name

    @property
    def is_param(self) -> bool:
        """Whether this stands for a type that is not known yet."""
        letter = len(self.name) == 1 and self.name.isupper()
        return self.fields is None and (letter or self.name.startswith("_var"))

    @property
    def is_dynamic(self) -> bool:
        return self.name in ("dyn", "any", "*error*")


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
TIMESTAMP, DURATION = Type("google.protobuf.Timestamp"), Type("google.protobuf.Duration")
DYN, ANY, ERROR = Type("dyn"), Type("any"), Type("*error*")

_DECLARED = {"null": "null_type", "any": "google.protobuf.Any"}
_SHORT = {
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    "quantity": Type("kubernetes.Quantity"),
    "semver": Type("kubernetes.Semver"),
    "url": Type("kubernetes.URL"),
    "ip": Type("net.IP"),
    "cidr": Type("net.CIDR"),
    "format": Type("kubernetes.NamedFormat"),
}


def list_of(item: Type, max_size: int | None = None) -> Type:
    return Type("list", (item,), max_size=max_size)


def map_of(key: Type, value: Type, max_size: int | None = None) -> Type:
    return Type("map", (key, value), max_size=max_size)


def optional_of(item: Type) -> Type:
    return Type("optional_type", (item,))


def type_of(item: Type) -> Type:
    return Type("type", (item,))


def object_type(name: str, fields: Mapping[str, Type]) -> Type:
    return Type(name, fields=fields)


@cache
def parse_type(text: str) -> Type:
    """The type that a declaration spells: ``map(string, list(A))``."""
    text = text.strip()
    if "(" not in text:
        return _SHORT.get(text, Type(text))
    name, inner = text.split("(", 1)
    return Type(name.strip(), tuple(parse_type(part) for part in split_params(inner[:-1])))


def split_params(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, last = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[last:index])
            last = index + 1
    return [part for part in (*parts, text[last:]) if part.strip()]


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload of a function. For a member function the first parameter is the target."""

    overload: str
    function: str
    params: tuple[Type, ...]
    result: Type
    member: bool


def parse_signature(overload: str, text: str) -> Signature:
    """Read a declaration: ``string.contains(string) -> bool`` for a member, ``size(string) -> int`` for a function.

    A dotted function name such as ``optional.of`` is written with two colons (``optional::of``).
    """
    head, result = text.rsplit(" -> ", 1)
    name_end = _call_start(head)
    dot = head.rfind(".", 0, name_end)
    params = split_params(head[name_end + 1 : -1])
    name = head[dot + 1 : name_end].replace("::", ".")
    if dot >= 0:
        params.insert(0, head[:dot])
    return Signature(overload, name, tuple(map(parse_type, params)), parse_type(result), dot >= 0)


def _call_start(head: str) -> int:
    """The index of the parenthesis that opens the parameters: the one that matches the last character."""
    depth = 0
    for index in range(len(head) - 1, -1, -1):
        depth += (head[index] == ")") - (head[index] == "(")
        if depth == 0:
            return index
    raise ValueError(head)
