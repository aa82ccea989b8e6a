"""Simulated kubelets: pods on nodes, the status of nodes, and reproducible runs."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, run_virtual, virtual_time
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.nodes import NodeSettings
from kubesched.kubelet.settings import KubeletSettings
from kubesched.reconcile.access import DEPLOYMENTS, NODES, PODS


def _pod(**spec: Any) -> JSON:
    made: JSON = template("x", **spec)["spec"]
    return made


def _phase(w: World, name: str = "p") -> str:
    return str(w.get(PODS, name)["status"]["phase"])


@virtual_time
async def test_a_bound_pod_starts_step_by_step(clock: VirtualClock) -> None:
    """Each step of starting is written, as on a real node."""
    async with world(clock) as w:
        steps: list[tuple[str, bool]] = []

        def look(_event: object) -> None:
            status = w.get(PODS, "p").get("status") or {}
            steps.append((status.get("phase", ""), bool(status.get("podIP"))))

        w.api.store.shelf(PODS).observers.append(look)
        w.create(PODS, "p", _pod())
        await w.until(lambda: _phase(w) == "Running")
        bound_and_later = steps[1:]
        assert bound_and_later == [("Pending", False), ("Pending", False), ("Pending", True), ("Running", True)]
        status = w.get(PODS, "p")["status"]
        (container,) = status["containerStatuses"]
        assert container["ready"]
        assert container["containerID"].startswith("containerd://")
        assert {each["type"]: each["status"] for each in status["conditions"]} == {
            "PodScheduled": "True",
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
        }


@virtual_time
async def test_the_events_are_those_that_describe_shows(clock: VirtualClock) -> None:
    """The events are in the usual order, and a second pod finds the image on the node."""
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", _pod())
        await w.until(lambda: _phase(w) == "Running")
        assert w.reasons("p") == ["Pulling", "Pulled", "Created", "Started"]
        w.create(PODS, "q", _pod())
        await w.until(lambda: _phase(w, "q") == "Running")
        assert w.reasons("q") == ["Pulled", "Created", "Started"]
        names = [name for image in w.get(NODES, "node-1")["status"]["images"] for name in image["names"]]
        assert "nginx:1.27" in names


@virtual_time
async def test_pods_that_end_do_so_in_their_time(clock: VirtualClock) -> None:
    """The run time comes from the annotation, a sleep command or the default; the exit code decides the phase."""
    async with world(clock) as w:
        spec = _pod(restartPolicy="Never")
        w.create(PODS, "p", spec, annotations={"kubesched.io/run-time": "1m"})
        w.create(PODS, "bad", spec, annotations={"kubesched.io/run-time": "2", "kubesched.io/exit-code": "4"})
        w.create(PODS, "default", spec)
        sleep = [{"name": "main", "image": "busybox", "command": ["sleep", "30"]}]
        w.create(PODS, "sleep", _pod(restartPolicy="Never", containers=sleep))
        await clock.advance(10)
        assert [_phase(w, name) for name in ("bad", "default", "sleep", "p")] == [
            "Failed",
            "Succeeded",
            "Running",
            "Running",
        ]
        state = w.get(PODS, "bad")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (4, "Error")
        await clock.advance(25)
        assert [_phase(w, name) for name in ("sleep", "p")] == ["Succeeded", "Running"]
        await clock.advance(30)
        assert _phase(w) == "Succeeded"


@virtual_time
async def test_a_failing_container_is_restarted_ever_later(clock: VirtualClock) -> None:
    """With OnFailure the container restarts with growing back-off, and restarts are counted."""
    async with world(clock) as w:
        failing = {"kubesched.io/run-time": "1s", "kubesched.io/exit-code": "1"}
        w.create(PODS, "p", _pod(restartPolicy="OnFailure"), annotations=failing)
        await clock.advance(5)
        (container,) = w.get(PODS, "p")["status"]["containerStatuses"]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        await clock.advance(80)
        assert w.get(PODS, "p")["status"]["containerStatuses"][0]["restartCount"] == 4


@virtual_time
async def test_a_deadline_fails_the_pod(clock: VirtualClock) -> None:
    """A pod fails when it exceeds its active deadline."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(activeDeadlineSeconds=20))
        await clock.advance(30)
        status = w.get(PODS, "p")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert "DeadlineExceeded" in w.reasons("p")


