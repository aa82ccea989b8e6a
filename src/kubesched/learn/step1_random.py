"""Step 1: a scheduler that throws dice.

A scheduler is a program that watches for pods without a node, chooses a node for each, and tells the API server: that
is called binding. Everything else is about choosing well. This one does not even try.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from kubesched import Node, Pod
from kubesched.base.clock import Clock
from kubesched.client.informer import Informer
from kubesched.client.protocol import Client
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import Tell

expected = "pod1 gets a node; which one is a matter of luck (and of --seed)"


class NewPods:
    """Is told by an informer what happens to pods, and hands on those that need a node."""

    def __init__(self, add: Callable[[Pod], None]) -> None:
        self.add = add

    def on_add(self, obj: Pod, is_initial_list: bool) -> None:
        if not obj.spec.node_name:
            self.add(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        pass

    def on_delete(self, obj: Pod) -> None:
        pass


class Scheduler:
    """Takes one pod after the other and puts it anywhere."""

    def __init__(self, client: Client, clock: Clock, random: Random, tell: Tell) -> None:
        self.client = client
        self.random = random
        self.tell = tell
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        # An informer is a copy of all objects of a kind that follows the API server.
        self.nodes = Informer(client, Node, clock=clock, chance=random)
        self.pods = Informer(client, Pod, NewPods(self.queue.put_nowait), clock=clock, chance=random)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            group.create_task(self.pods.run())
            while True:
                await self.schedule_one(await self.queue.get())

    async def schedule_one(self, pod: Pod) -> None:
        nodes = list(self.nodes.store.values())
        self.tell(f"{pod.name}: {len(nodes)} nodes to choose from")
        if not nodes:
            self.tell(f"{pod.name}: no node at all, and nobody will think of this pod again (step 6 will)")
            return
        chosen = self.random.choice(nodes)
        await self.client.bind(pod, chosen.name)
        self.tell(f"{pod.name}: the dice say {chosen.name}")


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(10):
        await client.create(node(f"node{number}"))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.sleep(4)
    await client.expect(pod="pod1", pending=False)
