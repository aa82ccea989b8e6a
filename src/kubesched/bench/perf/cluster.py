"""What a workload needs of an API server, and where objects are in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import quote

import msgspec

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Listing, WatchEvent

WORKERS = 60
"""Requests at once."""

T = TypeVar("T")


class PerfClient(Protocol):
    """Requests of any kind, and watches of pods."""

    async def request(
        self,
        method: str,
        path: str,
        body: JSON | bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a request and return the response body. Raises `ApiError`."""
        ...

    async def list(self, kind: type[api.Object]) -> Listing:
        """All objects of a kind."""
        ...

    def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """The events of a kind after a version."""
        ...


@dataclass(frozen=True, slots=True)
class _Mapping:
    plural: str
    namespaced: bool


class Objects:
    """Creates, replaces and deletes objects of any kind. Their paths come from the server's discovery."""

    def __init__(self, client: PerfClient) -> None:
        self.client = client
        self._mappings: dict[str, dict[str, _Mapping]] = {}

    async def path(self, obj: JSON, namespace: str | None) -> str:
        """The path of an object's collection. Gives the object a version that the server has, if it has another."""
        kind, wanted = str(obj.get("kind")), str(obj.get("apiVersion"))
        group, _, _ = wanted.rpartition("/")
        for version in (wanted, f"{group}/v1" if group else wanted):
            known = await self._kinds(version)
            if kind in known:
                obj["apiVersion"] = version
                return _path(version, known[kind], kind, namespace)
        raise ValueError(f"the API server has no {kind} in {wanted}")

    async def _kinds(self, version: str) -> Mapping[str, _Mapping]:
        if version not in self._mappings:
            found: JSON = {"resources": []}
            with suppress(ApiError):  # the server does not have the version
                found = await self.get(_prefix(version))
            self._mappings[version] = {
                each["kind"]: _Mapping(each["name"], each["namespaced"])
                for each in found["resources"]
                if "/" not in each["name"]
            }
        return self._mappings[version]

    async def get(self, path: str, **query: str) -> JSON:
        """The JSON at a path."""
        found: JSON = msgspec.json.decode(await self.client.request("GET", path, query=query or None))
        return found

    async def create(self, obj: JSON, namespace: str | None = None) -> JSON:
        """Create an object. Returns the stored one."""
        path = await self.path(obj, namespace)
        made: JSON = msgspec.json.decode(await self.client.request("POST", path, obj))
        return made

    async def replace(self, obj: JSON, namespace: str | None, subresource: str = "") -> None:
        """Replace an object, or one of its subresources."""
        path = f"{await self.path(obj, namespace)}/{quote(obj['metadata']['name'])}"
        await self.client.request("PUT", f"{path}/{subresource}" if subresource else path, obj)

    async def merge(self, path: str, patch: JSON) -> None:
        """Apply a merge patch to the object at a path."""
        await self.client.request("PATCH", path, patch, content_type="application/merge-patch+json")

    async def delete(self, path: str, *, now: bool = False) -> None:
        """Delete the object at a path."""
        await self.client.request("DELETE", path, {"gracePeriodSeconds": 0} if now else None)


def _prefix(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _path(version: str, mapping: _Mapping, kind: str, namespace: str | None) -> str:
    if mapping.namespaced != bool(namespace):
        raise ValueError(f"{kind}: a namespace {'is needed' if mapping.namespaced else 'must not be set'}")
    inside = f"namespaces/{namespace}/" if namespace else ""
    return f"{_prefix(version)}/{inside}{mapping.plural}"


async def in_parallel(jobs: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    """Do work for each job, several at once, in order of their beginning. The first failure ends it."""
    source = iter(jobs)

    async def worker() -> None:
        for job in source:
            await work(job)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
