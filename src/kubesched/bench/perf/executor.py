"""Runs the operations of a workload against an API server."""

from __future__ import annotations

import asyncio
import fnmatch
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.base.features import Features, gate_name
from kubesched.base.types import JSON
from kubesched.bench.perf import operations as ops
from kubesched.bench.perf.allocation import allocate_claims
from kubesched.bench.perf.claims import ClaimsOfPods
from kubesched.bench.perf.cluster import Objects, PerfClient, in_parallel
from kubesched.bench.perf.created_objects import (
    make_csi_node,
    make_perf_node,
    make_slice,
    make_volume_pair,
    named,
    with_volume,
)
from kubesched.bench.perf.format import PerfRun
from kubesched.bench.perf.pods import PodTracker
from kubesched.bench.perf.templates import load_template
from kubesched.bench.perf.throughput import Throughput, ThroughputCollector
from kubesched.client.protocol import ApiError

WAIT_SECONDS = 600.0
"""scheduler_perf waits as long for pods."""
DEFAULT_POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}]},
}


@dataclass(frozen=True, slots=True)
class PodBatch:
    """Pods to create in one namespace, each perhaps with a volume."""

    namespace: str
    pods: Sequence[JSON]
    volumes: tuple[Path, Path] | None


@dataclass(frozen=True, slots=True)
class Collected:
    """One measurement of a workload."""

    name: str
    throughput: Throughput


