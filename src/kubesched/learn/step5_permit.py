"""Step 5: Permit plugins, which can make a pod wait, and binding in the background.

A node is chosen, but a Permit plugin may say "not yet": the other pods of a group must arrive first, or a quota must be
checked. One waiting pod must not hold up all the others. So everything after the decision runs in a task of its own,
called the binding cycle.
"""

from __future__ import annotations

import asyncio
from random import Random

from kubesched import Node, Pod, Status
from kubesched.base.clock import Clock
from kubesched.client.informer import Informer
from kubesched.client.protocol import Client
from kubesched.learn import step4_prescore
from kubesched.learn.step1_random import NewPods
from kubesched.learn.step2_filter import FitError, NodeUnschedulable
from kubesched.learn.step4_prescore import State
from kubesched.scheduler.waiting import WaitingPod, WaitingPods
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import LogLine

expected = "after 4 s pod1 is on node1 and pod9 still waits; 7 s later pod9 is on node9"


class NodeNumber(step4_prescore.NodeNumber):
    """Scores as in step 4, then makes the pod wait for as many seconds as the node's digit."""

    permit_timeout = 10.0

    def __init__(self, waiting: WaitingPods) -> None:
        self.waiting = waiting

    def permit(self, pod: Pod, node_name: str) -> float:
        """Return how long the pod may wait for `allow` before it is rejected; 0 means no waiting."""
        if not node_name[-1].isdecimal():
            return 0.0
        # In the original, a timer of 0 s can fire before the pod is registered as waiting. In one event loop it cannot.
        asyncio.get_running_loop().call_later(int(node_name[-1]), self.allow, pod)
        return self.permit_timeout

    def allow(self, pod: Pod) -> None:
        if (waiting := self.waiting.get(pod.uid)) is not None:
            waiting.allow(self.name)


class Scheduler:
    """Puts each pod on the feasible node with the highest score."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        self.client = client
        self.random = random
        self.log = log
        self.filter_plugins = [NodeUnschedulable()]
        self.waiting = WaitingPods()
        self.pre_score_plugins = self.score_plugins = self.permit_plugins = [NodeNumber(self.waiting)]
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
                    chosen = self.schedule_one(pod)
                    group.create_task(self.bind(pod, chosen))
                except FitError as error:
                    self.log(f"{pod.name}: {error} This pod is never tried again (step 6 changes that)")

    def schedule_one(self, pod: Pod) -> str:
        feasible = self.run_filter_plugins(pod)
        state: State = {}
        for plugin in self.pre_score_plugins:
            plugin.pre_score(state, pod, feasible)
        scores = self.run_score_plugins(state, pod, feasible)
        chosen = self.select_host(scores)
        timeouts = {plugin.name: plugin.permit(pod, chosen) for plugin in self.permit_plugins}
        waiting = WaitingPod(pod, {name: seconds for name, seconds in timeouts.items() if seconds})
        self.waiting.add(waiting)
        self.log(f"{pod.name}: {chosen} is best; waiting for {', '.join(waiting.pending_plugins) or 'no plugin'}")
        return chosen

    async def bind(self, pod: Pod, chosen: str) -> Status | None:
        """The binding cycle: wait until all Permit plugins agree, then bind."""
        waiting = self.waiting.get(pod.uid)
        status = await waiting.verdict() if waiting is not None and waiting.pending_plugins else None
        self.waiting.remove(pod.uid)
        if status is not None:
            self.log(f"{pod.name}: not permitted: {status.message}")
            return status
        await self.client.bind(pod, chosen)
        self.log(f"{pod.name}: bound to {chosen}")
        return None

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
    await client.create(pod("pod9"))
    await client.sleep(4)
    await client.expect(pod="pod1", on_node="node1")
    await client.expect(pod="pod9", pending=True)
    await client.sleep(7)
    await client.expect(pod="pod9", on_node="node9")
