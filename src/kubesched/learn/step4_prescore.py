"""Step 4: PreScore, which is asked once per pod instead of once per node.

Score is called for every node. What depends on the pod alone, here its digit, is worked out once before, in PreScore,
and put down in the cycle's state. That is a notebook which lives for one attempt to schedule one pod and then is
thrown away.
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

State = dict[str, object]
"""Notes from one extension point to the next; the real thing is kubesched.CycleState."""

expected = "as in step 3: pod1 goes to node1 and pod3 to node3; a pod without a digit goes anywhere"


class NodeNumber:
    """Prefers the node whose name ends in the same digit as the pod's."""

    name = "NodeNumber"
    key = "PreScoreNodeNumber"

    def pre_score(self, state: State, pod: Pod, nodes: list[Node]) -> None:
        if pod.name[-1].isdecimal():
            state[self.key] = int(pod.name[-1])

    def score(self, state: State, pod: Pod, node: Node) -> int:
        # The original fails here when the pod has no digit, and the pod is lost. No preference is no failure.
        digit = state.get(self.key)
        return 10 if node.name[-1].isdecimal() and int(node.name[-1]) == digit else 0


class Scheduler:
    """Puts pods on the node that its plugins like best, of those that none objects to."""

    def __init__(self, client: Client, clock: Clock, random: Random, tell: Tell) -> None:
        self.client = client
        self.random = random
        self.tell = tell
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
                    self.tell(f"{pod.name}: {error} Nobody will think of this pod again (step 6 will)")

    async def schedule_one(self, pod: Pod) -> None:
        feasible = self.run_filter_plugins(pod)
        state: State = {}
        for plugin in self.pre_score_plugins:
            plugin.pre_score(state, pod, feasible)
        self.tell(f"{pod.name}: PreScore noted {state or 'nothing'}")
        scores = self.run_score_plugins(state, pod, feasible)
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

    def run_score_plugins(self, state: State, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """The sum of all points of each node."""
        return {node.name: sum(plugin.score(state, pod, node) for plugin in self.score_plugins) for node in nodes}

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
    await client.create(pod("pod-without"))
    await client.sleep(4)
    await client.expect(pod="pod1", on_node="node1")
    await client.expect(pod="pod3", on_node="node3")
    await client.expect(pod="pod-without", pending=False)
