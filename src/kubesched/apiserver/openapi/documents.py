"""OpenAPI, v2 and v3, made from the compact schemas: for kubectl's explain, validation and apply,
and for client generators.

Documents are made on first use and cached until one of their kinds changes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable

from kubesched.apiserver.crd.custom_resources import CustomResources
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.openapi import v2_protobuf, v3_protobuf
from kubesched.apiserver.openapi.definitions import Definitions
from kubesched.apiserver.openapi.paths import Paths
from kubesched.apiserver.storage.store import encode
from kubesched.apiserver.wire.request import JSON_TYPE, TEXT_TYPE, ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import NoSuchPageError
from kubesched.base.types import JSON

_INFO = {"title": "Kubernetes", "version": "v1.36.0"}
_TOKEN = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}


class OpenAPI:
    """Serves /openapi/v2 and /openapi/v3."""

    def __init__(self, registry: ResourceRegistry, custom: CustomResources) -> None:
        self._registry = registry
        self._custom = custom
        self._documents: dict[tuple[str, bool], tuple[list[ApiResource], bytes]] = {}
        """Each document with the resources that it describes."""

    async def handle(self, request: ApiRequest, parts: list[str]) -> ApiResponse:
        """The document at a path, split at its slashes."""
        if parts[1:] == ["v3"]:
            return ApiResponse(body=await self._index(), content_type=TEXT_TYPE)
        if parts[1:2] not in (["v2"], ["v3"]) or (parts[1] == "v2" and len(parts) > 2):
            raise NoSuchPageError
        path = "/".join(parts[2:])
        if path and path not in self._group_versions():
            return ApiResponse(404, content_type=TEXT_TYPE)
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

    async def _index(self) -> bytes:
        paths = {}
        for path in self._group_versions():
            await asyncio.sleep(0)  # others have their turn before the next document is made
            digest = hashlib.sha256(self._document(path)).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return encode({"paths": paths})

    def _document(self, path: str, *, binary: bool = False) -> bytes:
        """A document of version 3 by its path, or the one of version 2 without a path."""
        versions = self._group_versions()
        described = self._registry.of(*versions[path]) if path else list(self._registry)
        known = self._documents.get((path, binary))
        if known is None or known[0] != described:
            known = self._documents[path, binary] = described, self._make(versions.get(path), binary)
        return known[1]

    def _make(self, group_version: tuple[str, str] | None, binary: bool) -> bytes:
        body = self._v2() if group_version is None else self._v3(*group_version)
        if not binary:
            return encode(body)
        return v2_protobuf.document(body) if group_version is None else v3_protobuf.document(body)

    # --- documents ----------------------------------------------------------------------------------------------------

    def _v3(self, group: str, version: str) -> JSON:
        definitions, paths = self._described("#/components/schemas/", [(group, version)], v3=True)
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": paths,
            "components": {"schemas": definitions, "securitySchemes": {"BearerToken": _TOKEN}},
        }

    def _v2(self) -> JSON:
        versions = list(self._group_versions().values())
        definitions, paths = self._described("#/definitions/", versions, v3=False)
        return {
            "swagger": "2.0",
            "info": _INFO,
            "paths": paths,
            "definitions": definitions,
            "securityDefinitions": {"BearerToken": _TOKEN},
            "security": [{"BearerToken": []}],
        }

    def _described(self, prefix: str, versions: list[tuple[str, str]], *, v3: bool) -> tuple[JSON, JSON]:
        """The definitions and paths of versions of groups, in the order of their names."""
        definitions = Definitions(prefix, versions, v3=v3)
        make = Paths(definitions, v3=v3)
        paths: JSON = {}
        for group, version in versions:
            paths |= [make.root(group, version)]
            for resource in self._registry.of(group, version):
                name = definitions.add_resource(resource, self._custom.schema(resource))
                paths |= make.of(resource, name)
        return _sorted(definitions.found.items()), _sorted(paths.items())


def _sorted(items: Iterable[tuple[str, JSON]]) -> JSON:
    return dict(sorted(items))


def _accepted(accept: str, version: str) -> str:
    """The media type of a document for a client, empty if it accepts none that we have."""
    name = f"application/com.github.proto-openapi.spec.{version}"
    binary = f"{name}.v1.0+protobuf"
    # Older clients ask for a type with an @ in it, which Go cannot parse in a response.
    forms = {binary: binary, f"{name}@v1.0+protobuf": binary}
    forms |= dict.fromkeys(("application/json", "application/*", "*/*"), JSON_TYPE)
    asked = (clause.partition(";")[0].strip().lower() for clause in accept.split(",")) if accept else ("*/*",)
    return next((forms[form] for form in asked if form in forms), "")
