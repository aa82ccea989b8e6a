"""Shows the cache and the queue of a running scheduler, and compares them with the API server.

On SIGUSR2 the daemon logs this with the same messages as kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubesched.api import objects as api
from kubesched.cluster.view import NodeInfo, ResourceView
from kubesched.scheduler.shared import Shared


class CacheDebugger:
    """Dumps and compares the cache."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def dump(self) -> None:
        """Log all nodes with their pods, and all waiting pods."""
        shared = self._shared
        nodes = [self._node(name) for name in sorted(shared.cluster.nodes.row_of)]
        # A blank line between nodes, for readability.
        shared.log(0, "Dump of cached NodeInfo", nodes="\n\n".join(nodes))
        pods, summary = shared.queue.pending_pods()
        shared.log(0, "Dump of scheduling queue", summary=summary, pods="".join(map(_pod, pods)))

    def compare(self, nodes: Iterable[api.Node], pods: Iterable[api.Pod]) -> bool:
        """Log the objects that the cache lacks, and those it should not have, compared with the informers.

        Returns whether both agree.
        """
        cluster, queue = self._shared.cluster, self._shared.queue
        table = cluster.nodes
        known_nodes = [name for name, row in table.row_of.items() if table.valid[row]]
        known_pods = {*cluster.pods, *(pod.uid for pod in queue.pending_pods()[0])}
        same = self._same("Nodes", [node.name for node in nodes], known_nodes)
        return self._same("Pods", [pod.uid for pod in pods], known_pods) and same

    def _same(self, kind: str, actual: Collection[str], cached: Collection[str]) -> bool:
        missed, redundant = sorted({*actual} - {*cached}), sorted({*cached} - {*actual})
        if not missed and not redundant:
            return True
        self._shared.log(0, "Cache mismatch", **{f"missed{kind}": missed, f"redundant{kind}": redundant})
        return False

    def _node(self, name: str) -> str:
        cluster = self._shared.cluster
        table, row = cluster.nodes, cluster.nodes.row_of[name]
        info = NodeInfo(table, row)
        pods, promised = table.pods[row].values(), cluster.nominations.on(name)
        text = f"Node name: {name}\nDeleted: {str(not table.valid[row]).lower()}\n"
        text += f"Requested Resources: {_amounts(info.requested)}\nAllocatable Resources:{_amounts(info.allocatable)}\n"
        text += f"Scheduled Pods(number: {len(pods)}):\n" + "".join(_pod(each.pod) for each in pods)
        if promised:
            text += f"Nominated Pods(number: {len(promised)}):\n" + "".join(_pod(each.pod) for each in promised)
        return text


def _amounts(resources: ResourceView) -> str:
    first = f"MilliCPU:{resources.milli_cpu} Memory:{resources.memory}"
    return f"{{{first} EphemeralStorage:{resources.ephemeral_storage} AllowedPodNumber:{resources.pods}}}"


def _pod(pod: api.Pod) -> str:
    where = f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}"
    return f"{where}, phase: {pod.status.phase}, nominated node: {pod.nominated_node_name}\n"
