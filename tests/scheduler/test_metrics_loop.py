"""Log, events and metrics of a running scheduler: what people see of it is what they know from kube-scheduler."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from tests.builders import node, pod

from kubesched.client.clock import VirtualClock, virtual_time
from kubesched.client.fake import InProcessApi
from kubesched.config.load import load
from kubesched.logs import Logger
from kubesched.logs.formats import TextFormat
from kubesched.logs.output import Output
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.scheduler import Scheduler

LIFE = """
eventhandlers.go "Add event for unscheduled pod" pod
active_queue.go "Pod moved to an internal scheduling queue" pod event queue
schedule_one.go "About to try and schedule pod" pod
schedule_one.go "Attempting to schedule pod" pod
default_binder.go "Attempting to bind pod to node" logger pod node
cache.go "Finished binding for pod, can be expired" podKey pod
schedule_one.go "Successfully bound pod to node" pod node evaluatedNodes feasibleNodes
eventhandlers.go "Add event for scheduled pod" pod
eventhandlers.go "Delete event for unscheduled pod" pod
eventhandlers.go "Update event for scheduled pod" pod
"""
"""File, message and keys, from the transcript of a pod's life at verbosity 5."""


class Seen:
    """What a scheduler has let people see."""

    def __init__(self, clock: VirtualClock) -> None:
        self.api = InProcessApi(clock)
        self.metrics = Metrics(process=False)
        self.text = io.BytesIO()
        self.log = Logger(TextFormat(), Output(self.text), verbosity=5, now=clock.now)
        self.recorder = EventRecorder(self.api, clock, log=self.log, hostname="host")

    def lines(self, name: str) -> list[str]:
        """File, message and keys of what was said of a pod."""
        found = []
        for line in self.text.getvalue().decode().splitlines():
            match = re.search(r' (\w+\.go):\d+\] ("[^"]*")(.*)', line)
            if match and f'pod="default/{name}"' in line:
                keys = re.findall(r" (\w+)=", match[3])
                found.append(" ".join((match[1], match[2], *keys)))
        return found

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"scheduler_{name}", labels)


@asynccontextmanager
async def seen(clock: VirtualClock) -> AsyncIterator[Seen]:
    here = Seen(clock)
    registry = in_tree_registry()
    tree: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    configuration = load(tree, points=registry.points).config
    scheduler = Scheduler(
        configuration,
        registry,
        here.api,
        clock,
        Random(0),
        recorder=here.recorder,
        log=here.log,
        metrics=here.metrics,
    )
    running = [asyncio.create_task(scheduler.run()), asyncio.create_task(here.recorder.run())]
    try:
        await clock.settle()
        yield here
    finally:
        await scheduler.stop()
        running[1].cancel()
        await asyncio.gather(*running, return_exceptions=True)


@virtual_time
async def test_the_life_of_a_pod(clock: VirtualClock) -> None:
    """At verbosity 5 a pod's life gives the messages of the transcript, in their order, with their keys."""
    async with seen(clock) as here:
        here.api.create(node("n1"))
        here.api.create(pod("web", cpu="1"))
        await clock.advance(1)
        running = here.api.objects(type(pod()))[0]
        here.api.update(
            type(running)(metadata=running.metadata, spec=running.spec, status=type(running.status)("Running"))
        )
        await clock.advance(1)
    expected = LIFE.strip().splitlines()
    lines = [line for line in here.lines("web") if line in expected]
    assert lines == expected


@virtual_time
async def test_what_is_counted(clock: VirtualClock) -> None:
    """A pod that is scheduled and one that is not, in numbers."""
    async with seen(clock) as here:
        here.api.create(node("n1", cpu="2"))
        here.api.create(pod("web", cpu="1"))
        here.api.create(pod("big", cpu="50"))
        await clock.advance(1)
        profile = "default-scheduler"
        assert here.value("schedule_attempts_total", result="scheduled", profile=profile) == 1
        assert here.value("schedule_attempts_total", result="unschedulable", profile=profile) == 1
        assert here.value("pod_scheduling_attempts_count") == 1
        assert here.value("pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
        assert here.value("pending_pods", queue="unschedulable") == 1
        assert here.value("pending_pods", queue="active") == 0
        assert here.value("unschedulable_pods", plugin="NodeResourcesFit", profile=profile) == 1
        assert here.value("queue_incoming_pods_total", queue="active", event="UnschedulablePodAdd") == 2
        assert here.value("goroutines", operation="binding") == 0


@virtual_time
async def test_what_is_told(clock: VirtualClock) -> None:
    """Both pods have an event in upstream's words."""
    async with seen(clock) as here:
        here.api.create(node("n1", cpu="2"))
        here.api.create(pod("web", cpu="1"))
        here.api.create(pod("big", cpu="50"))
        await clock.advance(1)
    told = {event["regarding"]["name"]: event for event in here.api.events}
    assert told["web"]["note"] == "Successfully assigned default/web to n1"
    assert (told["web"]["reason"], told["web"]["action"], told["web"]["type"]) == ("Scheduled", "Binding", "Normal")
    assert told["big"]["note"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert (told["big"]["reason"], told["big"]["action"]) == ("FailedScheduling", "Scheduling")
    assert told["big"]["reportingInstance"] == "default-scheduler-host"
