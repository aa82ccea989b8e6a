"""The whole cluster of `kubesched up` on a virtual clock, without its sockets: manifests in, decisions out.

API server, controllers, kubelets and scheduler are the same code. Waiting takes no time and chance has a seed, so it is
over in a moment and comes out the same every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kubesched.apiserver import meta
from kubesched.apiserver.admission.plugins import AdmissionSettings
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.base.clocks import VirtualClock
from kubesched.base.types import JSON
from kubesched.config.load import default
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.kubelet.nodes import NodeSettings
from kubesched.plugins import in_tree_registry
from kubesched.reconcile.access import NODES, PODS, Access
from kubesched.scheduler.scheduler import Scheduler

ADMISSION = AdmissionSettings(require_service_accounts=True, taint_new_nodes=True, protect_storage=True)
PATIENCE = 60.0


@dataclass
class Attempts:
    """What was decided about one pod, attempt by attempt."""

    name: str
    """Short and speaking: the Deployment's name and a number, in the order of the first attempts."""
    decisions: list[Decision] = field(default_factory=list)


class Rehearsal:
    """A cluster that manifests are applied to."""

    def __init__(self, clock: VirtualClock) -> None:
        meta.seed(0)
        self._clock = clock
        api = ApiServer(clock=clock, admission=ADMISSION)
        self._access = Access(api)
        settings = ClusterSettings(node=NodeSettings(heartbeat=0.0), events=False, seed=0)
        self._embedded = EmbeddedCluster(api, settings)
        self._scheduler = Scheduler(default(), in_tree_registry(), DirectClient(api), clock, Random(0))
        self._scheduler.on_decision = self._note
        for profile in self._scheduler.profiles.values():
            profile.engine.record = True
        self._attempts: dict[str, Attempts] = {}
        self._counted: dict[str, int] = {}
        self._running: asyncio.Task[None] | None = None

    @property
    def engine(self) -> Engine:
        """The engine of the default profile, which knows the nodes."""
        return self._scheduler.profiles["default-scheduler"].engine

    async def start(self) -> None:
        """Start everything but the workload."""
        self._embedded.start()
        self._running = asyncio.create_task(self._scheduler.run())
        await self._clock.settle()

    async def stop(self) -> None:
        """Stop what was started."""
        await self._scheduler.stop()
        if self._running is not None:
            await self._running
        await self._embedded.stop()

    async def apply(self, manifest: JSON) -> None:
        """Create what a manifest describes."""
        group = manifest["apiVersion"].rpartition("/")[0]
        resource = self._access.api.registry.by_kind(group, manifest["kind"])
        assert resource is not None, f"no kind {manifest['kind']}"
        body = {part: value for part, value in manifest.items() if part not in ("apiVersion", "kind")}
        if resource.namespaced:
            body["metadata"] = {"namespace": "default", **body["metadata"]}
        self._access.create(resource.storage, body)
        await self._clock.settle()

    async def nodes_ready(self) -> None:
        """Wait until every node has a kubelet that says so, and the scheduler knows."""
        await self._until(lambda: all(_is_ready(node) for node in self._access.list(NODES)))
        await self._clock.advance(1.0)

    async def deploy(self, deployment: JSON) -> list[Attempts]:
        """Apply a Deployment and wait until all of its pods that have a node run; answers with its pods."""
        name, replicas = deployment["metadata"]["name"], deployment["spec"].get("replicas", 1)
        await self.apply(deployment)
        await self._until(lambda: self._counted.get(name, 0) >= replicas)
        await self._until(lambda: all(_is_settled(pod) for pod in self._pods_of(name)))
        # Whoever is preempted has some time to go, and whoever preempts has to wait for it.
        await self._clock.advance(5.0)
        return [each for each in self._attempts.values() if each.name.rpartition("-")[0] == name]

    def name_of(self, pod: str) -> str:
        """A pod's short name by its real one."""
        return next(each.name for each in self._attempts.values() if each.decisions[0].pod.name == pod)

    def phases(self) -> dict[str, str]:
        """How each pod is, by its short name."""
        return {self.name_of(pod["metadata"]["name"]): pod["status"]["phase"] for pod in self._access.list(PODS)}

    def _pods_of(self, app: str) -> list[JSON]:
        found = (pod for pod in self._access.list(PODS))
        return [pod for pod in found if pod["metadata"]["name"].rpartition("-")[0].rpartition("-")[0] == app]

    def _note(self, decision: Decision) -> None:
        pod = decision.pod
        known = self._attempts.get(pod.uid)
        if known is None:
            app = pod.name.rpartition("-")[0].rpartition("-")[0]
            number = self._counted[app] = self._counted.get(app, 0) + 1
            known = self._attempts[pod.uid] = Attempts(f"{app}-{number}")
        known.decisions.append(decision)

    async def _until(self, condition: Callable[[], Any]) -> None:
        await self._clock.run_until(lambda: bool(condition()), PATIENCE)


def _is_ready(node: JSON) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    taints = (node.get("spec") or {}).get("taints") or []
    tainted = any(each["key"] == "node.kubernetes.io/not-ready" for each in taints)
    return not tainted and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_settled(pod: JSON) -> bool:
    """Whether it runs, or waits for a node that it cannot have."""
    return pod["status"]["phase"] == "Running" or not pod["spec"].get("nodeName")
