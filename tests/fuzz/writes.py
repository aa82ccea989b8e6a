"""Objects of every kind that the API server stores, with any of their fields, most of them odd."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st
from tests.fuzz.shapes import NUMBERS, ODD_QUANTITIES, WORDS

from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.kinds.schema import ObjectType, ValueType, type_of

TEXTS = (
    *WORDS,
    *ODD_QUANTITIES,
    *("[", "{" * 3000, "(a+)+$", "[a-", "{.a[?(@.b==1)]}", "{.a[", "$(A)", "100%", "-5%", "9" * 400, "a/b/c", ".."),
    *("10.0.0.0/8", "::/0", "999.1.1.1", "https://x", "http://[::1", "*/5 * * * *", "@every", "TZ=x * * * * *"),
    *("2020-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "object.spec", "((((", "ClusterIP", "RollingUpdate", "OnDelete"),
    *("LS0tLS1CRUdJTg==", "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----", "v1", "apps/v1"),
)
DEEPEST = 9
PATCHED = ("spec", "status", "data", "rules")


@cache
def types() -> dict[str, ObjectType]:
    """The type of every kind, by the path of the kind."""
    found = {}
    for each in BUILT_IN:
        type_ = type_of(f"{(each.group or 'core').partition('.')[0]}.{each.kind}")
        if type_ is not None:
            base = f"/apis/{each.group_version}" if each.group else f"/api/{each.version}"
            inside = "namespaces/default/" if each.namespaced else ""
            found[f"{base}/{inside}{each.plural}"] = type_
    return found


def _value(shape: ValueType, chance: Random, depth: int) -> Any:
    if shape.object is not None:
        return _object(shape.object, chance, depth + 1)
    if shape.kind == "list" and shape.item is not None:
        return [_value(shape.item, chance, depth + 1) for _ in range(chance.choice((0, 1, 1, 2)))]
    if shape.kind == "map" and shape.item is not None:
        return {chance.choice(TEXTS): _value(shape.item, chance, depth + 1) for _ in range(chance.choice((0, 1, 2)))}
    if shape.kind.startswith("int") and shape.kind[3:].isdigit():
        return chance.choice([each for each in NUMBERS if abs(each) < 2 ** (int(shape.kind[3:]) - 1)])
    if shape.kind == "bool":
        return chance.random() < 0.5
    return chance.choice(TEXTS) if chance.random() < 0.9 else chance.choice(NUMBERS)


def _object(type_: ObjectType, chance: Random, depth: int = 0) -> dict[str, Any]:
    often = chance.choice((0.15, 0.35, 0.7)) if depth > 1 else 0.8
    fields = [
        field
        for field in type_.fields.values()
        if depth < DEEPEST and chance.random() < (0.9 if field.required else often * 0.9**depth)
    ]
    return {field.name: _value(field.shape, chance, depth) for field in fields}


def _write(seed: int) -> bytes:
    """Where to create which object, and what to patch it with."""
    chance = Random(seed)
    path, type_ = chance.choice(list(types().items()))
    body = {name: part for name, part in _object(type_, chance).items() if name not in ("apiVersion", "kind")}
    given = body.get("metadata") or {}
    kept = ("labels", "annotations") if chance.random() < 0.3 else ()
    body["metadata"] = {"name": "a", **{name: given[name] for name in kept if name in given}}
    patch = {name: part for name, part in _object(type_, chance).items() if name in PATCHED}
    return msgspec.json.encode({"path": path, "body": body, "patch": patch})


def writes() -> st.SearchStrategy[bytes]:
    """Objects to create, with patches."""
    return st.integers(0, 2**40).map(_write)