def _ready(w: World) -> JSON:
    found: JSON = next(each for each in w.get(PODS, "p")["status"]["conditions"] if each["type"] == "Ready")
    return found


@virtual_time
async def test_a_readiness_gate_holds_until_somebody_says_so(clock: VirtualClock) -> None:
    """The pod is ready only while the condition of its readiness gate is true."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(readinessGates=[{"conditionType": "a.b/c"}]))
        await w.until(lambda: _phase(w) == "Running")
        assert (_ready(w)["status"], _ready(w)["reason"]) == ("False", "ReadinessGatesNotReady")
        for status in ("True", "False"):
            condition = {"type": "a.b/c", "status": status}

            def edit(obj: JSON, new: JSON = condition) -> None:
                others = [each for each in obj["status"]["conditions"] if each["type"] != "a.b/c"]
                obj["status"]["conditions"] = [*others, new]

            w.access.edit_status(PODS, w.key(PODS, "p"), edit)
            await clock.settle()
            assert _ready(w)["status"] == status


@virtual_time
async def test_sidecars_and_debuggers_run(clock: VirtualClock) -> None:
    """A sidecar ends with the main containers, and a debug container starts at once."""
    async with world(clock) as w:
        setup, sidecar = {"name": "setup", "image": "x"}, {"name": "side", "image": "x", "restartPolicy": "Always"}
        pod = _pod(restartPolicy="Never", initContainers=[setup, sidecar])
        w.create(PODS, "p", pod, annotations={"kubesched.io/run-time": "60s"})
        await w.until(lambda: _phase(w) == "Running")
        states = [next(iter(each["state"])) for each in w.get(PODS, "p")["status"]["initContainerStatuses"]]
        assert states == ["terminated", "running"]

        def debug(obj: JSON) -> None:
            obj["spec"]["ephemeralContainers"] = [{"name": "debugger", "image": "busybox"}]

        w.access.edit(PODS, w.key(PODS, "p"), debug, "ephemeralcontainers")
        await clock.settle()
        (debugger,) = w.get(PODS, "p")["status"]["ephemeralContainerStatuses"]
        assert "running" in debugger["state"]
        await w.until(lambda: _phase(w) == "Succeeded")
        states = [next(iter(each["state"])) for each in w.get(PODS, "p")["status"]["initContainerStatuses"]]
        assert states == ["terminated", "terminated"]


@virtual_time
async def test_devices_come_and_go_with_the_capacity(clock: VirtualClock) -> None:
    """An extended resource in the capacity is allocatable at once, and gone when it is removed."""
    async with world(clock, nodes=1) as w:

        def device(node: JSON) -> None:
            node["status"]["capacity"] = {**own, "example.com/dongle": "4"}

        def none(node: JSON) -> None:
            node["status"]["capacity"] = own

        own = w.get(NODES, "node-1")["status"]["capacity"]
        w.access.edit_status(NODES, "node-1", device)
        await clock.settle()
        assert w.get(NODES, "node-1")["status"]["allocatable"]["example.com/dongle"] == "4"
        w.access.edit_status(NODES, "node-1", none)
        await clock.settle()
        assert "example.com/dongle" not in w.get(NODES, "node-1")["status"]["allocatable"]


@virtual_time
async def test_a_deleted_pod_goes_after_a_moment(clock: VirtualClock) -> None:
    """A deleted pod disappears when its containers have stopped, unless a finalizer holds it."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod())
        w.create(PODS, "held", _pod(), finalizers=["example.com/hold"])
        await w.until(lambda: _phase(w) == _phase(w, "held") == "Running")
        for name in ("p", "held"):
            w.delete(PODS, name)
        assert w.get(PODS, "p")["metadata"]["deletionGracePeriodSeconds"] == 30
        await clock.advance(1)
        assert w.names(PODS) == ["held"]
        assert "Killing" in w.reasons("p")
        w.access.edit(PODS, "default/held", lambda pod: pod["metadata"].pop("finalizers"))
        assert w.names(PODS) == []