class Executor:
    """Runs one workload. As an asynchronous context manager it watches pods, which most operations need."""

    def __init__(
        self, client: PerfClient, run: PerfRun, seed: int = 0, seconds: float = WAIT_SECONDS, settle: float = 0.0
    ) -> None:
        """`seconds` is how long to wait for pods, `settle` how long before each measurement, for the scheduler to catch
        up."""
        self._run = run
        self._seconds = seconds
        self._settle = settle
        self._random = Random(seed)
        self._client = client
        self.objects = Objects(client)
        self.tracker = PodTracker(client)
        self._claims = ClaimsOfPods(self.objects, self._random)
        self._namespaces: set[str] = set()
        self._unawaited: Counter[str] = Counter()
        self._background: list[asyncio.Task[Any]] = []
        self._collector: tuple[str, ThroughputCollector] | None = None
        self.collected: list[Collected] = []
        self.on_measuring: Callable[[], None] = lambda: None
        """Called at the beginning and at the end of each measurement."""
        self._handlers: dict[type[ops.Operation], Callable[[int, Any], Awaitable[None]]] = {
            ops.CreateNodes: self._create_nodes,
            ops.CreateNamespaces: self._create_namespaces,
            ops.CreatePods: self._create_pods,
            ops.CreatePodSets: self._create_pod_sets,
            ops.DeletePods: self._delete_pods,
            ops.Churn: self._churn,
            ops.Barrier: self._barrier,
            ops.Sleep: self._sleep,
            ops.CreateAny: self._create_any,
            ops.UpdateAny: self._update_any,
            ops.StartCollectingMetrics: self._start_collecting,
            ops.StopCollectingMetrics: self._stop_collecting,
            ops.CreateResourceDriver: self._create_resource_driver,
            ops.CreateResourceClaims: self._create_resource_claims,
            ops.AllocResourceClaims: self._alloc_resource_claims,
        }

    async def __aenter__(self) -> Executor:
        self.tracker.on_deleted.append(self._claims.pod_deleted)
        self._spawn(self.tracker.run())
        await self.tracker.synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End what runs in the background."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._claims.close()

    async def run(self, operations: Iterable[tuple[int, ops.Operation]] | None = None) -> list[Collected]:
        """Run operations, by default all, each with its index in the workload."""
        for index, operation in enumerate(self._run.operations) if operations is None else operations:
            await self._handlers[type(operation)](index, operation)
        return self.collected

    def _spawn(self, work: Any) -> None:
        self._background.append(asyncio.create_task(work))

    # --- nodes, namespaces and other objects --------------------------------------------------------------------------

    async def _create_nodes(self, index: int, operation: ops.CreateNodes) -> None:
        async def create(number: int) -> None:
            node = make_perf_node(operation, self._run.folder, number, index, self._random)
            made = await self.objects.create(node)
            csi_node = make_csi_node(operation, made["metadata"]["name"])
            if csi_node is not None:
                await self.objects.create(csi_node)

        await in_parallel(range(operation.count), create)

    async def _create_namespaces(self, index: int, operation: ops.CreateNamespaces) -> None:
        for number in range(operation.count):
            await self._ensure_namespace(f"{operation.prefix}-{number}", operation.namespace_template_path)

    async def _ensure_namespace(self, name: str, template: str | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        made: JSON = load_template(self._run.folder / template).render() if template else {"metadata": {}}
        made |= {"apiVersion": "v1", "kind": "Namespace"}
        made["metadata"]["name"] = name
        with suppress(ApiError):
            await self.objects.create(made)

    async def _create_any(self, index: int, operation: ops.CreateAny) -> None:
        if operation.namespace:
            await self._ensure_namespace(operation.namespace)
        template = load_template(self._run.folder / operation.template_path)
        for number in range(operation.count):
            made = template.render(number, operation.count)
            await self.objects.create(made, operation.namespace)

    async def _update_any(self, index: int, operation: ops.UpdateAny) -> None:
        if operation.namespace:
            await self._ensure_namespace(operation.namespace)
        template = load_template(self._run.folder / operation.template_path)

        async def update(number: int) -> None:
            made = template.render(number, operation.count)
            await self.objects.replace(made, operation.namespace, "/".join(operation.subresources))
            await self.objects.replace(made, operation.namespace, "status")

        await _paced(range(operation.count), update, operation.update_per_second)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def namespace_of(self, index: int, operation: ops.CreatePods) -> str:
        """The namespace that the pods of an operation go to."""
        return operation.namespace or f"namespace-{index}"

    async def batch(self, index: int, operation: ops.CreatePods) -> PodBatch:
        """The pods of an operation, not yet created; their namespace is."""
        namespace = self.namespace_of(index, operation)
        await self._ensure_namespace(namespace)
        path = operation.pod_template_path
        template = self._run.folder / path if path else self._run.default_pod_template
        made = [
            named(
                load_template(template).render(number, operation.count) if template else dict(DEFAULT_POD), self._random
            )
            for number in range(operation.count)
        ]
        volume, claim = operation.persistent_volume_template_path, operation.persistent_volume_claim_template_path
        volumes = (self._run.folder / volume, self._run.folder / claim) if volume and claim else None
        return PodBatch(namespace, made, volumes)

    async def batches(self, operations: Iterable[tuple[int, ops.CreatePods]]) -> list[PodBatch]:
        """The pods of several operations, not yet created."""
        return [await self.batch(index, operation) for index, operation in operations]

    async def create_batches(self, batches: Sequence[PodBatch], per_second: float = 0) -> None:
        """Create pods as fast as possible, or at a rate. Those of several batches are created in turn."""
        for batch in batches:
            await self._claims.learn_templates(batch.namespace)

        async def create(job: tuple[int, PodBatch]) -> None:
            number, batch = job
            pod = batch.pods[number]
            if batch.volumes is not None:
                await self._create_volume(batch.volumes, batch.namespace, number)
                with_volume(pod, number)
            await self._claims.create_pod(pod, batch.namespace)

        longest = max((len(batch.pods) for batch in batches), default=0)
        jobs = [(number, batch) for number in range(longest) for batch in batches if number < len(batch.pods)]
        await _paced(jobs, create, per_second)

    async def _create_volume(self, paths: tuple[Path, Path], namespace: str, number: int) -> None:
        volume, claim = make_volume_pair(*paths, namespace, number)
        core, name = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim["metadata"]["name"]
        await self.objects.create(claim, namespace)
        await self.objects.merge(f"{core}/{name}/status", {"status": {"phase": "Bound"}})
        await self.objects.create(volume)
        path = f"/api/v1/persistentvolumes/{volume['metadata']['name']}/status"
        await self.objects.merge(path, {"status": {"phase": "Bound"}})

    async def _create_pods(self, index: int, operation: ops.CreatePods) -> None:
        batch = await self.batch(index, operation)
        if operation.collect_metrics:
            await self._begin(batch.namespace, [batch.namespace], {})
        if operation.steady_state:
            await self._keep_steady(index, operation, batch)
        else:
            before = len(self.tracker.in_namespace(batch.namespace, {}))
            await self.create_batches([batch])
            if operation.skip_wait_to_completion:
                self._unawaited[batch.namespace] += operation.count
            else:
                await self.tracker.wait_for(batch.namespace, before + operation.count, {}, self._seconds)
        if operation.collect_metrics:
            await self._end()

    async def _keep_steady(self, index: int, operation: ops.CreatePods, batch: PodBatch) -> None:
        """Create pods, wait until all are scheduled, delete them, and start again, until the time is up."""
        deadline = time.monotonic() + ops.seconds(operation.duration)
        path = f"/api/v1/namespaces/{batch.namespace}/pods"
        while True:
            await self.create_batches([batch])
            left = deadline - time.monotonic()
            with suppress(TimeoutError):
                await self.tracker.wait_for(batch.namespace, operation.count, {}, max(left, 0))
            if time.monotonic() >= deadline:
                return
            await self.objects.delete(path, now=True)
            batch = await self.batch(index, operation)

    async def _create_pod_sets(self, index: int, operation: ops.CreatePodSets) -> None:
        for number in range(operation.count):
            namespace = f"{operation.namespace_prefix}-{number}"
            await self._create_pods(index, msgspec.structs.replace(operation.create_pods_op, namespace=namespace))

    async def _delete_pods(self, index: int, operation: ops.DeletePods) -> None:
        pods = self.tracker.in_namespace(operation.namespace, operation.label_selector)

        async def delete(pod: api.Pod) -> None:
            with suppress(ApiError):
                await self.objects.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")

        work = _paced(pods, delete, operation.delete_pods_per_second)
        if operation.skip_wait_to_completion:
            self._spawn(work)
        else:
            await work

    async def _churn(self, index: int, operation: ops.Churn) -> None:
        namespace = operation.namespace or f"namespace-{index}"
        await self._ensure_namespace(namespace)
        self._spawn(self._keep_churning(operation, namespace))

    async def _keep_churning(self, operation: ops.Churn, namespace: str) -> None:
        templates = [load_template(self._run.folder / path) for path in operation.template_paths]
        recreates, number = operation.mode == "recreate", operation.number
        living: dict[tuple[int, int], str] = {}
        cycle = 0
        while recreates or not number or cycle < number:
            await asyncio.sleep(operation.interval_milliseconds / 1000)
            for position, template in enumerate(templates):
                slot = (position, cycle % number) if recreates else (position, cycle)
                with suppress(ApiError):
                    if recreates and slot in living:
                        await self.objects.delete(living.pop(slot))
                    else:
                        living[slot] = await self._create_churned(template.render(), namespace)
            cycle += 1

    async def _create_churned(self, obj: JSON, namespace: str) -> str:
        """Create an object and return its path."""
        named(obj, self._random)
        try:
            path = await self.objects.path(obj, namespace)
            await self.objects.create(obj, namespace)
        except ValueError:
            path = await self.objects.path(obj, None)
            await self.objects.create(obj)
        return f"{path}/{obj['metadata']['name']}"

    async def _barrier(self, index: int, operation: ops.Barrier) -> None:
        attempted = operation.stage_requirement == "Attempted"
        namespaces = operation.namespaces or tuple(self._unawaited)
        for namespace in namespaces:
            await self.tracker.wait_for(
                namespace,
                self._unawaited[namespace],
                operation.label_selector,
                self._seconds,
                attempted=attempted,
            )
        if not attempted:
            for namespace in namespaces:
                del self._unawaited[namespace]

    async def _sleep(self, index: int, operation: ops.Sleep) -> None:
        await asyncio.sleep(ops.seconds(operation.duration))

    # --- devices ------------------------------------------------------------------------------------------------------

    async def _create_resource_driver(self, index: int, operation: ops.CreateResourceDriver) -> None:
        nodes = [node.name for node in (await self._client.list(api.Node)).items]

        async def publish(name: str) -> None:
            await self.objects.create(make_slice(operation.driver_name, name, operation.max_claims_per_node))

        await in_parallel(fnmatch.filter(nodes, operation.nodes), publish)

    async def _create_resource_claims(self, index: int, operation: ops.CreateResourceClaims) -> None:
        await self._ensure_namespace(operation.namespace)
        template = load_template(self._run.folder / operation.template_path)

        async def create(number: int) -> None:
            claim = named(template.render(number, operation.count), self._random)
            await self.objects.create(claim, operation.namespace)

        await in_parallel(range(operation.count), create)

    async def _alloc_resource_claims(self, index: int, operation: ops.AllocResourceClaims) -> None:
        await allocate_claims(self._client, operation.namespace, features_of(self._run))

    # --- measuring ----------------------------------------------------------------------------------------------------

    async def _start_collecting(self, index: int, operation: ops.StartCollectingMetrics) -> None:
        await self._begin(operation.name, operation.namespaces, operation.label_selector)

    async def _stop_collecting(self, index: int, operation: ops.StopCollectingMetrics) -> None:
        await self._end()

    async def _begin(self, name: str, namespaces: Sequence[str], selector: dict[str, str]) -> None:
        if self._collector is not None:
            raise ValueError("metrics are collected already; stopCollectingMetrics is missing")
        await asyncio.sleep(self._settle)
        self.on_measuring()
        collector = ThroughputCollector(self.tracker, namespaces, selector)
        collector.start()
        self._collector = (name, collector)

    async def _end(self) -> None:
        if self._collector is None:
            raise ValueError("no metrics are collected; startCollectingMetrics is missing")
        name, collector = self._collector
        self.collected.append(Collected(name, await collector.stop()))
        self.on_measuring()
        self._collector = None


def features_of(run: PerfRun) -> Features:
    """The feature gates of a workload; all others have their default."""
    defaults = {gate_name(field): getattr(Features(), field) for field in Features.__dataclass_fields__}
    return Features.of(lambda name: bool(run.gates.get(name, defaults[name])))


async def _paced(jobs: Iterable[Any], work: Callable[[Any], Awaitable[None]], per_second: float) -> None:
    """Do work for each job: as fast as possible if the rate is 0, otherwise beginning so many per second."""
    if not per_second:
        await in_parallel(jobs, work)
        return
    began = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for number, job in enumerate(jobs, 1):
                await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
                group.create_task(work(job))  # type: ignore[arg-type]  # a coroutine
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
