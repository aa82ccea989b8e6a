"""Device claims of pods, as the resource claim controller handles them: made from templates, released with the pod."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.bench.perf.cluster import Objects
from kubesched.bench.perf.created_objects import make_pod_claims
from kubesched.client.protocol import ApiError

GROUP = "/apis/resource.k8s.io/v1"


class ClaimsOfPods:
    """Creates pods with their claims, and deletes the claims of deleted pods."""

    def __init__(self, objects: Objects, random: Random) -> None:
        self._objects = objects
        self._random = random
        self._templates: dict[str, dict[str, JSON]] = {}
        self._made: dict[str, list[str]] = {}
        """Paths of claims, by the key of the pod they were made for."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def learn_templates(self, namespace: str) -> None:
        """Read the claim templates of a namespace."""
        with suppress(ApiError):  # an API server without the group
            found = await self._objects.get(f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates")
            self._templates[namespace] = {each["metadata"]["name"]: each for each in found["items"]}

    async def create_pod(self, pod: JSON, namespace: str) -> None:
        """Create a pod and the claims it gets from templates."""
        made = await self._objects.create(pod, namespace)
        claims = make_pod_claims(made, self._templates.get(namespace, {}), self._random)
        if not claims:
            return
        for claim in claims.values():
            await self._objects.create(claim, namespace)
        statuses = [{"name": name, "resourceClaimName": claim["metadata"]["name"]} for name, claim in claims.items()]
        name = made["metadata"]["name"]
        await self._objects.merge(
            f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": {"resourceClaimStatuses": statuses}}
        )
        folder = f"{GROUP}/namespaces/{namespace}/resourceclaims"
        self._made[f"{namespace}/{name}"] = [f"{folder}/{claim['metadata']['name']}" for claim in claims.values()]

    def pod_deleted(self, pod: api.Pod) -> None:
        """Release and delete the claims that were made for a pod."""
        for path in self._made.pop(pod.key, ()):
            task = asyncio.create_task(self._delete(path))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _delete(self, path: str) -> None:
        with suppress(ApiError, OSError):
            await self._objects.merge(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
            await self._objects.merge(path, {"metadata": {"finalizers": None}})
            await self._objects.delete(path)

    async def close(self) -> None:
        """Wait for deletions under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
