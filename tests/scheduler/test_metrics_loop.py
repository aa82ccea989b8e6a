"""Logs, events and metrics of a running scheduler match kube-scheduler's."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from msgspec.structs import replace
from tests.builders import node, pod
from tests.scheduler.test_extending import Fake

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.protocol import ApiError
from kubesched.cluster.view import NodeInfo
from kubesched.config.load import load
from kubesched.framework.extender import Extender
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.logs import Logger
from kubesched.logs.formats import TextFormat
from kubesched.logs.output import Output
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.recorder import EventRecorder
from kubesched.testing.faulty_api import FaultyApi

LIFE = """
eventhandlers.go "Add event for unscheduled pod" pod
active_queue.go "Pod moved to an internal scheduling queue" pod event queue
schedule_one.go "About to try and schedule pod" pod
schedule_one.go "Attempting to schedule pod" pod
batch.go "OpportunisticBatch no node hint available for pod" profile pod cycleCount
default_binder.go "Attempting to bind pod to node" logger pod node
cache.go "Finished binding for pod, can be expired" podKey pod
schedule_one.go "Successfully bound pod to node" pod node evaluatedNodes feasibleNodes
eventhandlers.go "Add event for scheduled pod" pod
eventhandlers.go "Delete event for unscheduled pod" pod
eventhandlers.go "Update event for scheduled pod" pod
"""
"""File, message and keys, from the recorded log of a pod at verbosity 5."""


class Seen:
    """The output of a scheduler: log, events and metrics."""

    def __init__(self, clock: VirtualClock) -> None:
        self.api = FaultyApi(clock)
        self.metrics = Metrics(process=False)
        self.text = io.BytesIO()
        self.log = Logger(TextFormat(), Output(self.text), verbosity=5, now=clock.now)
        self.recorder = EventRecorder(self.api, clock, log=self.log, hostname="host")

    def lines(self, name: str) -> list[str]:
        """File, message and keys of the log lines about a pod."""
        found = []
        for line in self.text.getvalue().decode().splitlines():
            match = re.search(r' (\w+\.go):\d+\] ("[^"]*")(.*)', line)
            if match and f'pod="default/{name}"' in line:
                keys = re.findall(r" (\w+)=", match[3])
                found.append(" ".join((match[1], match[2], *keys)))
        return found

    def shown(self, name: str) -> list[dict[str, str]]:
        """The label values of a metric's samples."""
        return [s.labels for family in self.metrics.registry.collect() for s in family.samples if s.name == name]

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"scheduler_{name}", labels)


