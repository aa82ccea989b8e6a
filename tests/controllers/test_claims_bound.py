"""Claims against the embedded API server: what the scheduler writes is accepted, and comes back by the watch."""

from __future__ import annotations

from tests.controllers.world import World, world

from kubesched.api.devices import FINALIZER
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON

CLASSES = "resource.k8s.io/deviceclasses"
SLICES = "resource.k8s.io/resourceslices"
CLAIMS = "resource.k8s.io/resourceclaims"
PODS = "/pods"


def devices(here: World, node: str) -> None:
    """A class that stands behind an extended resource, and two devices of it on one node."""
    here.create(CLASSES, "gpu", {"extendedResourceName": "example.com/gpu"})
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    here.create(SLICES, "s", {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": listed})


def container(**resources: object) -> JSON:
    return {"name": "c", "image": "busybox", "resources": resources}


def bound(here: World, name: str) -> str:
    return str(here.get(PODS, name)["spec"].get("nodeName", ""))


@virtual_time
async def test_a_claim_is_written_as_the_api_server_wants_it(clock: VirtualClock) -> None:
    """Allocation, reservation and finalizer pass validation, and the pod is bound to the node of its device."""
    async with world(clock, nodes=2) as here:
        await here.ready()
        devices(here, "node-1")
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        here.create(CLAIMS, "c", {"devices": {"requests": [request]}})
        spec = {
            "containers": [container(claims=[{"name": "gpu"}])],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        }
        here.create(PODS, "p", spec)
        await here.until(lambda: bound(here, "p") != "")
        assert bound(here, "p") == "node-1"
        claim = here.get(CLAIMS, "c")
        assert [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]] == ["gpu-0"]
        assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]
        assert claim["metadata"]["finalizers"] == [FINALIZER]


@virtual_time
async def test_a_claim_for_extended_resources_is_created(clock: VirtualClock) -> None:
    """The scheduler creates the claim, and the pod's status says which request serves which container."""
    async with world(clock, nodes=2) as here:
        await here.ready()
        devices(here, "node-1")
        amounts = {"example.com/gpu": "2"}
        here.create(PODS, "p", {"containers": [container(requests=amounts, limits=amounts)]})
        await here.until(lambda: bound(here, "p") != "")
        assert bound(here, "p") == "node-1"
        (name,) = here.names(CLAIMS)
        assert name.startswith("p-extended-resources-")
        status = here.get(PODS, "p")["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == name
        assert status["requestMappings"] == [
            {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        ]
