"""The types of the objects served, from compact sources of one line per field.

One description serves five purposes: refusing values of the wrong type, finding unknown fields, merging lists in
strategic merge patches, reading protobuf, and OpenAPI. A line reads
``name! type @3* merge=key # text``: ``!`` marks a required field, ``[T]`` is a list, ``{T}`` a map, ``core.Pod``
another type; ``@3`` is the field's number in protobuf (``@2.3`` inside the unnamed message 2), with ``*`` if its zero
value counts; ``merge``, ``replace`` and ``retainKeys`` are the patch strategy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

_WORDS = "string int32 int64 bool double time microtime quantity intorstring bytes any schema schemaorbool"
SCALARS = frozenset(_WORDS.split())


@dataclass(slots=True)
class ValueType:
    """The type of a value: a scalar, a list or map of something, or an object with fields."""

    kind: str
    item: ValueType | None = None
    object: ObjectType | None = None


@dataclass(slots=True)
class Field:
    """One field of an object."""

    name: str
    shape: ValueType
    required: bool = False
    merge_key: str = ""
    merges: bool = False
    replaces: bool = False
    retain_keys: bool = False
    text: str = ""
    tag: tuple[int, ...] = ()
    keeps_zero: bool = False


@dataclass(slots=True)
class ObjectType:
    """A type with named fields. `name` is ``group.Kind``."""

    name: str
    fields: dict[str, Field] = field(default_factory=dict)
    text: str = ""
    tags: dict[int, Any] | None = None
    """Fields by protobuf number, filled in by `wire.protobuf`."""
    preserve_unknown: bool = False

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


class Schemas:
    """All types by name."""

    def __init__(self) -> None:
        self.types: dict[str, ObjectType] = {}

    def read(self, source: str) -> None:
        """Add the types of one source file."""
        current: ObjectType | None = None
        for line in source.splitlines():
            text, _, comment = line.partition(" # ")
            if not text.strip() or text.startswith("#"):
                continue
            if not line.startswith(" "):
                current = self._type(text.strip())
                current.text = comment.strip()
            elif current is not None:
                parsed = self._field(text.split(), comment.strip())
                current.fields[parsed.name] = parsed

    def _type(self, name: str) -> ObjectType:
        return self.types.setdefault(name, ObjectType(name))

    def _field(self, words: list[str], text: str) -> Field:
        name, shape, *attributes = words
        tag = next((word[1:] for word in attributes if word.startswith("@")), "")
        strategies = [part for word in attributes for part in word.split(",")]
        merge = next((part for part in strategies if part.startswith("merge")), "")
        return Field(
            name=name.removesuffix("!"),
            shape=self._shape(shape),
            required=name.endswith("!"),
            merge_key=merge.removeprefix("merge").removeprefix("="),
            merges=bool(merge),
            replaces="replace" in strategies,
            retain_keys="retainKeys" in strategies,
            text=text,
            tag=tuple(int(part) for part in tag.rstrip("*").split(".") if part),
            keeps_zero=tag.endswith("*"),
        )

    def _shape(self, text: str) -> ValueType:
        if text.startswith("["):
            return ValueType("list", item=self._shape(text[1:-1]))
        if text.startswith("{"):
            return ValueType("map", item=self._shape(text[1:-1]))
        if text in SCALARS:
            return ValueType(text)
        return ValueType("object", object=self._type(text))


@cache
def schemas() -> Schemas:
    """The types of all built-in kinds; read on first use."""
    result = Schemas()
    folder = files("kubesched.apiserver.kinds") / "schemas"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".txt"):
            result.read(entry.read_text(encoding="utf-8"))
    return result


def type_of(name: str) -> ObjectType | None:
    """A type by name, if it is described."""
    return schemas().types.get(name) if name else None
