"""The embedded cluster without a scheduler: API server, controllers and kubelets in one process, on one clock.

This module stands alone at the top of the package because it is a layer of its own. It is the only place that knows
`apiserver`, `controllers` and `kubelet` together, and everything above uses the cluster only through it. `kubesched up`
adds a socket and a scheduler; simulations and tests add a scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from kubesched.apiserver.apiserver import ApiServer
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.base.types import JSON
from kubesched.controllers.certificates import SignRequest
from kubesched.controllers.manager import ControllerManager
from kubesched.controllers.metrics import MetricsApi
from kubesched.controllers.node_lifecycle import LifecycleSettings
from kubesched.kubelet.kubelet import Kubelets
from kubesched.kubelet.nodes import NodeSettings
from kubesched.kubelet.settings import KubeletSettings
from kubesched.reconcile.access import Access
from kubesched.reconcile.context import ControllerContext, make_context

ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How controllers and kubelets behave."""

    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    node: NodeSettings = field(default_factory=NodeSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    events: bool = True
    """Whether controllers and kubelets write events. Large simulations are faster without them."""
    features: Features = DEFAULT_FEATURES
    """The feature gates that controllers read."""
    workloads: bool = True
    """Whether the controllers of workloads are at work, and those that delete objects without owners."""
    control_plane: bool = False
    """Whether there are the objects by which a real control plane describes itself, such as flow schemas."""
    ended_pods: int = 12_500
    """How many pods that have ended are kept; 0 keeps all."""
    seed: int | None = None
    """Seeds random values such as container IDs; None to seed from the system."""


class EmbeddedCluster:
    """Controllers and kubelets working on an API server."""

    def __init__(
        self,
        api: ApiServer,
        settings: ClusterSettings | None = None,
        *,
        root_certificate: str = "",
        sign_request: SignRequest | None = None,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.api = api
        self.context: ControllerContext = make_context(
            Access(api), Random(self.settings.seed), events=self.settings.events, features=self.settings.features
        )
        self.kubelets = Kubelets(self.context, self.settings.kubelet, self.settings.node)
        self.controllers = ControllerManager(
            self.context,
            lifecycle=self.settings.lifecycle,
            heartbeat=lambda: self.kubelets.nodes.heartbeat,
            root_certificate=root_certificate,
            workloads=self.settings.workloads,
            control_plane=self.settings.control_plane,
            ended_pods=self.settings.ended_pods,
            sign_request=sign_request,
        )
        MetricsApi(self.context).install()
        self._kubelets_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start controllers and kubelets."""
        self.controllers.start()
        self._kubelets_task = asyncio.create_task(self.kubelets.run(), name="kubelets")

    def halt(self) -> None:
        """Let controllers and kubelets begin nothing more. `stop` must follow."""
        self.controllers.halt()
        if self._kubelets_task is not None:
            self._kubelets_task.cancel()

    async def stop(self) -> None:
        """Stop kubelets and controllers. The API server keeps its objects."""
        if self._kubelets_task is not None:
            self._kubelets_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._kubelets_task
            self._kubelets_task = None
        await self.controllers.stop()

    def add_nodes(
        self,
        count: int,
        name_format: str = "node-{}",
        *,
        zones: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[JSON] = (),
    ) -> list[str]:
        """Register `count` nodes and return their names. With `zones`, they are in zone-1, zone-2 and so on in turn."""
        names = [name_format.format(number) for number in range(1, count + 1)]
        for number, name in enumerate(names):
            zone = {ZONE: f"zone-{number % zones + 1}"} if zones else {}
            self.kubelets.nodes.create(name, {**zone, **(labels or {})}, taints)
        return names
