"""What the expressions of a ValidatingAdmissionPolicy get wrong about the kinds that it is for.

The expressions are compiled once more for each kind that the policy names, with the types of its fields. A policy with
warnings works all the same; they are for its author. The rules are upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.apiserver.crd.rules import with_escapes
from kubesched.apiserver.crd.types import declared_type
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import ObjectType, ValueType, type_of
from kubesched.apiserver.policies.expressions import Expressions
from kubesched.base.types import JSON
from kubesched.cel import CELError
from kubesched.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
)

MOST_TYPES = 10
"""Kinds that are looked at for one rule of a policy."""
_SCALARS = {
    "string": STRING,
    "int32": INT,
    "int64": INT,
    "bool": BOOL,
    "double": DOUBLE,
    "bytes": BYTES,
    "time": TIMESTAMP,
    "microtime": TIMESTAMP,
}
_built_in: dict[str, Type] = {}

SchemaOf = Callable[[ApiResource], JSON | None]


def expression_warnings(policy: JSON, served: list[ApiResource], schema_of: SchemaOf) -> list[JSON]:
    """The warnings for the status of a policy."""
    spec = policy["spec"]
    kinds = [(each, _type(each, schema_of)) for each in _kinds(spec, served)]
    params = _params(spec.get("paramKind"), served, schema_of)
    checks = [(each, _expressions(spec, kind, params)) for each, kind in kinds if kind is not None]
    found = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            source = validation.get(field)
            wrong = [text for each, known in checks if source and (text := _warning(each, known, source))]
            if wrong:
                found.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(wrong)})
    return found


def _warning(resource: ApiResource, expressions: Expressions, source: str) -> str:
    try:
        expressions.compile(source)
    except CELError as error:
        return f"{resource.group}/{resource.version}, Kind={resource.kind}: {error}\n"
    return ""


def _expressions(spec: JSON, kind: Type, params: Type | None) -> Expressions:
    """The policy's variables, compiled for a kind. What is wrong with them shows where they are used."""
    expressions = Expressions(bool(spec.get("paramKind")), kind, params or DYN)
    for variable in spec.get("variables") or ():
        try:
            expressions.add_variable(variable.get("name", ""), variable.get("expression", ""))
        except CELError:
            continue
    return expressions


def _kinds(spec: JSON, served: list[ApiResource]) -> list[ApiResource]:
    """The kinds that the rules of a policy name, without patterns and subresources, in order."""
    found: dict[ApiResource, None] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        named = {
            (group, version, plural)
            for group in _plain(rule.get("apiGroups"))
            for version in _plain(rule.get("apiVersions"))
            for plural in _plain(rule.get("resources"))
        }
        matching = sorted((r for r in served if (r.group, r.version, r.plural) in named), key=_order)
        found.update(dict.fromkeys(matching[:MOST_TYPES]))
    return sorted(found, key=_order)


def _order(resource: ApiResource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.kind


def _plain(names: list[str] | None) -> Iterator[str]:
    return (name for name in names or () if not {"*", "/"} & {*name})


def _params(kind: JSON | None, served: list[ApiResource], schema_of: SchemaOf) -> Type | None:
    if not kind:
        return None
    wanted = kind.get("apiVersion"), kind.get("kind")
    return next((_type(r, schema_of) for r in served if (r.group_version, r.kind) == wanted), None)


def _type(resource: ApiResource, schema_of: SchemaOf) -> Type | None:
    """The type of a kind's objects; None if nothing is known of them."""
    if not resource.custom:
        described = type_of(resource.schema)
        return None if described is None else _object(described)
    schema = schema_of(resource)
    if schema is None:
        return None
    known, metadata = declared_type(schema, resource.kind), type_of("meta.ObjectMeta")
    if known is None or known.fields is None or metadata is None:
        return known
    every = {"apiVersion": STRING, "kind": STRING, "metadata": _object(metadata)}
    return object_type(resource.kind, {**known.fields, **every})


def _object(described: ObjectType) -> Type:
    if described.preserve_unknown or not described.fields:
        return DYN
    if described.name not in _built_in:
        # Known before its fields are: a type may contain itself.
        fields: dict[str, Type] = {}
        _built_in[described.name] = object_type(described.name, fields)
        fields.update((with_escapes(field.name), _value(field.shape)) for field in described.fields.values())
    return _built_in[described.name]


def _value(shape: ValueType) -> Type:
    if shape.object is not None:
        return _object(shape.object)
    if shape.item is not None:
        return list_of(_value(shape.item)) if shape.kind == "list" else map_of(STRING, _value(shape.item))
    return _SCALARS.get(shape.kind, DYN)
