"""Step 4: PreScore, which runs once per pod instead of once per node.

Score is called for every node. A value that depends only on the pod, here its last digit, should be computed once. That
is the job of PreScore. It stores the value in the cycle state, a notebook for one attempt to schedule one pod. The next
attempt gets a new one.
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

State = dict[str, object]
"""Data that one extension point passes to the next. Real plugins get a kubesched.CycleState."""

expected = "as in step 3, pod1 goes to node1 and pod3 to node3; a pod without a digit goes anywhere"


class NodeNumber:
    """Prefers the node whose name ends in the same digit as the pod's name."""

    name = "NodeNumber"
    key = "PreScoreNodeNumber"

    def pre_score(self, state: State, pod: Pod, nodes: list[Node]) -> None:
        if pod.name[-1].isdecimal():
            state[self.key] = int(pod.name[-1])

    def score(self, state: State, pod: Pod, node: Node) -> int:
        # In the original, Score fails for a pod without a digit, and the pod is lost. Here it has no preference.
        digit = state.get(self.key)
        return 10 if node.name[-1].isdecimal() and int(node.name[-1]) == digit else 0


class Scheduler:
    """Puts each pod on the feasible node with the highest score."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        self.client = client
        self.random = random
        self.log = log
        self.filter_plugins = [NodeUnschedulable()]
        self.pre_score_plugins = self.score_plugins = [NodeNumber()]
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
        state: State = {}
        for plugin in self.pre_score_plugins:
            plugin.pre_score(state, pod, feasible)
        self.log(f"{pod.name}: PreScore stored {state or 'nothing'}")
        scores = self.run_score_plugins(state, pod, feasible)
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

    def run_score_plugins(self, state: State, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """Return each node's total score."""
        return {node.name: sum(plugin.score(state, pod, node) for plugin in self.score_plugins) for node in nodes}

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
    await client.create(pod("pod-without"))
    await client.sleep(4)
    await client.expect(pod="pod1", on_node="node1")
    await client.expect(pod="pod3", on_node="node3")
    await client.expect(pod="pod-without", pending=False)
