"""NodeName: a pod that names its node goes to no other."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import unresolvable

OTHER_NODE = unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    """Filter on `spec.nodeName`. The name is not part of a pod's class, so results are not cached per class."""

    name = "NodeName"
    reads = Reads.ROW

    def sign(self, pod: api.Pod) -> Signature:
        return {"v1.Pod.Spec.NodeName": pod.spec.node_name}

    def events_to_register(self) -> list[EventHint]:
        return [on(Resource.NODE, Action.ADD)]

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return False

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        wanted = pod.spec.node_name
        if not wanted:
            return None
        others = np.ones(nodes.table.size, dtype=np.bool_)
        row = nodes.table.row_of.get(wanted)
        if row is not None:
            others[row] = False
        return reject(others[nodes.rows], OTHER_NODE)
