"""What the scheduler logs about a pod, and the cache debugger."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time

LIFE = [
    (3, "Add event for unscheduled pod", {"pod"}),
    (5, "Pod moved to an internal scheduling queue", {"pod", "event", "queue"}),
    (4, "About to try and schedule pod", {"pod"}),
    (3, "Attempting to schedule pod", {"pod"}),
    (4, "OpportunisticBatch no node hint available for pod", {"profile", "pod", "cycleCount"}),
    (4, "OpportunisticBatch set cycle state", {"pod", "profile", "cycleCount", "hintedNode", "chosenNode"}),
    (4, "OpportunisticBatch found unusable state", {"pod", "profile", "cycleCount", "reason"}),
    (3, "Attempting to bind pod to node", {"logger", "pod", "node"}),
    (5, "Finished binding for pod, can be expired", {"podKey", "pod"}),
    (2, "Successfully bound pod to node", {"pod", "node", "evaluatedNodes", "feasibleNodes"}),
    (3, "Add event for scheduled pod", {"pod"}),
    (3, "Delete event for unscheduled pod", {"pod"}),
    (4, "Update event for scheduled pod", {"pod"}),
]


@virtual_time
async def test_the_life_of_a_pod(clock: VirtualClock) -> None:
    """At verbosity 5 a pod's progress is logged with kube-scheduler's messages, order and keys."""
    async with world(clock, node("n1"), node("n2"), node("n3")) as here:
        here.create(pod("demo"))
        await here.settle()
        bound = here.pod("demo")
        here.api.update(replace(bound, status=replace(bound.status, phase="Running")))
        await here.settle()
        told = [line for line in here.log if getattr(line[2].get("pod"), "name", "") == "demo"]
        assert [(level, message, set(fields)) for level, message, fields in told] == LIFE
        (success,) = [fields for _, message, fields in told if message == "Successfully bound pod to node"]
        assert (success["evaluatedNodes"], success["feasibleNodes"]) == (3, 3)


@virtual_time
async def test_scores_are_logged_at_verbosity_ten(clock: VirtualClock) -> None:
    """At verbosity 10 each plugin's score for each node is logged in profile order, then the totals; below 10 nothing
    is.
    """
    async with world(clock, node("n1"), node("n2", cpu="8"), verbosity=10) as here:
        here.create(pod("demo", cpu="1"))
        await here.settle()
        told = [(message, fields) for level, message, fields in here.log if level == 10]
        given = [fields for message, fields in told if message == "Plugin scored node for pod"]
        totals = [fields for message, fields in told if message == "Calculated node's final score for pod"]
        assert [*given, *totals] == [fields for _, fields in told]
        names = [each.name for each in here.scheduler.profiles["default-scheduler"].engine.framework.scores]
        for node_name in ("n1", "n2"):
            plugins = [str(fields["plugin"]) for fields in given if fields["node"] == node_name]
            assert plugins == [name for name in names if name in plugins]
            assert {"NodeResourcesFit", "TaintToleration"} < set(plugins)
            (total,) = [fields["score"] for fields in totals if fields["node"] == node_name]
            assert total == sum(int(str(fields["score"])) for fields in given if fields["node"] == node_name)
        assert here.node_of("demo") == max(totals, key=lambda fields: int(str(fields["score"])))["node"] == "n2"
        here.log.clear()
        here.log.verbosity = 9
        here.create(pod("later", cpu="1"))
        await here.settle()
        assert here.node_of("later")
        assert not [message for _, message, _ in here.log if "score" in message]


@virtual_time
async def test_a_preemption_is_logged_step_by_step(clock: VirtualClock) -> None:
    """At verbosity 5 the dry run, the nodes that it tries, the victims, and pods that an event cannot help are logged;
    the profile's plugins at verbosity 2."""
    async with world(clock, node("n1", cpu="2")) as here:
        (plugins,) = [
            fields["Plugins"] for _, message, fields in here.log if message.startswith("the scheduler starts")
        ]
        assert isinstance(plugins, dict)
        assert plugins["PostFilter"]["Enabled"][-1] == {"Name": "DefaultPreemption", "Weight": 0}
        assert {"Name": "TaintToleration", "Weight": 3} in plugins["Score"]["Enabled"]
        here.create(pod("small", cpu="2"), pod("huge", cpu="9"))
        await here.settle()
        here.log.clear()
        small = here.pod("small")
        here.api.update(replace(small, metadata=replace(small.metadata, labels={"a": "b"})))
        await here.settle()
        unaffected = [fields["pod"] for _, message, fields in here.log if message.startswith("Event is not making")]
        assert [getattr(each, "name", "") for each in unaffected] == ["huge"]
        here.log.clear()
        here.create(pod("vip", cpu="2", priority=10))
        await here.settle()
        told = [(message, fields) for _, message, fields in here.log]
        (counts,) = [fields for message, fields in told if message == "Dry run the preemption"]
        assert (counts["potentialNodesNumber"], counts["pdbsNumber"], counts["offset"]) == (1, 0, 0)
        assert [fields["node"] for message, fields in told if message.startswith("Check the potential")] == ["n1"]
        victims = [fields["pod"] for message, fields in told if message.startswith("Pod is a potential")]
        assert [getattr(each, "name", "") for each in victims] == ["small"]


