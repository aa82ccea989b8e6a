"""OpenAPI, v2 and v3, made from the compact schemas: enough for kubectl to validate, diff, apply and explain.

Documents are made on first use and cached until the table of kinds changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from kubesched.apiserver.apply.shapes import merging_rules
from kubesched.apiserver.crd.custom_resources import CustomResources
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.kinds.schema import Field, ObjectType, ValueType, schemas
from kubesched.apiserver.openapi import v2_protobuf, v3_protobuf
from kubesched.apiserver.storage.store import encode
from kubesched.apiserver.wire.request import JSON_TYPE, ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import no_such_path
from kubesched.base.types import JSON

_INFO = {"title": "Kubernetes", "version": "v1.36.0"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PREFIXES = {
    "meta": _META,
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "autoscaling": "io.k8s.api.autoscaling.v2",
    "autoscalingv1": "io.k8s.api.autoscaling.v1",
    "metrics": "io.k8s.metrics.pkg.apis.metrics.v1beta1",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}
_SCALARS: dict[str, JSON] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "double": {"type": "number", "format": "double"},
    "any": {"type": "object"},
    "schema": {"type": "object"},
    "schemaorbool": {},
}
_MACHINERY = "io.k8s.apimachinery.pkg"
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
_QUERY = ("pretty", "dryRun", "fieldManager", "fieldValidation")


def definition_name(type_name: str) -> str:
    """The name of a type in OpenAPI: ``core.Pod`` is ``io.k8s.api.core.v1.Pod``."""
    group, _, kind = type_name.partition(".")
    return f"{_PREFIXES.get(group, f'io.k8s.api.{group}.v1')}.{kind}"


class OpenAPI:
    """Serves /openapi/v2 and /openapi/v3."""

    def __init__(self, registry: ResourceRegistry, custom: CustomResources) -> None:
        self._registry = registry
        self._custom = custom
        self._made_at = -1
        self._documents: dict[tuple[str, bool], bytes] = {}

    def handle(self, request: ApiRequest, parts: list[str]) -> ApiResponse:
        """The document at a path, split at its slashes."""
        if self._made_at != self._registry.generation:
            self._documents.clear()
            self._made_at = self._registry.generation
        if parts[1:] == ["v3"]:
            return ApiResponse(body=self._index())
        if parts[1:2] not in (["v2"], ["v3"]) or (parts[1] == "v2" and len(parts) > 2):
            raise no_such_path()
        path = "/".join(parts[2:])
        form = _accepted(request.headers.get("accept", ""), parts[1])
        if not form:
            return ApiResponse(406)
        return ApiResponse(body=self._document(path, binary=form != JSON_TYPE), content_type=form)

    def _group_versions(self) -> dict[str, tuple[str, str]]:
        return {
            f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
            for group, versions in self._registry.groups().items()
            for version in versions
        }

    def _index(self) -> bytes:
        paths = {}
        for path in self._group_versions():
            digest = hashlib.sha256(self._document(path)).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return encode({"paths": paths})

    def _document(self, path: str, *, binary: bool = False) -> bytes:
        """A document of version 3 by its path, or the one of version 2 without a path."""
        known = self._documents.get((path, binary))
        if known is None:
            known = self._documents[path, binary] = self._make(path, binary)
        return known

    def _make(self, path: str, binary: bool) -> bytes:
        if not path:
            return v2_protobuf.document(self._v2()) if binary else encode(self._v2())
        group_version = self._group_versions().get(path)
        if group_version is None:
            raise no_such_path()
        body = self._v3(*group_version)
        return v3_protobuf.document(body) if binary else encode(body)

    # --- documents ----------------------------------------------------------------------------------------------------

    def _v3(self, group: str, version: str) -> JSON:
        resources = self._registry.of(group, version)
        definitions = Definitions("#/components/schemas/", v3=True)
        for resource in resources:
            definitions.add_resource(resource, self._custom.schema(resource))
        paths = {path: item for resource in resources for path, item in _paths(resource, v3=True)}
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": paths,
            "components": {"schemas": definitions.found},
        }

    def _v2(self) -> JSON:
        definitions = Definitions("#/definitions/", v3=False)
        paths: JSON = {}
        for resource in self._registry:
            definitions.add_resource(resource, self._custom.schema(resource))
            paths |= dict(_paths(resource, v3=False))
        return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions.found}


def _accepted(accept: str, version: str) -> str:
    """The media type of a document for a client, empty if it accepts none that we have."""
    name = f"application/com.github.proto-openapi.spec.{version}"
    binary = f"{name}.v1.0+protobuf"
    # Older clients ask for a type with an @ in it, which Go cannot parse in a response.
    forms = {binary: binary, f"{name}@v1.0+protobuf": binary}
    forms |= dict.fromkeys(("application/json", "application/*", "*/*"), JSON_TYPE)
    asked = (clause.partition(";")[0].strip().lower() for clause in accept.split(",")) if accept else ("*/*",)
    return next((forms[form] for form in asked if form in forms), "")


# --- paths ------------------------------------------------------------------------------------------------------------


def _paths(resource: ApiResource, *, v3: bool) -> Iterator[tuple[str, JSON]]:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    base = f"{root}/{resource.version}"
    scoped = (
        f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    )
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    collection = {"post": _operation(resource, kind, "post", "create", v3)}
    if resource.is_stored:
        collection |= {
            "get": _operation(resource, kind, "list", "list", v3),
            "delete": _operation(resource, kind, "deletecollection", "deletecollection", v3),
        }
        actions = (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
        yield (
            f"{scoped}/{{name}}",
            {method: _operation(resource, kind, action, action, v3) for method, action in actions},
        )
    yield scoped, collection


def _operation(resource: ApiResource, kind: JSON, action: str, verb: str, v3: bool) -> JSON:
    writes = verb in ("create", "update", "patch")
    names = _QUERY if writes else ("pretty",)
    return {
        "tags": [f"{resource.group or 'core'}_{resource.version}"],
        "operationId": f"{verb}{resource.group.title().replace('.', '') or 'Core'}{resource.kind}",
        "parameters": [_parameter(name, v3) for name in names],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    }


def _parameter(name: str, v3: bool) -> JSON:
    body: JSON = {"name": name, "in": "query"}
    return {**body, "schema": {"type": "string"}} if v3 else {**body, "type": "string", "uniqueItems": True}


# --- what is known about fields ---------------------------------------------------------------------------------------


@cache
def _enums() -> dict[str, list[str]]:
    """The values that a field may have, by its type and name."""
    lines = (files("kubesched.apiserver.openapi") / "enums.txt").read_text(encoding="utf-8").splitlines()
    return {name: json.loads(values) for name, _, values in (line.partition(" ") for line in lines) if name != "#"}


def _merging(field: Field, rule: str) -> JSON:
    """How server-side apply merges a field, where upstream says so."""
    if not rule:
        return {}
    if field.shape.kind != "list":
        return {"x-kubernetes-map-type": rule}
    if rule in ("atomic", "set"):
        return {"x-kubernetes-list-type": rule}
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": rule.split(",")}


# --- definitions ------------------------------------------------------------------------------------------------------


class Definitions:
    """The definitions of types and of everything that they mention."""

    def __init__(self, prefix: str, *, v3: bool) -> None:
        self.found: dict[str, JSON] = {}
        self._prefix = prefix
        self._v3 = v3

    def add_resource(self, resource: ApiResource, custom_schema: JSON | None) -> None:
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        if resource.custom:
            self._add_custom(resource, custom_schema or {}, kind)
            return
        type_ = schemas().types[resource.schema]
        self._add(type_)
        self.found[definition_name(type_.name)]["x-kubernetes-group-version-kind"] = [kind]
        if resource.is_stored:
            self._add_list(f"{definition_name(type_.name)}List", definition_name(type_.name), resource)

    def _add_custom(self, resource: ApiResource, schema: JSON, kind: JSON) -> None:
        domain = ".".join(reversed(resource.group.split(".")))
        name = f"{domain}.{resource.version}.{resource.kind}"
        common = schemas().types["core.ConfigMap"].fields  # what every kind has
        properties = {
            **(schema.get("properties") or {}),
            **{field: self._field(common[field], "core.ConfigMap") for field in ("apiVersion", "kind", "metadata")},
        }
        if schema.get("x-kubernetes-preserve-unknown-fields") and not self._v3:
            # As upstream: version 2 cannot express it, so it says nothing, lest clients refuse valid objects.
            self.found[name] = {"type": "object", "x-kubernetes-group-version-kind": [kind]}
            self._add_list(f"{name}List", name, resource)
            return
        self.found[name] = {
            "type": "object",
            **schema,
            "properties": properties,
            "x-kubernetes-group-version-kind": [kind],
        }
        self._add_list(f"{name}List", name, resource)

    def _add_list(self, name: str, item: str, resource: ApiResource) -> None:
        kind = {"group": resource.group, "version": resource.version, "kind": f"{resource.kind}List"}
        self.found[name] = {
            "description": f"{resource.kind}List is a list of {resource.kind}.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": self._reference(schemas().types["meta.ListMeta"]),
                "items": {"type": "array", "items": {"$ref": f"{self._prefix}{item}"}},
            },
            "x-kubernetes-group-version-kind": [kind],
        }

    def _add(self, type_: ObjectType) -> None:
        name = definition_name(type_.name)
        if name in self.found:
            return
        body: JSON = {"type": "object"}
        self.found[name] = body
        if type_.text:
            body["description"] = type_.text
        if required := [field.name for field in type_.fields.values() if field.required]:
            body["required"] = required
        if rule := merging_rules().get(type_.name):
            body["x-kubernetes-map-type"] = rule
        if type_.fields:
            body["properties"] = {field.name: self._field(field, type_.name) for field in type_.fields.values()}

    def _field(self, field: Field, owner: str) -> JSON:
        body = self._shape(field.shape)
        if values := _enums().get(f"{owner}.{field.name}"):
            next((body[part] for part in ("items", "additionalProperties") if part in body), body)["enum"] = values
        extras: JSON = {"description": field.text} if field.text else {}
        extras |= _merging(field, merging_rules().get(f"{owner}.{field.name}", ""))
        used = {"merge": field.merges, "replace": field.replaces, "retainKeys": field.retain_keys}
        if strategies := [name for name, is_used in used.items() if is_used]:
            extras["x-kubernetes-patch-strategy"] = ",".join(strategies)
        if field.merge_key:
            extras["x-kubernetes-patch-merge-key"] = field.merge_key
        if "$ref" in body and extras and self._v3:
            # OpenAPI v3 ignores everything beside a $ref, so the reference goes into allOf.
            body = {"allOf": [body], **({"default": {}} if field.shape.object is not None else {})}
        return {**body, **extras}

    def _shape(self, shape: ValueType) -> JSON:
        if shape.kind == "list" and shape.item is not None:
            return {"type": "array", "items": self._shape(shape.item)}
        if shape.kind == "map" and shape.item is not None:
            return {"type": "object", "additionalProperties": self._shape(shape.item)}
        if shape.object is not None:
            return self._reference(shape.object)
        if shape.kind in _NAMED_SCALARS:
            return self._named_scalar(*_NAMED_SCALARS[shape.kind])
        return dict(_SCALARS[shape.kind])

    def _named_scalar(self, name: str, body: JSON) -> JSON:
        is_either = self._v3 and body.get("format") != "date-time"
        type_ = {"oneOf": [{"type": "string"}, {"type": "number"}]} if is_either else {"type": "string"}
        self.found[name] = {**body, **type_}
        return {"$ref": f"{self._prefix}{name}"}

    def _reference(self, type_: ObjectType) -> JSON:
        self._add(type_)
        return {"$ref": f"{self._prefix}{definition_name(type_.name)}"}