@asynccontextmanager
async def seen(clock: VirtualClock, *plugins: type[Plugin], extenders: Sequence[Extender] = ()) -> AsyncIterator[Seen]:
    here = Seen(clock)
    registry = in_tree_registry()
    for plugin in plugins:
        registry.add(plugin)
    tree: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in plugins]}}}],
    }
    configuration = load(tree, points=registry.points).config
    scheduler = build_scheduler(
        configuration,
        registry,
        here.api,
        clock,
        Random(0),
        recorder=here.recorder,
        log=here.log,
        metrics=here.metrics,
        extenders=extenders,
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
    """At verbosity 5 a pod produces the messages of the recorded log, in order and with the same keys."""
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
async def test_the_pause_after_a_failed_preemption_is_not_part_of_it(clock: VirtualClock) -> None:
    """The time that a preemption took ends when the API server has refused, not when the pod is tried again."""
    async with seen(clock) as here:
        here.api.create(node("n1", cpu="1"))
        here.api.create(pod("low", node="n1", cpu="1"))
        here.api.fail("delete_pod", ApiError(500, "InternalError", "not now"), times=2)
        here.api.create(pod("high", cpu="1", priority=10))
        await clock.advance(60)
        assert here.value("preemption_goroutines_execution_total", result="error") == 2
        assert here.value("preemption_goroutines_duration_seconds_sum", result="error") == 0


@virtual_time
async def test_what_is_counted(clock: VirtualClock) -> None:
    """The metrics of a pod that is scheduled and of one that is not."""
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
async def test_events_of_both_pods(clock: VirtualClock) -> None:
    """Both pods get an event with upstream's text."""
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


@virtual_time
async def test_plugins_are_counted_as_if_asked_about_each_node(clock: VirtualClock) -> None:
    """Filter counts evaluated nodes, Score feasible nodes, PreFilter and PreScore pods; skipped plugins are not
    counted.
    """
    async with seen(clock) as here:
        for name, cpu in ("n1", "4"), ("n2", "4"), ("n3", "1"):
            here.api.create(node(name, cpu=cpu))
        here.api.create(pod("web", cpu="2"))
        here.api.create(pod("big", cpu="50"))
        await clock.advance(1)

        def asked(plugin: str, point: str) -> float | None:
            labels = {"plugin": plugin, "extension_point": point, "profile": "default-scheduler"}
            return here.value("plugin_evaluation_total", **labels)

        assert asked("NodeResourcesFit", "PreFilter") == 2
        assert asked("NodeResourcesFit", "Filter") == 6
        assert asked("NodeName", "Filter") == 6
        assert asked("NodeResourcesFit", "PreScore") == 1
        assert asked("NodeResourcesFit", "Score") == 2
        assert asked("NodePorts", "PreFilter") is None
        assert asked("NodePorts", "Filter") is None
        assert asked("InterPodAffinity", "Score") is None


@virtual_time
async def test_after_a_pre_filter_rejection_later_plugins_do_not_count(clock: VirtualClock) -> None:
    """When PreFilter ends an attempt, later PreFilter plugins and all Filter plugins are not counted."""
    async with seen(clock) as here:
        here.api.create(node("n1"))
        here.api.create(pod("web", claims=("missing",)))
        await clock.advance(1)
        profile = "default-scheduler"
        shown = here.shown("scheduler_plugin_evaluation_total")
        counted = {(labels["extension_point"], labels["plugin"]) for labels in shown}
        assert ("PreFilter", "NodeResourcesFit") in counted
        assert {point for point, _ in counted} == {"PreFilter"}
        labels = {"extension_point": "PreFilter", "status": "UnschedulableAndUnresolvable", "profile": profile}
        assert here.value("framework_extension_point_duration_seconds_count", **labels) == 1
        labels = {"extension_point": "Filter", "status": "Success", "profile": profile}
        assert here.value("framework_extension_point_duration_seconds_count", **labels) is None


@virtual_time
async def test_one_cycle_in_ten_times_its_plugins(clock: VirtualClock) -> None:
    """Of eleven pods, the plugins of two are timed, at every point that they implement."""
    async with seen(clock) as here:
        for name in ("n1", "n2"):
            here.api.create(node(name, cpu="32"))
        for number in range(11):
            here.api.create(pod(f"web-{number}", cpu="1"))
        await clock.advance(1)

        def timed(plugin: str, point: str, status: str = "Success") -> float | None:
            labels = {"plugin": plugin, "extension_point": point, "status": status}
            return here.value("plugin_execution_duration_seconds_count", **labels)

        assert timed("DefaultBinder", "Bind") == 2
        assert timed("VolumeBinding", "PreFilter", "Skip") == 1  # it ignores pods like these, and is asked once
        assert timed("VolumeBinding", "Reserve") == 2
        assert timed("VolumeBinding", "PreBindPreFlight") == 2


@virtual_time
async def test_every_point_is_measured(clock: VirtualClock) -> None:
    """As upstream, points without plugins and PreBind without work are measured too."""
    async with seen(clock) as here:
        here.api.create(node("n1"))
        here.api.create(pod("web", cpu="1"))
        await clock.advance(1)
        shown = here.shown("scheduler_framework_extension_point_duration_seconds_count")
    assert {labels["extension_point"]: labels["status"] for labels in shown} == {
        "Sign": "Success",
        "PreFilter": "Success",
        "Filter": "Success",
        "Reserve": "Success",
        "Permit": "Success",
        "PreBindPreFlight": "Skip",
        "PreBind": "Success",
        "Bind": "Success",
        "PostBind": "Success",
    }


@virtual_time
async def test_a_cluster_without_nodes_repeats_no_numbers(clock: VirtualClock) -> None:
    """An attempt in which no plugin ran does not count the points of the previous attempt again."""
    async with seen(clock) as here:
        here.api.create(node("n1"))
        here.api.create(pod("web", cpu="1"))
        await clock.advance(1)
        here.api.delete(here.api.objects(api.Node)[0])
        here.api.create(pod("late", cpu="1"))
        await clock.advance(1)
        labels = {"extension_point": "PreFilter", "status": "Success", "profile": "default-scheduler"}
        assert here.value("framework_extension_point_duration_seconds_count", **labels) == 1


class Broken(Plugin):
    """Raises in Filter."""

    name = "Broken"

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        raise RuntimeError("no idea")


@virtual_time
async def test_a_failed_point_is_measured(clock: VirtualClock) -> None:
    """A plugin that raises counts as an error of its extension point and of the plugin."""
    async with seen(clock, Broken) as here:
        here.api.create(node("n1"))
        here.api.create(pod("web", cpu="1"))
        await clock.settle()
        labels = {"extension_point": "Filter", "status": "Error", "profile": "default-scheduler"}
        assert here.value("framework_extension_point_duration_seconds_count", **labels) == 1
        labels = {"plugin": "Broken", "extension_point": "Filter", "status": "Error"}
        assert here.value("plugin_execution_duration_seconds_count", **labels) == 1
        assert here.value("schedule_attempts_total", result="error", profile="default-scheduler") == 1


@virtual_time
async def test_extender_time_is_not_plugin_time(clock: VirtualClock) -> None:
    """With extenders the same points are measured, and none of them includes the extender's time."""
    extender = Fake(passes=["n1", "n2"], scores={"n1": 10}, seconds=2)
    async with seen(clock, extenders=[extender]) as here:
        for name in ("n1", "n2"):
            here.api.create(node(name, cpu="2"))
        here.api.create(pod("web", cpu="1"))
        here.api.create(pod("big", cpu="50"))
        await clock.advance(3)
        assert here.value("goroutines", operation="prioritizing_extender") == 1
        await clock.advance(30)
        assert here.value("goroutines", operation="prioritizing_extender") == 0
        for point, status in ("Filter", "Success"), ("PreScore", "Success"), ("Score", "Success"):
            labels = {"extension_point": point, "status": status, "profile": "default-scheduler"}
            assert here.value("framework_extension_point_duration_seconds_sum", **labels) == 0
        labels = {"extension_point": "PostFilter", "status": "Unschedulable", "profile": "default-scheduler"}
        assert here.value("framework_extension_point_duration_seconds_count", **labels) == 1
        labels = {"plugin": "NodeResourcesFit", "extension_point": "Score", "profile": "default-scheduler"}
        assert here.value("plugin_evaluation_total", **labels) == 2


@virtual_time
async def test_an_update_is_counted_as_what_it_is(clock: VirtualClock) -> None:
    """The handling of an update is also counted under its specific kind."""
    async with seen(clock) as here:
        here.api.create(node("n1", cpu="1"))
        here.api.create(pod("web", cpu="1"))
        here.api.create(pod("big", cpu="5"))
        await clock.advance(1)
        for name in ("web", "big"):
            old = here.api.get(api.Pod, f"default/{name}")
            assert old is not None
            here.api.update(replace(old, metadata=replace(old.metadata, labels={"a": "b"})))
        await clock.advance(1)
        for event in "AssignedPodUpdate", "AssignedPodUpdatePodLabel", "UnschedulablePodUpdatePodLabel":
            assert here.value("event_handling_duration_seconds_count", event=event) == 1
