"""API discovery: the per-group documents and the aggregated one.

kubectl finds kinds, short names and verbs here. Since 1.26 it requests everything at once (aggregated discovery).
"""

from __future__ import annotations

from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry, Subresource
from kubesched.apiserver.storage.store import encode
from kubesched.apiserver.wire.negotiation import ALL_FORMS, check_readable
from kubesched.apiserver.wire.request import JSON_TYPE, ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import NoSuchPageError, no_such_path
from kubesched.base.types import JSON

_AGGREGATED = "apidiscovery.k8s.io"


class Discovery:
    """Serves /api, /apis and the paths below."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry

    def handle(self, request: ApiRequest, parts: list[str]) -> ApiResponse:
        """The document at a path, split at its slashes."""
        if len(parts) == 1:
            version = _aggregated_version(request.headers.get("accept", ""))
            if version:
                return self._aggregated(parts[0], version)
            body = self._versions() if parts[0] == "api" else self._groups()
        elif parts[0] == "api" and parts[1:] == ["v1"]:
            body = self._resources("", "v1")
        elif parts[0] == "apis" and len(parts) == 2:
            body = self._group(parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            body = self._resources(parts[1], parts[2])
        else:
            raise NoSuchPageError
        if parts != ["apis"]:
            check_readable(request, ALL_FORMS)
        return ApiResponse(body=encode(body))

    # --- the old documents --------------------------------------------------------------------------------------------

    def _versions(self) -> JSON:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }

    def _groups(self) -> JSON:
        groups = [_group_body(name, versions) for name, versions in self._registry.groups().items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, name: str) -> JSON:
        versions = self._registry.groups().get(name)
        if not versions:
            raise NoSuchPageError
        return {"kind": "APIGroup", "apiVersion": "v1", **_group_body(name, versions)}

    def _resources(self, group: str, version: str) -> JSON:
        resources = self._registry.of(group, version)
        if not resources:
            raise no_such_path() if group in self._registry.groups() else NoSuchPageError()
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [entry for resource in resources for entry in _entries(resource)],
        }

    # --- everything at once -------------------------------------------------------------------------------------------

    def _aggregated(self, root: str, version: str) -> ApiResponse:
        items = [
            self._aggregated_group(name, versions)
            for name, versions in self._registry.groups().items()
            if bool(name) == (root == "apis")
        ]
        body = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"{_AGGREGATED}/{version}",
            "metadata": {},
            "items": items,
        }
        content_type = f"{JSON_TYPE};g={_AGGREGATED};v={version};as=APIGroupDiscoveryList"
        return ApiResponse(body=encode(body), content_type=content_type)

    def _aggregated_group(self, name: str, versions: list[str]) -> JSON:
        return {
            "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(resource) for resource in self._registry.of(name, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }


def _aggregated_version(accept: str) -> str:
    """Which version of aggregated discovery a client accepts, if any."""
    for clause in accept.split(","):
        values = dict(part.strip().partition("=")[::2] for part in clause.split(";")[1:])
        if values.get("g") == _AGGREGATED and values.get("as") == "APIGroupDiscoveryList":
            version = values.get("v", "")
            if version in ("v2", "v2beta1"):
                return version
    return ""


def _group_body(name: str, versions: list[str]) -> JSON:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _entries(resource: ApiResource) -> list[JSON]:
    entry: JSON = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if hashed := resource.storage_hash:
        entry["storageVersionHash"] = hashed
    return [entry, *(_subresource_entry(resource, subresource) for subresource in resource.subresources)]


def _subresource_entry(resource: ApiResource, subresource: Subresource) -> JSON:
    entry: JSON = {
        "name": f"{resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind or resource.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.version and (subresource.group, subresource.version) != (resource.group, resource.version):
        entry |= {"group": subresource.group, "version": subresource.version}
    return entry


def _aggregated_resource(resource: ApiResource) -> JSON:
    body: JSON = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        body["shortNames"] = list(resource.short_names)
    if resource.categories:
        body["categories"] = list(resource.categories)
    if resource.subresources:
        body["subresources"] = [_aggregated_subresource(resource, sub) for sub in resource.subresources]
    return body


def _aggregated_subresource(resource: ApiResource, subresource: Subresource) -> JSON:
    if subresource.kind:
        kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    else:
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"subresource": subresource.name, "responseKind": kind, "verbs": list(subresource.verbs)}
