"""Step 7: event handlers, which retry a pod when a change may help it.

An unschedulable pod waits until something changes. But what? Each plugin registers the events that could make it change
its mind. For NodeUnschedulable that is a new node or a change of taints, for NodeNumber a new node. The scheduler
watches all changes to nodes. When one happens, it retries the pods that were rejected by a plugin interested in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kubesched import Action, EventHint, Node, Resource, on
from kubesched.base.clock import Clock
from kubesched.client.informer import Informer
from kubesched.client.protocol import Client
from kubesched.framework.events import NODE_ADD, NODE_DELETE, ClusterEvent
from kubesched.learn import step2_filter, step5_permit, step6_queue
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import LogLine

expected = "as in step 6; then node10 is added, and within 5 s pod1 runs there"


class NodeUnschedulable(step2_filter.NodeUnschedulable):
    def events_to_register(self) -> Sequence[EventHint]:
        return [on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)]


class NodeNumber(step5_permit.NodeNumber):
    def events_to_register(self) -> Sequence[EventHint]:
        return [on(Resource.NODE, Action.ADD)]


class SchedulingQueue(step6_queue.SchedulingQueue):
    """The queue of step 6, which now reacts to events."""

    def __init__(self, clock: Clock, registered: dict[str, Sequence[EventHint]]) -> None:
        super().__init__(clock)
        self.registered = registered
        """By plugin name. The original registers NodeNumber's events under NodeUnschedulable's name by mistake."""

    def move_all_to_active_or_backoff(self, event: ClusterEvent) -> list[str]:
        """Retry the pods that the event may help, and return their names."""
        moved = [queued for queued in self.unschedulable.values() if self.helps(event, queued)]
        for queued in moved:
            del self.unschedulable[queued.pod.key]
            # A pod that failed a moment ago first waits out its backoff, or a busy cluster would retry it constantly.
            if queued.backoff_ends > self.clock.monotonic():
                self.backoff.append(queued)
            else:
                self.activate(queued)
        return [queued.pod.name for queued in moved]

    def helps(self, event: ClusterEvent, queued: step6_queue.QueuedPod) -> bool:
        hints = [hint for plugin in queued.unschedulable_plugins for hint in self.registered.get(plugin, ())]
        return any(hint.event.matches(event) for hint in hints)


class Scheduler(step6_queue.Scheduler):
    """The scheduler of step 6, now notified of changes to nodes."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        super().__init__(client, clock, random, log)
        filters, numbers = NodeUnschedulable(), NodeNumber(self.waiting)
        self.filter_plugins = [filters]
        self.pre_score_plugins = self.score_plugins = self.permit_plugins = [numbers]
        registered = {plugin.name: plugin.events_to_register() for plugin in (filters, numbers)}
        self.event_queue = self.use(SchedulingQueue(clock, registered))
        self.nodes = Informer(client, Node, self, clock=clock, chance=random)

    def on_add(self, obj: Node, is_initial_list: bool) -> None:
        self.handle(NODE_ADD, obj)

    def on_update(self, old: Node, new: Node) -> None:
        # Cordoning counts as a change of taints. Other changes to a node interest no plugin here.
        if old.spec != new.spec:
            self.handle(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), new)

    def on_delete(self, obj: Node) -> None:
        self.handle(NODE_DELETE, obj)

    def handle(self, event: ClusterEvent, node: Node) -> None:
        for name in self.event_queue.move_all_to_active_or_backoff(event):
            self.log(f"{event.label} {node.name}: {name} may fit now and is retried")


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(9):
        await client.create(node(f"node{number}", unschedulable=True))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.sleep(3)
    await client.expect(pod="pod1", pending=True)
    client.log("node10 is added")
    await client.create(node("node10"))
    await client.wait_for(pod="pod1", on_node="node10", timeout=5)
