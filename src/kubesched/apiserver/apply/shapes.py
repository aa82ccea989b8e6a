"""How values merge: which lists are keyed, which are sets, and which values are replaced as a whole."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from kubesched.apiserver.kinds.schema import Field, ObjectType, ValueType
from kubesched.base.types import JSON

_DEFAULT_KEYS = {"protocol": "TCP"}
"""The values of list keys that may be left out."""


class MergeShape:
    """How a value merges. Maps merge field by field and lists are replaced, unless a subclass knows better."""

    atomic = False
    """Whether a map is replaced as a whole."""
    keys: tuple[str, ...] | None = None
    """The fields that identify an item of a list. Empty: the items are a set. None: the list is replaced as a whole."""

    def field(self, _name: str) -> tuple[MergeShape, bool]:
        """The shape of a field, and whether the type declares it. A map's entries are not declared."""
        return DEDUCED, False

    @property
    def item(self) -> MergeShape:
        """The shape of a list's items."""
        return DEDUCED

    def key_of(self, item: object) -> str:
        """An item of a keyed list or a set, as an element of a path."""
        if not self.keys:
            return f"v:{_json(item)}"
        found = item if isinstance(item, dict) else {}
        values = {key: found.get(key, _DEFAULT_KEYS.get(key)) for key in sorted(self.keys)}
        return f"k:{_json({key: value for key, value in values.items() if value is not None})}"


DEDUCED = MergeShape()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# --- built-in kinds ---------------------------------------------------------------------------------------------------


@cache
def merging_rules() -> dict[str, str]:
    """What upstream declares of types and fields: the keys of a list, set, atomic or granular."""
    text = (files("kubesched.apiserver.apply") / "merging_rules.txt").read_text(encoding="utf-8")
    return dict(line.split() for line in text.splitlines() if not line.startswith("#"))


class _Typed(MergeShape):
    """A value of a described type."""

    def __init__(self, value: ValueType, rule: str = "", merge_keys: tuple[str, ...] | None = None) -> None:
        self._value = value
        self.keys = merge_keys
        type_ = value.object
        self.atomic = (rule or merging_rules().get(type_.name if type_ is not None else "")) == "atomic"

    def field(self, name: str) -> tuple[MergeShape, bool]:
        if self._value.kind == "map" and self._value.item is not None:
            return _Typed(self._value.item), False
        known = self._value.object.fields.get(name) if self._value.object is not None else None
        if known is None or self._value.object is None:
            return DEDUCED, False
        return _field(self._value.object.name, known), True

    @property
    def item(self) -> MergeShape:
        return _Typed(self._value.item) if self._value.item is not None else DEDUCED


def _field(owner: str, field: Field) -> MergeShape:
    rule = merging_rules().get(f"{owner}.{field.name}", "")
    if field.shape.kind != "list":
        return _Typed(field.shape, rule)
    if not rule and field.merges:
        rule = field.merge_key or "set"
    keys = None if rule in ("", "atomic") else () if rule == "set" else tuple(rule.split(","))
    return _Typed(field.shape, merge_keys=keys)


def typed(type_: ObjectType) -> MergeShape:
    """The shape of a built-in kind."""
    return _Typed(ValueType("object", object=type_))


# --- custom resources -------------------------------------------------------------------------------------------------


class _Schema(MergeShape):
    """A value that the schema of a definition describes."""

    def __init__(self, schema: JSON) -> None:
        self._schema = schema
        self.atomic = schema.get("x-kubernetes-map-type") == "atomic"
        kind = schema.get("x-kubernetes-list-type")
        if kind == "map":
            self.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        elif kind == "set":
            self.keys = ()

    def field(self, name: str) -> tuple[MergeShape, bool]:
        known = (self._schema.get("properties") or {}).get(name)
        if known is not None:
            return _Schema(known), True
        more = self._schema.get("additionalProperties")
        return (_Schema(more) if isinstance(more, dict) else DEDUCED), False

    @property
    def item(self) -> MergeShape:
        return _Schema(self._schema.get("items") or {})


class _Custom(_Schema):
    """A custom object: its metadata is that of every kind."""

    def __init__(self, schema: JSON, metadata: ObjectType) -> None:
        super().__init__(schema)
        self._metadata = typed(metadata)

    def field(self, name: str) -> tuple[MergeShape, bool]:
        return (self._metadata, True) if name == "metadata" else super().field(name)


def custom(schema: JSON | None, metadata: ObjectType) -> MergeShape:
    """The shape of a custom kind."""
    return _Custom(schema or {}, metadata)
