"""Step 2: Filter plugins, which rule nodes out.

Some nodes cannot run a pod: they are too small, tainted, or, as here, cordoned. A Filter plugin looks at a pod and one
node, and may reject the node with a reason. The nodes that no plugin rejects are called feasible. Among those, the dice
still decide.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from kubesched import Node, Pod, Status, unresolvable
from kubesched.base.clock import Clock
from kubesched.client.informer import Informer
from kubesched.client.protocol import Client
from kubesched.learn.step1_random import NewPods
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import LogLine

expected = "node0 to node9 are cordoned, so pod1 goes to node10"


class NodeUnschedulable:
    """Rejects nodes that were cordoned with `kubectl cordon`."""

    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node) -> Status | None:
        return unresolvable("node(s) were unschedulable") if node.spec.unschedulable else None


class FitError(Exception):
    """No node is feasible. The message gives the reasons, as `kubectl describe pod` shows them."""

    def __init__(self, nodes: int, statuses: dict[str, Status]) -> None:
        reasons = Counter(reason for status in statuses.values() for reason in status.reasons)
        summary = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
        super().__init__(f"0/{nodes} nodes are available: {summary}.")
        self.plugins = {status.plugin for status in statuses.values()}


class Scheduler:
    """Puts each pod on any feasible node."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        self.client = client
        self.random = random
        self.log = log
        self.filter_plugins = [NodeUnschedulable()]
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        self.nodes = Informer(client, Node, clock=clock, chance=random)
        self.pods = Informer(client, Pod, NewPods(self.queue.put_nowait), clock=clock, chance=random)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            group.create_task(self.pods.run())
            while True:
                pod = await self.queue.get()
                try:
                    await self.schedule_one(pod)
                except FitError as error:
                    self.log(f"{pod.name}: {error} This pod is never tried again (step 6 changes that)")

    async def schedule_one(self, pod: Pod) -> None:
        feasible = self.run_filter_plugins(pod)
        self.log(f"{pod.name}: feasible: {', '.join(each.name for each in feasible)}")
        chosen = self.random.choice(feasible)
        await self.client.bind(pod, chosen.name)
        self.log(f"{pod.name}: bound to {chosen.name}")

    def run_filter_plugins(self, pod: Pod) -> list[Node]:
        """Return the nodes that pass all Filter plugins. The first rejection of a node is enough."""
        nodes = list(self.nodes.store.values())
        statuses: dict[str, Status] = {}
        for each in nodes:
            for plugin in self.filter_plugins:
                status = plugin.filter(pod, each)
                if status is not None:
                    statuses[each.name] = status.by(plugin.name)
                    break
        feasible = [each for each in nodes if each.name not in statuses]
        if not feasible:
            raise FitError(len(nodes), statuses)
        return feasible


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(10):
        await client.create(node(f"node{number}", unschedulable=True))
    await client.create(node("node10"))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.sleep(4)
    await client.expect(pod="pod1", on_node="node10")
