"""Step 3: Score, which says where a pod goes best.

Of the feasible nodes one is the best. A Score plugin gives a node points, the points of all plugins are added up, and
the highest sum wins; only ties are left to the dice. NodeNumber, the plugin of these lessons, is fond of equal
numbers.
"""

from __future__ import annotations

import asyncio
from random import Random

from kubesched import Node, Pod, Status
from kubesched.base.clock import Clock
from kubesched.client.informer import Informer
from kubesched.client.protocol import Client
from kubesched.learn.step1_random import NewPods
from kubesched.learn.step2_filter import FitError, NodeUnschedulable
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import Tell

expected = "pod1 goes to node1 and pod3 to node3"


class NodeNumber:
    """Prefers the node whose name ends in the same digit as the pod's."""

    name = "NodeNumber"

    def score(self, pod: Pod, node: Node) -> int:
        return 10 if node.name[-1].isdecimal() and node.name[-1] == pod.name[-1] else 0


class Scheduler:
    """Puts pods on the node that its plugins like best, of those that none objects to."""

    def __init__(self, client: Client, clock: Clock, random: Random, tell: Tell) -> None:
        self.client = client
        self.random = random
        self.tell = tell
        self.filter_plugins = [NodeUnschedulable()]
        self.score_plugins = [NodeNumber()]
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
                    self.tell(f"{pod.name}: {error} Nobody will think of this pod again (step 6 will)")

    async def schedule_one(self, pod: Pod) -> None:
        feasible = self.run_filter_plugins(pod)
        scores = self.run_score_plugins(pod, feasible)
        self.tell(f"{pod.name}: scores: {', '.join(f'{name} {score}' for name, score in scores.items())}")
        chosen = self.select_host(scores)
        await self.client.bind(pod, chosen)
        self.tell(f"{pod.name}: bound to {chosen}")

    def run_filter_plugins(self, pod: Pod) -> list[Node]:
        """The nodes that no plugin objects to. The first objection to a node is the one that counts."""
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

    def run_score_plugins(self, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """The sum of all points of each node."""
        return {node.name: sum(plugin.score(pod, node) for plugin in self.score_plugins) for node in nodes}

    def select_host(self, scores: dict[str, int]) -> str:
        """The best node; of several that are, any."""
        highest = max(scores.values())
        return self.random.choice([name for name, score in scores.items() if score == highest])


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(10):
        await client.create(node(f"node{number}"))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.create(pod("pod3"))
    await client.sleep(4)
    await client.expect(pod="pod1", on_node="node1")
    await client.expect(pod="pod3", on_node="node3")
