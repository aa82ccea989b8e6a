"""sample2: keeps pods off nodes without the label cpu=true, and logs what it sees."""

from __future__ import annotations

from kubesched import (
    Action,
    CycleState,
    EventHint,
    NodeInfo,
    Nodes,
    Plugin,
    Pod,
    Reads,
    Resource,
    Status,
    on,
    unresolvable,
)


class Sample2(Plugin):
    """A Filter on a label, and a PreScore that only logs."""

    name = "sample2"
    reads = Reads.ROW  # it could be NODE, but kept answers would not be logged again

    def events_to_register(self) -> list[EventHint]:
        """The original registers nothing and so is woken by everything; only these events can help."""
        return [on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The reason names the node, so the event of a pending pod lists the nodes one by one."""
        self.handle.log(3, "filter pod", pod=pod.name, node=node.name)
        if node.labels.get("cpu") != "true":
            return unresolvable(f"Node: {node.name}")
        return None

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Show which nodes are left to choose from."""
        self.handle.log(3, "collect info for scheduling pod", pod=pod.name, nodes=nodes.names)
        return None