@virtual_time
async def test_a_quiet_log_stays_quiet(clock: VirtualClock) -> None:
    """At verbosity 0 a pod that is scheduled without problems is not logged."""
    async with world(clock, node("n1"), verbosity=0) as here:
        here.create(pod("demo"))
        await here.settle(5)
        assert here.node_of("demo") == "n1"
        assert list(here.log) == []


@virtual_time
async def test_the_inside_can_be_dumped_and_compared(clock: VirtualClock) -> None:
    """The dump contains every node and waiting pod; the comparison finds a pod that should not be in the cache."""
    async with world(clock, node("n1", cpu="1"), pod("there", node="n1"), check=False) as here:
        here.create(pod("big", cpu="2"))
        await here.settle()
        assert here.scheduler.debug()
        dumps = {message: fields for _, message, fields in here.log if message.startswith("Dump of")}
        assert "Node name: n1" in str(dumps["Dump of cached NodeInfo"]["nodes"])
        assert "name: there" in str(dumps["Dump of cached NodeInfo"]["nodes"])
        assert "name: big" in str(dumps["Dump of scheduling queue"]["pods"])
        here.scheduler.cluster.set(pod("ghost", node="n1"))
        assert not here.scheduler.debug()
        (mismatch,) = [fields for _, message, fields in here.log if message == "Cache mismatch"]
        assert mismatch["redundantPods"] == ["default.ghost"]


@virtual_time
async def test_a_failing_handler_does_not_stop_events(clock: VirtualClock) -> None:
    """An object that cannot be handled is logged, and later objects are handled normally."""
    async with world(clock, node("n1"), check=False) as here:
        here.create(pod("broken", cpu="a lot"), pod("fine"))
        await here.settle()
        assert any("Unexpected error while applying a change" in line for line in here.log.errors())
        assert here.node_of("fine") == "n1"
        assert isinstance(here.pod("broken"), api.Pod)


@virtual_time
async def test_hints_say_why(clock: VirtualClock) -> None:
    """At verbosity 5 the hints of the plugins that rejected a pod say why an event helps it or not; below 5 nothing."""
    async with world(clock, node("n1", cpu="1")) as here:
        for name in ("big", "huge"):
            here.create(pod(name, cpu="4"))
        await here.settle()
        here.log.clear()
        here.create(node("n2", cpu="2"))
        await here.settle()
        why = "node was created or updated, but it doesn't have enough resource(s) to accommodate this pod"
        told = [fields for level, message, fields in here.log if (level, message) == (5, why)]
        assert sorted(fields["pod"].name for fields in told) == ["big", "huge"]  # type: ignore[attr-defined]
        here.log.clear()
        here.log.verbosity = 4
        here.create(node("n3", cpu="2"))
        await here.settle()
        assert not [message for _, message, _ in here.log if message == why]


@virtual_time
async def test_the_resources_of_device_classes(clock: VirtualClock) -> None:
    """At verbosity 5 a class that comes, changes or goes is logged with the extended resources that it stands for."""
    async with world(clock) as here:
        spec = api.DeviceClass().spec
        spec = replace(spec, extended_resource_name="a.b/gpu")
        made = here.api.create(api.DeviceClass(metadata=api.ObjectMeta(name="gpu"), spec=spec))
        await here.settle()
        explicit = {"extendedResource": "a.b/gpu", "deviceClass": "gpu"}
        implicit = {"extendedResource": "deviceclass.resource.kubernetes.io/gpu", "deviceClass": "gpu"}
        assert [(message, fields) for _, message, fields in here.log if "deviceClass" in fields][1:] == [
            ("Updated extended resource cache for explicit mapping", explicit),
            ("Updated extended resource cache for default mapping", implicit),
            ("Updated device class mapping", explicit),
        ]
        here.log.clear()
        here.api.delete(made)
        await here.settle()
        assert [message for _, message, fields in here.log if "deviceClass" in fields] == [
            "DeviceClass deleted",
            "Removed extended resource from cache",
            "Removed device class",
        ]
