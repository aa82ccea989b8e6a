"""Volumes through the whole loop: a claim is bound with its pod, and the pod waits for it."""

from __future__ import annotations

import asyncio

from tests.builders import node, pod
from tests.scheduler.world import World, world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.scheduler.plugin_client import PluginClient

CLASS = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
CLAIM = {
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Pending"},
}
VOLUME = {
    "metadata": {"name": "disk"},
    "spec": {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "10Gi"},
        "volumeMode": "Filesystem",
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
                ]
            }
        },
    },
    "status": {"phase": "Available"},
}


def storage(here: World) -> None:
    """A storage class that waits for the first consumer, a claim of it, and a volume on the second node."""
    here.api.create(api.decode_as(api.StorageClass, {**CLASS, "volumeBindingMode": "WaitForFirstConsumer"}))
    here.api.create(api.decode_as(api.PersistentVolumeClaim, CLAIM))
    here.api.create(api.decode_as(api.PersistentVolume, VOLUME))


async def controller(here: World, seconds: float) -> None:
    """Acts as the volume controller: completes a binding that the scheduler began."""
    while True:
        await asyncio.sleep(seconds)
        volume = here.api.get(api.PersistentVolume, "disk")
        if volume is not None and volume.spec.claim_ref is not None:
            patch = {
                "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": "disk"},
                "status": {"phase": "Bound"},
            }
            await here.api.merge_patch(api.PersistentVolumeClaim, "data", patch, "default")
            return


@virtual_time
async def test_a_claim_is_bound_before_its_pod(clock: VirtualClock) -> None:
    """The pod goes to its volume's node, and is bound only after the controller has bound the claim."""
    async with world(clock, node("n1"), node("n2")) as here:
        storage(here)
        await here.settle()
        here.create(pod("web", claims=["data"]))
        await here.settle(5)
        assert here.node_of("web") == ""
        assert here.pod("web").nominated_node_name == "n2"
        work = asyncio.create_task(controller(here, 1))
        await here.settle(10)
        assert here.node_of("web") == "n2"
        await work


@virtual_time
async def test_written_objects_are_known_from_the_response(clock: VirtualClock) -> None:
    """A volume and a claim that were written are known from the response, before the watch delivers them."""
    async with world(clock, node("n1")) as here:
        storage(here)
        client = PluginClient(here.api, lambda pod: None)
        volume = here.api.get(api.PersistentVolume, "disk")
        claim = here.api.get(api.PersistentVolumeClaim, "default/data")
        assert volume is not None
        assert claim is not None
        reference = api.ObjectReference(namespace="default", name="data", uid=claim.uid)
        began = clock.monotonic()
        bound = await client.bind_volume("disk", reference, {"a": "b"}, volume.metadata.resource_version)
        noted = await client.annotate_claim("default", "data", {"c": "d"}, claim.metadata.resource_version)
        assert clock.monotonic() == began
        assert bound == here.api.get(api.PersistentVolume, "disk")
        assert bound.spec.claim_ref == reference
        assert noted == here.api.get(api.PersistentVolumeClaim, "default/data")
        assert noted.annotations["c"] == "d"


@virtual_time
async def test_a_claim_that_is_never_bound_sends_the_pod_back(clock: VirtualClock) -> None:
    """After the plugin's timeout the pod is retried, and the loop was not blocked."""
    async with world(clock, node("n1"), node("n2")) as here:
        storage(here)
        await here.settle()
        here.create(pod("web", claims=["data"]))
        await here.settle(5)
        here.create(pod("other"))
        await here.settle(1)
        assert here.node_of("other") != ""
        await here.settle(700)
        assert any("VolumeBinding" in note for name, note in here.events.of("FailedScheduling") if name == "web")
        work = asyncio.create_task(controller(here, 1))
        await here.settle(60)
        assert here.node_of("web") == "n2"
        await work


@virtual_time
async def test_failures_are_counted(clock: VirtualClock) -> None:
    """A failed write of a volume counts as an error of the stage "bind"."""
    async with world(clock, node("n1"), node("n2")) as here:
        storage(here)
        counted: list[str] = []
        here.scheduler.shared.metrics.volume_error = counted.append  # type: ignore[assignment,method-assign]  # counts nothing
        here.api.fail("merge_patch", times=1)
        here.create(pod("web", claims=["data"]))
        await here.settle(5)
        assert counted == ["bind"]
        work = asyncio.create_task(controller(here, 1))
        await here.settle(60)
        await work