@virtual_time
async def test_addresses_are_unique_and_used_again(clock: VirtualClock) -> None:
    """Addresses are unique, and those of deleted pods are reused."""
    async with world(clock, nodes=2) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 20))
        await w.until(lambda: len(w.running(app="web")) == 20)
        addresses = {pod["status"]["podIP"] for pod in w.running(app="web")}
        assert len(addresses) == 20
        w.edit(DEPLOYMENTS, "web", replicas=0)
        await clock.advance(2)
        w.create(PODS, "p", _pod())
        await w.until(lambda: _phase(w) == "Running")
        assert w.get(PODS, "p")["status"]["podIP"] in addresses


@virtual_time
async def test_a_pod_that_has_ended_gives_its_address_back(clock: VirtualClock) -> None:
    """The address of an ended pod is reused, also after a restart of the kubelets."""
    api = None
    for name in ("first", "second"):
        async with world(clock, nodes=1, api=api) as w:
            for number in range(2):
                w.create(PODS, f"{name}-{number}", _pod(restartPolicy="Never"))
                await clock.advance(10)
            w.create(PODS, f"{name}-stays", _pod())
            await clock.advance(10)
            api = w.api
            found = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in w.pods()}
    assert found == {
        "first-0": "10.244.0.2",
        "first-1": "10.244.0.2",
        "first-stays": "10.244.0.2",
        "second-0": "10.244.0.3",
        "second-1": "10.244.0.3",
        "second-stays": "10.244.0.3",
    }


@virtual_time
async def test_a_node_object_is_enough_for_a_node(clock: VirtualClock) -> None:
    """A Node with only a name is completed, and a given capacity is kept."""
    async with world(clock, nodes=0) as w:
        w.create(NODES, "plain")
        w.create(NODES, "large", status={"capacity": {"cpu": "64", "nvidia.com/gpu": "8"}})
        await w.ready()
        plain, large = w.get(NODES, "plain")["status"], w.get(NODES, "large")["status"]
        assert plain["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        assert (large["allocatable"]["cpu"], large["allocatable"]["nvidia.com/gpu"]) == ("64", "8")
        assert large["allocatable"]["memory"] == "8Gi"
        w.create(PODS, "p", _pod(nodeSelector={"kubernetes.io/hostname": "large"}))
        await w.until(lambda: _phase(w) == "Running")


def _history(seed: int) -> str:
    """Return a hash of everything that happens in a busy minute."""

    async def run(clock: VirtualClock) -> str:
        digest = hashlib.sha256()
        async with world(clock, settings=ClusterSettings(seed=seed)) as w:
            for shelf in w.api.store.shelves.values():
                shelf.observers.append(lambda event: digest.update(event.record.data))
            w.create(DEPLOYMENTS, "web", workload("web", 4))
            await clock.advance(10)
            w.edit(DEPLOYMENTS, "web", template=template("web", containers=[{"name": "m", "image": "i:2"}]))
            await clock.advance(50)
        return digest.hexdigest()

    return run_virtual(run)


def test_the_same_seed_gives_the_same_run() -> None:
    """Everything that is stored is the same in two runs with the same seed."""
    assert _history(5) == _history(5)
    assert _history(5) != _history(6)


@pytest.mark.parametrize("every_step", [True, False])
def test_with_or_without_every_step_the_end_is_the_same(every_step: bool) -> None:
    """The final status is the same whether or not all steps are written."""

    @virtual_time
    async def check(clock: VirtualClock) -> None:
        kubelet = KubeletSettings(every_step=every_step)
        async with world(clock, settings=ClusterSettings(kubelet=kubelet, seed=1)) as w:
            w.create(PODS, "p", _pod())
            await clock.advance(3)
            status = w.get(PODS, "p")["status"]
            assert (status["phase"], bool(status["podIP"]), bool(status["hostIP"])) == ("Running", True, True)
            assert len(status["conditions"]) == 5

    check()


@virtual_time
async def test_thousands_of_nodes_are_heard_from_less_often(clock: VirtualClock) -> None:
    """With many nodes the rate of heartbeats is bounded, and no node is considered lost."""
    settings = ClusterSettings(node=NodeSettings(heartbeat=10.0), events=False, seed=1)
    async with world(clock, nodes=1500, settings=settings) as w:
        renewed: list[object] = []
        w.api.store.shelf("coordination.k8s.io/leases").observers.append(renewed.append)
        await clock.advance(120)
        assert len(renewed) <= 120 * 101
        ready = [node for node in w.access.list(NODES) if not node["spec"].get("taints")]
        assert len(ready) == 1500
