"""The first seed's plugin: a pod goes to the node whose name ends in the number that its own name ends in."""

from __future__ import annotations

import re

from kubesched.api import objects as api
from kubesched.cluster.view import NodeInfo
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unresolvable


class IndexScheduling(Plugin):
    """Matches the numbers in names."""

    name = "IndexScheduling"

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        wanted, found = re.search(r"(\d+)$", pod.name), re.search(r"(\d+)", node.name)
        if wanted is not None and found is not None and int(wanted[1]) == int(found[1]):
            return None
        return unresolvable("node(s) didn't match the index of the pod")
