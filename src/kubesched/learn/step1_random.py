"""Step 1: a scheduler that throws dice.

A scheduler is a program that watches for pods without a node. It chooses a node for each pod and tells the API server,
which is called binding. All the rest is about choosing well. This scheduler does not even try: it picks any node.
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
from kubesched.simulator.cluster import LogLine

expected = "pod1 gets a node; which one is luck (and depends on --seed)"


class NewPods:
    """Passes on new pods that need a node. An informer calls it for every change to a pod."""

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
    """Takes one pod at a time and puts it on any node."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        self.client = client
        self.random = random
        self.log = log
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        # An informer keeps a local copy of all objects of one kind, always up to date.
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
        self.log(f"{pod.name}: {len(nodes)} nodes to choose from")
        if not nodes:
            self.log(f"{pod.name}: there are no nodes. This pod is never tried again (step 6 changes that)")
            return
        chosen = self.random.choice(nodes)
        await self.client.bind(pod, chosen.name)
        self.log(f"{pod.name}: the dice chose {chosen.name}")


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(10):
        await client.create(node(f"node{number}"))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.sleep(4)
    await client.expect(pod="pod1", pending=False)
