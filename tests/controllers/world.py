"""A whole cluster on virtual time: API, controllers, kubelets and the real scheduler, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from kubesched.apiserver.admission.admission import AdmissionSettings
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.base.clocks import VirtualClock
from kubesched.base.types import JSON
from kubesched.config.load import default
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.plugins import in_tree_registry
from kubesched.reconcile.access import EVENTS, NODES, PODS, Access
from kubesched.scheduler.build import build_scheduler

ADMISSION = AdmissionSettings(require_service_accounts=True, taint_new_nodes=True, protect_in_use=True)


class World:
    """A cluster as tests use it."""

    def __init__(self, clock: VirtualClock, settings: ClusterSettings, api: ApiServer | None = None) -> None:
        self.clock = clock
        self.api = api or ApiServer(clock=clock, admission=ADMISSION, random=Random(7))
        self.cluster = EmbeddedCluster(self.api, settings, root_certificate="a certificate")
        self.access = Access(self.api)
        features, client = settings.features, DirectClient(self.api)
        self.scheduler = build_scheduler(
            default(features), in_tree_registry(), client, clock, Random(3), features=features
        )

    def create(self, storage: str, name: str, spec: JSON | None = None, **more: Any) -> JSON:
        """Create an object. `more` are labels, annotations, the namespace, or top-level fields next to the spec."""
        resource = self.access.resource(storage)
        metadata: JSON = {"name": name}
        for part in ("labels", "annotations", "finalizers"):
            if part in more:
                metadata[part] = more.pop(part)
        namespace = more.pop("namespace", "default")
        if resource.namespaced:
            metadata["namespace"] = namespace
        return self.access.create(storage, {"metadata": metadata, **({"spec": spec} if spec else {}), **more})

    def get(self, storage: str, name: str, namespace: str = "default") -> JSON:
        """Return an object that must exist."""
        found = self.access.get(storage, self.key(storage, name, namespace))
        assert found is not None, f"no {name} in {storage}"
        return found

    def key(self, storage: str, name: str, namespace: str = "default") -> str:
        return self.access.resource(storage).key(namespace, name)

    def edit(self, storage: str, name: str, **spec: Any) -> None:
        """Change fields of an object's spec."""
        self.access.edit(storage, self.key(storage, name), lambda obj: obj["spec"].update(spec))

    def annotate(self, storage: str, name: str, **annotations: str) -> None:
        """Set annotations. In names, double underscores stand for dots and the first single one for a slash."""
        named = {key.replace("__", ".").replace("_", "/", 1): text for key, text in annotations.items()}

        def change(obj: JSON) -> None:
            obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **named}

        self.access.edit(storage, self.key(storage, name), change)

    def delete(self, storage: str, name: str, propagation: str = "Background", grace: int | None = None) -> None:
        self.access.delete(storage, self.key(storage, name), propagation=propagation, grace=grace)

    def names(self, storage: str, namespace: str = "default") -> list[str]:
        """Return the names of all objects of a kind, in order."""
        scope = namespace if self.access.resource(storage).namespaced else ""
        return [obj["metadata"]["name"] for obj in self.access.list(storage, scope)]

    def pods(self, **labels: str) -> list[JSON]:
        """Return pods with these labels."""
        found = self.access.list(PODS)
        return [pod for pod in found if labels.items() <= (pod["metadata"].get("labels") or {}).items()]

    def running(self, **labels: str) -> list[JSON]:
        """Return running pods with these labels that are not being deleted."""
        pods = self.pods(**labels)
        return [
            pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def nodes_of(self, **labels: str) -> list[str]:
        """Return the nodes of pods with these labels, sorted."""
        return sorted(pod["spec"].get("nodeName", "") for pod in self.pods(**labels))

    def reasons(self, name: str = "") -> list[str]:
        """Return the reasons of all events, or of those about one object, in order."""
        events = sorted(self.access.list(EVENTS), key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event["reason"] for event in events if name in ("", event["involvedObject"]["name"])]

    async def until(self, condition: Callable[[], bool], timeout: float = 300.0) -> None:
        """Let time pass until something holds."""
        await self.clock.run_until(condition, timeout)

    async def ready(self) -> None:
        """Wait until no node has taints."""
        await self.until(lambda: all(not node["spec"].get("taints") for node in self.access.list(NODES)))


@asynccontextmanager
async def world(
    clock: VirtualClock, nodes: int = 3, settings: ClusterSettings | None = None, api: ApiServer | None = None
) -> AsyncIterator[World]:
    """Run a cluster with `nodes` nodes."""
    made = World(clock, settings or ClusterSettings(seed=1), api)
    made.cluster.start()
    made.cluster.add_nodes(nodes)
    running = asyncio.create_task(made.scheduler.run())
    await made.ready()
    try:
        yield made
    finally:
        await made.scheduler.stop()
        await running
        await made.cluster.stop()


def template(app: str, **spec: Any) -> JSON:
    """Build a pod template with an app label and one container."""
    containers = spec.pop("containers", [{"name": "main", "image": "nginx:1.27"}])
    annotations = spec.pop("annotations", {})
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": containers, **spec},
    }


def workload(app: str, replicas: int | None = None, *, pod: JSON | None = None, **spec: Any) -> JSON:
    """Build the spec of a Deployment or a similar workload."""
    body: JSON = {"selector": {"matchLabels": {"app": app}}, "template": pod or template(app), **spec}
    return body if replicas is None else {**body, "replicas": replicas}
