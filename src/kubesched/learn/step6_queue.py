"""Step 6: a scheduling queue, so that no pod is forgotten.

Until now a pod that fitted nowhere was lost. The queue keeps it, and has three parts. *Active* holds the pods to try
now. *Unschedulable* holds pods that fitted nowhere, with the names of the plugins that rejected them: trying again is
pointless until the cluster changes. *Backoff* holds pods whose attempt failed for another reason. They are tried again
after 1, 2, 4, ... seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from kubesched import Pod
from kubesched.base.clock import Clock
from kubesched.client.informer import Informer
from kubesched.client.protocol import ApiError, Client
from kubesched.learn.step1_random import NewPods
from kubesched.learn.step2_filter import FitError
from kubesched.learn.step5_permit import Scheduler as PermitScheduler
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import LogLine

expected = "node0 to node8 are cordoned: after 3 s pod1 has no node and waits in the queue, with the reason"

MAX_BACKOFF = 10.0


@dataclass
class QueuedPod:
    """A pod in the queue, with the history of its attempts."""

    pod: Pod
    attempts: int = 0
    failed_at: float = 0.0
    unschedulable_plugins: set[str] = field(default_factory=set)

    @property
    def backoff_ends(self) -> float:
        # The original never counts attempts, so every backoff takes one second.
        return self.failed_at + min(2.0 ** (self.attempts - 1), MAX_BACKOFF)


class SchedulingQueue:
    """Pods that need a node: active, backoff, unschedulable."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.active: deque[QueuedPod] = deque()
        self.backoff: list[QueuedPod] = []
        self.unschedulable: dict[str, QueuedPod] = {}
        self.ready = asyncio.Event()

    def add(self, pod: Pod) -> None:
        self.activate(QueuedPod(pod))

    def activate(self, queued: QueuedPod) -> None:
        self.active.append(queued)
        self.ready.set()

    async def pop(self) -> QueuedPod:
        while not self.active:
            self.ready.clear()
            await self.ready.wait()
        queued = self.active.popleft()
        queued.attempts += 1
        return queued

    def add_unschedulable(self, queued: QueuedPod, plugins: set[str]) -> None:
        queued.failed_at, queued.unschedulable_plugins = self.clock.monotonic(), plugins
        self.unschedulable[queued.pod.key] = queued

    def add_backoff(self, queued: QueuedPod) -> None:
        queued.failed_at = self.clock.monotonic()
        self.backoff.append(queued)

    async def flush_backoff(self) -> None:
        """Every second, move pods whose backoff is over to active. The original lacks this and loses such pods."""
        while True:
            await self.clock.sleep(1.0)
            done = [queued for queued in self.backoff if queued.backoff_ends <= self.clock.monotonic()]
            for queued in done:
                self.backoff.remove(queued)
                self.activate(queued)


Q = TypeVar("Q", bound=SchedulingQueue)


class Scheduler(PermitScheduler):
    """Chooses nodes as in step 5. New is the queue: where pods come from, and where they go after a failure."""

    def __init__(self, client: Client, clock: Clock, random: Random, log: LogLine) -> None:
        super().__init__(client, clock, random, log)
        self.clock = clock
        self.use(SchedulingQueue(clock))

    def use(self, queue: Q) -> Q:
        """Take pods from this queue from now on."""
        self.scheduling_queue: SchedulingQueue = queue
        self.pods = Informer(self.client, Pod, NewPods(queue.add), clock=self.clock, chance=self.random)
        return queue

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for work in (self.nodes.run(), self.pods.run(), self.scheduling_queue.flush_backoff()):
                group.create_task(work)
            while True:
                queued = await self.scheduling_queue.pop()
                self.log(f"{queued.pod.name}: attempt {queued.attempts}")
                try:
                    chosen = self.schedule_one(queued.pod)
                    group.create_task(self.bind_or_retry(queued, chosen))
                except FitError as error:
                    await self.handle_failure(queued, error)

    async def handle_failure(self, queued: QueuedPod, error: FitError) -> None:
        self.scheduling_queue.add_unschedulable(queued, error.plugins)
        self.log(f"{queued.pod.name}: {error} It is unschedulable because of {', '.join(sorted(error.plugins))}")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": str(error)}
        await self.client.patch_pod_status(queued.pod, {"status": {"conditions": [condition]}})

    async def bind_or_retry(self, queued: QueuedPod, chosen: str) -> None:
        try:
            rejected = await self.bind(queued.pod, chosen) is not None
        except (ApiError, OSError) as error:
            self.log(f"{queued.pod.name}: binding failed: {error}")
            rejected = True
        if rejected:
            self.scheduling_queue.add_backoff(queued)


scheduler = Scheduler


async def scenario(client: ScenarioClient) -> None:
    for number in range(9):
        await client.create(node(f"node{number}", unschedulable=True))
    await client.sleep(1)
    await client.create(pod("pod1"))
    await client.sleep(3)
    await client.expect(pod="pod1", pending=True, because="9 node(s) were unschedulable")
