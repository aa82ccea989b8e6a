"""What happens to pods, seen through a watch: which are scheduled, which have been tried, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress

from kubesched.api import objects as api
from kubesched.bench.perf.cluster import PerfClient
from kubesched.client.protocol import ApiError, WatchType

CHECK_SECONDS = 0.05

PodCallback = Callable[[api.Pod], None]


class PodsTimeoutError(TimeoutError):
    """Pods were not scheduled in time."""


class PodTracker:
    """The pods of a cluster. `run` keeps it up to date."""

    def __init__(self, client: PerfClient) -> None:
        self._client = client
        self._pods: dict[str, api.Pod] = {}
        self._changed = asyncio.Event()
        self._listed = asyncio.Event()
        self.on_scheduled: list[PodCallback] = []
        self.on_deleted: list[PodCallback] = []

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        while True:
            listing = await self._client.list(api.Pod)
            for pod in listing.items:
                self._see(pod)
            self._listed.set()
            with suppress(ApiError, OSError):
                async with aclosing(self._client.watch(api.Pod, listing.resource_version)) as events:
                    async for event in events:
                        if event.change is WatchType.DELETED:
                            self._forget(event.object)
                        elif event.object is not None:
                            self._see(event.object)

    async def synced(self) -> None:
        """Wait for the first list."""
        await self._listed.wait()

    def _see(self, pod: api.Object) -> None:
        assert isinstance(pod, api.Pod)
        old = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        if pod.spec.node_name and (old is None or not old.spec.node_name):
            for callback in self.on_scheduled:
                callback(pod)
        self._changed.set()

    def _forget(self, pod: api.Object | None) -> None:
        assert isinstance(pod, api.Pod)
        self._pods.pop(pod.key, None)
        for callback in self.on_deleted:
            callback(pod)
        self._changed.set()

    def in_namespace(self, namespace: str, selector: Mapping[str, str]) -> list[api.Pod]:
        """The pods of a namespace whose labels match."""
        return [pod for pod in self._pods.values() if pod.namespace == namespace and matches(pod, selector)]

    async def wait_for(
        self, namespace: str, count: int, selector: Mapping[str, str], seconds: float, *, attempted: bool = False
    ) -> None:
        """Wait until `count` pods of a namespace are scheduled or, if that is enough, have been attempted."""
        deadline = time.monotonic() + seconds
        while (done := self._done(namespace, selector, attempted)) < count:
            if time.monotonic() > deadline:
                stage = "attempted" if attempted else "scheduled"
                raise PodsTimeoutError(f"{done} of {count} pods in namespace {namespace} {stage} after {seconds:.0f} s")
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
            await asyncio.sleep(CHECK_SECONDS)

    def _done(self, namespace: str, selector: Mapping[str, str], attempted: bool) -> int:
        pods = self.in_namespace(namespace, selector)
        return sum(1 for pod in pods if pod.spec.node_name or (attempted and _was_attempted(pod)))


def matches(pod: api.Pod, selector: Mapping[str, str]) -> bool:
    """Whether a pod has all these labels."""
    labels = pod.metadata.labels
    return all(labels.get(key) == value for key, value in selector.items())


def _was_attempted(pod: api.Pod) -> bool:
    conditions: Sequence[api.PodCondition] = pod.status.conditions
    return any(condition.type == "PodScheduled" for condition in conditions)
