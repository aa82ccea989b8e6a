"""Pods that are nominated to a node, after a preemption or while they are being bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import NodeTable


class Nominations:
    """Which pods are nominated to which node."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self._top: dict[str, int] = {}
        """The highest priority among the pods nominated to a node."""
        self._classes: Counter[PodClass] = Counter()

    def __len__(self) -> int:
        return len(self._node_of)

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes that pods are nominated to."""
        return self._by_node.keys()

    @property
    def classes(self) -> Collection[PodClass]:
        """The classes of all nominated pods."""
        return self._classes.keys()

    def add(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod, in place of any earlier nomination of it."""
        uid = info.pod.uid
        self.remove(uid)
        self._by_node.setdefault(node_name, {})[uid] = info
        self._node_of[uid] = node_name
        self._classes[info.pod_class] += 1
        self._top[node_name] = max(info.pod.priority, self._top.get(node_name, info.pod.priority))
        self._touch(node_name)

    def remove(self, uid: str) -> None:
        """Withdraw a pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._by_node[node_name]
        pod_class = pods.pop(uid).pod_class
        self._classes[pod_class] -= 1
        if not self._classes[pod_class]:
            del self._classes[pod_class]
        if pods:
            self._top[node_name] = max(info.pod.priority for info in pods.values())
        else:
            del self._by_node[node_name], self._top[node_name]
        self._touch(node_name)

    def _touch(self, node_name: str) -> None:
        row = self._nodes.row_of.get(node_name)
        if row is not None:
            self._nodes.touch(row)

    def on(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node, in the order of their nomination."""
        return self._by_node.get(node_name, {}).values()

    def nodes_with(self, priority: int) -> list[str]:
        """The nodes that pods of at least this priority are nominated to."""
        return [name for name, top in self._top.items() if top >= priority]

    def node_of(self, uid: str) -> str | None:
        """The node a pod is nominated to."""
        return self._node_of.get(uid)
