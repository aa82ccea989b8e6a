"""Step 3: Score plugins, which choose among the feasible nodes.

A Score plugin gives each node points. The points of all plugins are added up and the node with the highest total wins.
Only ties are left to the dice. NodeNumber, the plugin of these lessons, prefers a node with the same number as the pod.
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
from kubesched.simulator.cluster import LogLine

expected = "pod1 goes to node1 and pod3 to node3"


class NodeNumber:
    """Prefers the node whose name ends in the same digit as the pod's name."""

    name = "NodeNumber"

    def score(self, pod: Pod, node: Node) -> int:
        return 10 if node.name[-1].isdecimal() and node.name[-1] == pod.name[-1] else 0


class Scheduler:
    """Puts each pod on the feasible node with the highest score."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        self.client = client
        self.random = random
        self.log = log
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
                    self.log(f"{pod.name}: {error} This pod is never tried again (step 6 changes that)")

    async def schedule_one(self, pod: Pod) -> None:
        feasible = self.run_filter_plugins(pod)
        scores = self.run_score_plugins(pod, feasible)
        self.log(f"{pod.name}: scores: {', '.join(f'{name} {score}' for name, score in scores.items())}")
        chosen = self.select_host(scores)
        await self.client.bind(pod, chosen)
        self.log(f"{pod.name}: bound to {chosen}")

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

    def run_score_plugins(self, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """Return each node's total score."""
        return {node.name: sum(plugin.score(pod, node) for plugin in self.score_plugins) for node in nodes}

    def select_host(self, scores: dict[str, int]) -> str:
        """Return the node with the highest score. Ties are broken at random."""
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
