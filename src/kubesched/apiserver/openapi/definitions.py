"""The definitions of types in OpenAPI, v2 and v3, from the compact schemas and a few facts about fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kubesched.apiserver.apply.shapes import merging_rules
from kubesched.apiserver.kinds.registry import BUILT_IN, ApiResource, Subresource
from kubesched.apiserver.kinds.schema import Field, ObjectType, ValueType, schemas
from kubesched.base.types import JSON

_MACHINERY = "io.k8s.apimachinery.pkg"
_META = f"{_MACHINERY}.apis.meta.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
_PACKAGES = {
    "meta": f"{_MACHINERY}.apis.meta",
    "apiextensions": _EXTENSIONS,
    "autoscalingv1": "io.k8s.api.autoscaling",
    "metrics": "io.k8s.metrics.pkg.apis.metrics",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_SCALARS: dict[str, JSON] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "double": {"type": "number", "format": "double"},
}
_ZEROS: JSON = {"string": "", "int32": 0, "int64": 0, "bool": False, "object": {}}
"""The zero values that are defaults in v3."""
_EITHER: JSON = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intorstring": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
}
"""The types of v3 for what is a string in v2."""
_NAMED_SCALARS: dict[str, tuple[str, JSON]] = {
    "quantity": (f"{_MACHINERY}.api.resource.Quantity", {"description": "An amount, as 2, 500m, 1.5 or 4Gi."}),
    "intorstring": (
        f"{_MACHINERY}.util.intstr.IntOrString",
        {"description": "A number, or text such as 25% or the name of a port.", "format": "int-or-string"},
    ),
    "time": (f"{_META}.Time", {"description": "A time, to the second.", "format": "date-time"}),
    "microtime": (f"{_META}.MicroTime", {"description": "A time, to the microsecond.", "format": "date-time"}),
}
"""Scalars with their own definition, whose name `kubectl explain` shows."""
_RAW = (f"{_MACHINERY}.runtime.RawExtension", {"description": "An object of any kind.", "type": "object"})
_FREE: dict[str, tuple[str, JSON]] = {
    "meta.ManagedFieldsEntry": (f"{_META}.FieldsV1", {"description": "A set of fields, as a tree.", "type": "object"}),
    "any": (f"{_EXTENSIONS}.v1.JSON", {"description": "Any JSON value."}),
    "schema": (f"{_EXTENSIONS}.v1.JSONSchemaPropsOrArray", {"description": "A schema, or a list of schemas."}),
    "map": (f"{_EXTENSIONS}.v1.JSONSchemaPropsOrStringArray", {"description": "A schema, or a list of names."}),
    "schemaorbool": (f"{_EXTENSIONS}.v1.JSONSchemaPropsOrBool", {"description": "A schema, or whether it may be."}),
}
"""The definitions of values without a fixed type in schemas of custom resources, and of one elsewhere."""
_PATCH: JSON = {"description": "The body of a PATCH request.", "type": "object"}
_PER_GROUP = ("DeleteOptions", "WatchEvent")
"""The types of metadata that each group has as a kind of its own."""


@cache
def _facts(name: str) -> dict[str, Any]:
    """A file of facts: lines of a type or field, and JSON."""
    lines = (files("kubesched.apiserver.openapi") / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {key: json.loads(value) for key, _, value in (line.partition(" ") for line in lines) if key != "#"}


def _merging(field: Field, rule: str) -> JSON:
    """How server-side apply merges a field, where upstream says so."""
    if not rule:
        return {}
    if field.shape.kind not in ("list", "bytes"):
        return {"x-kubernetes-map-type": rule}
    if rule in ("atomic", "set"):
        return {"x-kubernetes-list-type": rule}
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": rule.split(",")}


def _package(type_name: str) -> str:
    group = type_name.partition(".")[0]
    return _PACKAGES.get(group, f"io.k8s.api.{group}")


def _definition_name(type_name: str, version: str) -> str:
    """The name of a type in OpenAPI: ``core.Pod`` is ``io.k8s.api.core.v1.Pod``."""
    return f"{_package(type_name)}.{version}.{type_name.partition('.')[2]}"


@cache
def _served() -> dict[str, ApiResource]:
    """The resources by the name of their definition."""
    return {_definition_name(resource.schema, resource.version): resource for resource in BUILT_IN}


class Definitions:
    """The definitions of types and of everything that they mention."""

    def __init__(self, prefix: str, group_versions: Sequence[tuple[str, str]], *, v3: bool) -> None:
        """`group_versions` are those of the document."""
        self.found: dict[str, JSON] = {}
        self._prefix = prefix
        self._group_versions = group_versions
        self._v3 = v3
        self._package, self._version = "", ""

    # --- names --------------------------------------------------------------------------------------------------------

    def _name(self, type_name: str) -> str:
        """The name of a type. One of the package that is being described has the version of its resource."""
        return _definition_name(type_name, self._version if _package(type_name) == self._package else "v1")

    def _enter(self, type_name: str, version: str) -> None:
        """Describe types of a package in this version from now on."""
        self._package, self._version = _package(type_name), version

    def reference(self, name: str) -> JSON:
        """A reference to a definition by its name."""
        return {"$ref": f"{self._prefix}{name}"}

    # --- resources ----------------------------------------------------------------------------------------------------

    def meta(self, kind: str) -> JSON:
        """A reference to a type of requests or responses."""
        name = f"{_META}.{kind}"
        if kind == "Patch":
            self.found[name] = _PATCH
        elif "x-kubernetes-group-version-kind" not in self.found.get(name, {}):
            self._add(schemas().types[f"meta.{kind}"])
            versions = dict.fromkeys([("", "v1"), *(self._group_versions if kind in _PER_GROUP else ())])
            self.found[name]["x-kubernetes-group-version-kind"] = [
                {"group": group, "version": version, "kind": kind} for group, version in versions
            ]
        return self.reference(name)

    def add_resource(self, resource: ApiResource, custom_schema: JSON | None) -> str:
        """Define a resource's type and its list. Returns the name of the type."""
        if resource.custom:
            return self._add_custom(resource, custom_schema or {})
        type_ = schemas().types[resource.schema]
        self._enter(type_.name, resource.version)
        self._add(type_)
        name = self._name(type_.name)
        if resource.is_stored:
            self._add_list(name, resource)
        return name

    def add_subresource(self, subresource: Subresource) -> str:
        """Define the type of a subresource's body. Returns its name."""
        schema = f"{subresource.group.partition('.')[0] or 'core'}.{subresource.kind}"
        self._enter(schema, subresource.version)
        self._add(schemas().types[schema])
        name = self._name(schema)
        kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
        self.found[name]["x-kubernetes-group-version-kind"] = [kind]
        return name

    def _add_custom(self, resource: ApiResource, schema: JSON) -> str:
        domain = ".".join(reversed(resource.group.split(".")))
        name = f"{domain}.{resource.version}.{resource.kind}"
        common = schemas().types["core.ConfigMap"].fields  # what every kind has
        properties = {
            **(schema.get("properties") or {}),
            **{field: self._field(common[field], "core.ConfigMap") for field in ("apiVersion", "kind", "metadata")},
        }
        kinds = {"x-kubernetes-group-version-kind": [resource.group_version_kind]}
        if schema.get("x-kubernetes-preserve-unknown-fields") and not self._v3:
            # As upstream: version 2 cannot express it, so it says nothing, lest clients refuse valid objects.
            self.found[name] = {"type": "object", **kinds}
        else:
            self.found[name] = {"type": "object", **schema, "properties": properties, **kinds}
        self._add_list(name, resource)
        return name

    def _add_list(self, item: str, resource: ApiResource) -> None:
        kind = {**resource.group_version_kind, "kind": f"{resource.kind}List"}
        items = {"type": "array", "items": self.reference(item)}
        if self._v3 and not resource.custom:
            items["items"] = {"allOf": [self.reference(item)], "default": {}}
        self.found[f"{item}List"] = {
            "description": f"{resource.kind}List is a list of {resource.kind}.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": self._with_extras(self._type(schemas().types["meta.ListMeta"]), {}, {}),
                "items": items,
            },
            "x-kubernetes-group-version-kind": [kind],
        }

    # --- types --------------------------------------------------------------------------------------------------------

    def _add(self, type_: ObjectType) -> None:
        name = self._name(type_.name)
        if name in self.found:
            return
        body: JSON = {"type": "object"}
        self.found[name] = body
        if type_.text:
            body["description"] = type_.text
        required = sorted((field for field in type_.fields.values() if field.required), key=lambda field: field.tag)
        if required:
            body["required"] = [field.name for field in required]
        if rule := merging_rules().get(type_.name):
            body["x-kubernetes-map-type"] = rule
        if unions := _facts("unions").get(type_.name):
            body["x-kubernetes-unions"] = unions
        if served := _served().get(name):
            body["x-kubernetes-group-version-kind"] = [served.group_version_kind]
        if type_.fields:
            body["properties"] = {field.name: self._field(field, type_.name) for field in type_.fields.values()}

    def _field(self, field: Field, owner: str) -> JSON:
        body = self._shape(field.shape, owner)
        if values := _facts("enums").get(f"{owner}.{field.name}"):
            next((body[part] for part in ("items", "additionalProperties") if part in body), body)["enum"] = values
        extras: JSON = {"description": field.text} if field.text else {}
        extras |= _merging(field, merging_rules().get(f"{owner}.{field.name}", ""))
        used = {"merge": field.merges, "replace": field.replaces, "retainKeys": field.retain_keys}
        if strategies := [name for name, is_used in used.items() if is_used]:
            extras["x-kubernetes-patch-strategy"] = ",".join(strategies)
        if field.merge_key:
            extras["x-kubernetes-patch-merge-key"] = field.merge_key
        return self._with_extras(body, _default(field, owner), extras)

    def _with_extras(self, body: JSON, default: Any, extras: JSON) -> JSON:
        """A value with its default and more. V2 has no defaults; v3 ignores everything beside a reference."""
        if not self._v3:
            return {**body, **extras}
        if "$ref" in body:
            body = {"allOf": [body]}
        return {**body, **extras} if default is None else {**body, "default": default, **extras}

    def _shape(self, shape: ValueType, owner: str) -> JSON:
        if shape.kind == "list" and shape.item is not None:
            return {"type": "array", "items": self._item(shape.item, owner)}
        if shape.kind == "map" and shape.item is not None:
            part = "map" if shape.item.kind == "schema" else owner
            return {"type": "object", "additionalProperties": self._item(shape.item, part)}
        if shape.object is not None:
            return self._type(shape.object)
        if shape.kind in _NAMED_SCALARS:
            return self._named_scalar(shape.kind)
        return dict(_SCALARS[shape.kind]) if shape.kind in _SCALARS else self._free(shape.kind, owner)

    def _item(self, shape: ValueType, owner: str) -> JSON:
        body, default = self._shape(shape, owner), _ZEROS.get(shape.kind)
        return body if default is None else self._with_extras(body, default, {})

    def _free(self, kind: str, owner: str) -> JSON:
        """A value without a fixed type."""
        is_schema = owner == "apiextensions.JSONSchemaProps"
        name, body = _FREE.get(kind if is_schema else owner, _RAW)
        self.found[name] = body
        return self.reference(name)

    def _named_scalar(self, kind: str) -> JSON:
        name, body = _NAMED_SCALARS[kind]
        self.found[name] = {**body, **(_EITHER.get(kind, {}) if self._v3 else {})}
        if "oneOf" not in self.found[name]:
            self.found[name]["type"] = "string"
        return self.reference(name)

    def _type(self, type_: ObjectType) -> JSON:
        self._add(type_)
        return self.reference(self._name(type_.name))


def _default(field: Field, owner: str) -> Any:
    """The default of a field in v3: a zero value where Go's struct has no pointer, or what the type declares."""
    name, kind = f"{owner}.{field.name}", field.shape.kind
    if name in _facts("defaults"):
        return _facts("defaults")[name]
    has_zero = (field.required or not field.keeps_zero) if kind == "object" else field.required and field.keeps_zero
    return _ZEROS.get(kind) if has_zero else None
