"""Creating, changing and deleting objects as YAML, and what clusters of `kubesched up` can do beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import yaml

from kubesched.apiserver.rest.duplicates import repeated_keys
from kubesched.base.documents import compose_yaml_documents, construct_yaml
from kubesched.base.types import JSON
from kubesched.client.http import HttpClient
from kubesched.client.protocol import ApiError
from kubesched.web.merging import merged

FIRST = ("pods", "nodes", "deployments.apps", "jobs.batch", "namespaces", "priorityclasses.scheduling.k8s.io")
"""Kinds that are listed first."""
HIDDEN = frozenset({"events", "leases", "tokenreviews", "componentstatuses", "endpoints", "endpointslices"})
MOST_LISTED = 500
MAINTAINED = frozenset({"resourceVersion", "generation", "managedFields"})
"""Fields of metadata that the API server maintains."""
CONFLICT = 409
MOST_CONFLICTS = 4
"""How often an object may change between reading and writing it."""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind that the API server has."""

    name: str
    """As kubectl names it: pods, deployments.apps."""
    kind: str
    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of one object, or of all."""
        root = "apis" if "/" in self.api_version else "api"
        scope = ("namespaces", quote(namespace, safe="")) if namespace and self.namespaced else ()
        return "/" + "/".join(filter(None, (root, self.api_version, *scope, self.plural, quote(name, safe=""))))


class ObjectEditor:
    """Reads objects of any kind, and changes them if that is allowed."""

    def __init__(self, client: HttpClient, *, allow_changes: bool) -> None:
        self._client = client
        self._allowed = allow_changes
        self.embedded = False
        """Whether this is a cluster of `kubesched up`, where changes are always allowed."""
        self._kinds: dict[str, ServedKind] = {}

    @property
    def allowed(self) -> bool:
        """Whether anything may be changed."""
        return self._allowed or self.embedded

    async def start(self) -> None:
        """Find out what cluster this is."""
        with suppress(ApiError, OSError, TimeoutError):
            await self._client.get("/api/v1/schedulerconfiguration")
            self.embedded = True

    # --- reading ------------------------------------------------------------------------------------------------------

    async def kinds(self) -> list[ServedKind]:
        """All kinds that can be listed, the usual ones first."""
        if not self._kinds:
            groups = (await self._client.get("/apis"))["groups"]
            versions = ["v1", *(each["preferredVersion"]["groupVersion"] for each in groups)]
            for version in versions:
                root = "apis" if "/" in version else "api"
                with suppress(ApiError):
                    found = await self._client.get(f"/{root}/{version}")
                    self._kinds.update({each.name: each for each in _served(version, found)})
        order = {name: place for place, name in enumerate(FIRST)}
        return sorted(self._kinds.values(), key=lambda each: (order.get(each.name, len(order)), each.name))

    async def listed(self, kind: str) -> JSON:
        """The names of all objects of a kind."""
        served = await self._served(kind)
        found = await self._client.get(served.path(), {"limit": str(MOST_LISTED)})
        heads = [each["metadata"] for each in found.get("items") or ()]
        return {
            "namespace": [each.get("namespace", "") for each in heads],
            "name": [each["name"] for each in heads],
            "created": [each.get("creationTimestamp") for each in heads],
            "more": found["metadata"].get("remainingItemCount") or 0,
        }

    async def text(self, kind: str, namespace: str, name: str) -> JSON:
        """One object as YAML."""
        served = await self._served(kind)
        return {"text": _yaml(served, await self._client.get(served.path(namespace, name)))}

    # --- changing -----------------------------------------------------------------------------------------------------

    async def create(self, text: str) -> JSON:
        """Create all objects of a text. Raises ApiError or ValueError with the object that is refused."""
        made = []
        for served, body in [await self._read(each) for each in _documents(text)]:
            made.append(_title(served, await self._send("POST", served, body)))
        return {"objects": made}

    async def replace(self, text: str, opened: str) -> JSON:
        """Save an object that was opened as one text and edited to another.

        Changes of other writers are kept, such as a new status. Raises EditConflictError if both changed a field.
        """
        served, edited = await self._one(text)
        before = (await self._one(opened))[1]
        if (before["kind"], *_place(served, before)) != (served.kind, *_place(served, edited)):
            raise ValueError("kind, name and namespace cannot be changed; create another object instead")
        for _ in range(MOST_CONFLICTS):
            try:
                return await self._save(served, before, edited)
            except ApiError as error:
                if error.code != CONFLICT:
                    raise
        return await self._save(served, before, edited)

    async def delete(self, kind: str, namespace: str, name: str) -> JSON:
        """Delete one object."""
        self._check()
        served = await self._served(kind)
        await self._client.delete(served.path(namespace, name))
        return {}

    # --- clusters of `kubesched up` -----------------------------------------------------------------------------------

    async def export(self) -> JSON:
        """The whole cluster."""
        return await self._client.get("/api/v1/export")

    async def replace_all(self, content: JSON) -> JSON:
        """Replace the whole cluster by one that was exported."""
        self._check_embedded()
        await self._client.request("POST", "/api/v1/import", content)
        return {}

    async def reset(self) -> JSON:
        """Make the cluster as it was at the start."""
        self._check_embedded()
        await self._client.request("PUT", "/api/v1/reset")
        return {}

    async def configure(self, config: JSON) -> JSON:
        """Restart the scheduler with another configuration."""
        self._check_embedded()
        await self._client.request("POST", "/api/v1/schedulerconfiguration", config)
        return {}

    async def configuration(self) -> JSON:
        """The configuration in force."""
        return await self._client.get("/api/v1/schedulerconfiguration")

    def _check_embedded(self) -> None:
        if not self.embedded:
            raise PermissionError("only a cluster of kubesched up can be replaced")

    def _check(self) -> None:
        if not self.allowed:
            raise PermissionError("changes are not allowed here; start with --allow-changes")

    async def _served(self, kind: str) -> ServedKind:
        await self.kinds()
        if kind not in self._kinds:
            raise LookupError(f"the API server has no kind {kind!r}")
        return self._kinds[kind]

    async def _read(self, document: Any) -> tuple[ServedKind, JSON]:
        self._check()
        if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
            raise ValueError("every object needs apiVersion, kind and metadata")
        wanted = document["apiVersion"], document["kind"]
        for each in await self.kinds():
            if (each.api_version, each.kind) == wanted:
                return each, document
        raise LookupError(f"the API server has no kind {wanted[1]} in {wanted[0]}")

    async def _one(self, text: str) -> tuple[ServedKind, JSON]:
        found = list(_documents(text))
        if len(found) != 1:
            raise ValueError(f"expected one object, got {len(found)}")
        return await self._read(found[0])

    async def _save(self, served: ServedKind, opened: JSON, edited: JSON) -> JSON:
        found = await self._client.get(served.path(*_place(served, edited)))
        current = {"apiVersion": served.api_version, "kind": served.kind, **found}
        made = await self._send("PUT", served, merged(_editable(opened, edited), _editable(edited, edited), current))
        return {"objects": [_title(served, made)], "text": _yaml(served, made)}

    async def _send(self, method: str, served: ServedKind, body: JSON) -> JSON:
        namespace, name = _place(served, body)
        path = served.path(namespace, name if method == "PUT" else "")
        try:
            return await (self._client.put if method == "PUT" else self._client.post)(path, body)
        except ApiError as error:
            raise ApiError(error.code, error.reason, f"{served.kind} {name}: {error.message}") from None


def _place(served: ServedKind, body: JSON) -> tuple[str, str]:
    """Namespace and name."""
    metadata = body["metadata"] if isinstance(body["metadata"], dict) else {}
    namespace = str(metadata.get("namespace") or "default") if served.namespaced else ""
    return namespace, str(metadata.get("name") or "")


def _editable(obj: JSON, edited: JSON) -> JSON:
    """An object without what the API server maintains. A status that the user removed counts as left alone."""
    metadata = {name: value for name, value in dict(obj["metadata"]).items() if name not in MAINTAINED}
    return {name: value for name, value in obj.items() if name != "status" or name in edited} | {"metadata": metadata}


def _title(served: ServedKind, made: JSON) -> str:
    return f"{served.kind} {made['metadata']['name']}"


def _yaml(served: ServedKind, obj: JSON) -> str:
    obj.get("metadata", {}).pop("managedFields", None)
    whole = {"apiVersion": served.api_version, "kind": served.kind, **obj}
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=120)


def _documents(text: str) -> Iterator[Any]:
    """The objects of a text, those in lists one by one. Raises ValueError, also for a key that is there twice."""
    for node in compose_yaml_documents(text):
        for problem in repeated_keys(node):
            raise ValueError(problem)
        document = construct_yaml(node)
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from document.get("items") or ()
        elif document is not None:
            yield document


def _served(version: str, page: JSON) -> Iterator[ServedKind]:
    group = version.rpartition("/")[0]
    for each in page["resources"]:
        if "/" not in each["name"] and "list" in each.get("verbs", ()) and each["name"] not in HIDDEN:
            name = f"{each['name']}.{group}" if group else each["name"]
            yield ServedKind(name, each["kind"], version, each["name"], bool(each["namespaced"]))
