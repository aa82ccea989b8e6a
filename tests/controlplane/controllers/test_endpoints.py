"""Endpoints and slices follow the pods behind a Service."""

from __future__ import annotations

from tests.controlplane.controllers.world import World, template, workload, world

from kubesched.client.clock import VirtualClock, virtual_time
from kubesched.client.protocol import JSON
from kubesched.controlplane.controllers.access import DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, SERVICES


def _slice(w: World) -> JSON:
    (name,) = (each for each in w.names(ENDPOINT_SLICES) if each.startswith("web-"))
    return w.get(ENDPOINT_SLICES, name)


@virtual_time
async def test_ready_pods_are_behind_their_service(clock: VirtualClock) -> None:
    """Both forms list the addresses of the pods, with a port looked up by its name; scaled to none, none."""
    async with world(clock) as w:
        ports = [{"name": "http", "containerPort": 8080}]
        pod = template("web", containers=[{"name": "main", "image": "nginx", "ports": ports}])
        w.create(DEPLOYMENTS, "web", workload("web", 2, pod=pod))
        w.create(SERVICES, "web", {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]})
        await w.until(lambda: len(w.running(app="web")) == 2)
        await clock.settle()
        addresses = sorted(pod["status"]["podIP"] for pod in w.running(app="web"))
        found = _slice(w)
        assert sorted(each["addresses"][0] for each in found["endpoints"]) == addresses
        assert found["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        (subset,) = w.get(ENDPOINTS, "web")["subsets"]
        assert sorted(each["ip"] for each in subset["addresses"]) == addresses
        w.edit(DEPLOYMENTS, "web", replicas=0)
        await clock.advance(2)
        assert _slice(w)["endpoints"] == []
        assert not w.get(ENDPOINTS, "web").get("subsets")


@virtual_time
async def test_they_go_with_their_service(clock: VirtualClock) -> None:
    """A deleted Service leaves neither form behind."""
    async with world(clock) as w:
        w.create(SERVICES, "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]})
        await clock.settle()
        w.delete(SERVICES, "web")
        await clock.settle()
        assert "web" not in w.names(ENDPOINTS)
        assert not [name for name in w.names(ENDPOINT_SLICES) if name.startswith("web-")]
