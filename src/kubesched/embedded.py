"""The embedded cluster without its scheduler: API, controllers and kubelets, in one process and on one clock.

`kubesched up` puts a socket in front of it and a scheduler beside it; simulations and tests use it as it is.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from kubesched.apiserver.apiserver import ApiServer
from kubesched.controllers.access import Access
from kubesched.controllers.context import Context, make_context
from kubesched.controllers.manager import ControllerManager
from kubesched.controllers.node_lifecycle import LifecycleSettings
from kubesched.kubelet.kubelet import Kubelets, KubeletSettings
from kubesched.kubelet.nodes import NodeSettings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How the parts beside the API behave."""

    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    node: NodeSettings = field(default_factory=NodeSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    events: bool = True
    """Whether controllers and kubelets tell what they do; a large simulation can do without."""
    seed: int | None = None
    """What chance follows from, container IDs for instance; None for the system's own."""


class EmbeddedCluster:
    """Controllers and kubelets on an API server."""

    def __init__(self, api: ApiServer, settings: ClusterSettings | None = None, *, root_certificate: str = "") -> None:
        self.settings = settings or ClusterSettings()
        self.api = api
        self.context: Context = make_context(Access(api), Random(self.settings.seed), events=self.settings.events)
        self.kubelets = Kubelets(self.context, self.settings.kubelet, self.settings.node)
        self.controllers = ControllerManager(
            self.context,
            lifecycle=self.settings.lifecycle,
            heartbeat=lambda: self.kubelets.nodes.heartbeat,
            root_certificate=root_certificate,
        )
        self._kubelets_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        self.controllers.start()
        self._kubelets_task = asyncio.create_task(self.kubelets.run(), name="kubelets")

    async def stop(self) -> None:
        """Stop kubelets and controllers; the API stays as it is."""
        if self._kubelets_task is not None:
            self._kubelets_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._kubelets_task
            self._kubelets_task = None
        await self.controllers.stop()

    def add_nodes(self, count: int, name_format: str = "node-{}") -> list[str]:
        """Register so many nodes; answers with their names."""
        names = [name_format.format(number) for number in range(1, count + 1)]
        for name in names:
            self.kubelets.nodes.create(name)
        return names
