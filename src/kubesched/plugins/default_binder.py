"""DefaultBinder: bind the pod to its node through the API server."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, error


class DefaultBinder(Plugin):
    """Bind by creating a Binding object."""

    name = "DefaultBinder"
    reads = Reads.NODE

    async def bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        log = self.handle.log
        if log.verbosity >= 3:
            log(3, "Attempting to bind pod to node", logger="Bind.DefaultBinder", pod=pod, node=node_name)
        try:
            await self.handle.client.bind(pod, node_name)
        except Exception as problem:
            # Whatever failed, the pod is not bound and must be tried again.
            return error(str(problem))
        return None
