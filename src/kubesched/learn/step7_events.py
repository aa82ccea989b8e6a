"""Step 7: event handlers, which let a pod that waits be tried again when it is worth it.

A pod lies in *unschedulable* until something changes. But what? Each plugin says which events could change its mind:
NodeUnschedulable, that a node comes or its taints change; NodeNumber, that a node comes. The scheduler hears of every
change to nodes and lets those pods go on that were turned down by a plugin which wanted to hear of it.
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
from kubesched.simulator.cluster import Tell

expected = "as in step 6; then node10 comes, and within 5 s pod1 is on it"


class NodeUnschedulable(step2_filter.NodeUnschedulable):
    def events_to_register(self) -> Sequence[EventHint]:
        return [on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)]


class NodeNumber(step5_permit.NodeNumber):
    def events_to_register(self) -> Sequence[EventHint]:
        return [on(Resource.NODE, Action.ADD)]


class SchedulingQueue(step6_queue.SchedulingQueue):
    """The queue of step 6, which now also hears of events."""

    def __init__(self, clock: Clock, wanted: dict[str, Sequence[EventHint]]) -> None:
        super().__init__(clock)
        self.wanted = wanted
        """By plugin. The original has NodeNumber's events under NodeUnschedulable's name; here each has its own."""

    def move_all_to_active_or_backoff(self, happened: ClusterEvent) -> list[str]:
        """Let pods go on that the event may help; answers with their names."""
        moved = [queued for queued in self.unschedulable.values() if self.helps(happened, queued)]
        for queued in moved:
            del self.unschedulable[queued.pod.key]
            # One that failed a moment ago waits for the rest of its backoff, lest busy clusters try it all the time.
            if queued.backoff_ends > self.clock.monotonic():
                self.backoff.append(queued)
            else:
                self.activate(queued)
        return [queued.pod.name for queued in moved]

    def helps(self, happened: ClusterEvent, queued: step6_queue.QueuedPod) -> bool:
        hints = [hint for plugin in queued.unschedulable_plugins for hint in self.wanted.get(plugin, ())]
        return any(hint.event.matches(happened) for hint in hints)


class Scheduler(step6_queue.Scheduler):
    """The scheduler of step 6 with an ear for nodes."""

    def __init__(self, client: Client, clock: Clock, random: Random, tell: Tell) -> None:
        super().__init__(client, clock, random, tell)
        filters, numbers = NodeUnschedulable(), NodeNumber(self.waiting)
        self.filter_plugins = [filters]
        self.pre_score_plugins = self.score_plugins = self.permit_plugins = [numbers]
        wanted = {plugin.name: plugin.events_to_register() for plugin in (filters, numbers)}
        self.event_queue = self.use(SchedulingQueue(clock, wanted))
        self.nodes = Informer(client, Node, self, clock=clock, chance=random)

    def on_add(self, obj: Node, is_initial_list: bool) -> None:
        self.hear(NODE_ADD, obj)

    def on_update(self, old: Node, new: Node) -> None:
        # Cordoning is a taint in all but name; what else changes about a node changes nobody's mind here.
        if old.spec != new.spec:
            self.hear(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), new)

    def on_delete(self, obj: Node) -> None:
        self.hear(NODE_DELETE, obj)

    def hear(self, happened: ClusterEvent, node: Node) -> None:
        for name in self.event_queue.move_all_to_active_or_backoff(happened):
            self.tell(f"{happened.label} {node.name}: {name} may fit now and is tried again")


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(9):
        await client.create(node(f"node{number}", unschedulable=True))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.sleep(3)
    await client.expect(pod="pod1", pending=True)
    client.log("node10 arrives")
    await client.create(node("node10"))
    await client.wait_for(pod="pod1", on_node="node10", timeout=5)
