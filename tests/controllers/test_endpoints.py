"""Endpoints and EndpointSlices list the pods behind a Service."""

from __future__ import annotations

from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.reconcile.access import DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES


def _slice(w: World) -> JSON:
    (name,) = (each for each in w.names(ENDPOINT_SLICES) if each.startswith("web-"))
    return w.get(ENDPOINT_SLICES, name)


@virtual_time
async def test_ready_pods_are_behind_their_service(clock: VirtualClock) -> None:
    """Both kinds list the pods' addresses, resolve named ports, and are empty when there are no pods."""
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
async def test_a_pod_that_is_not_ready_gets_no_traffic(clock: VirtualClock) -> None:
    """Both kinds list an unready pod as not ready, and as ready again later."""

    def say(ready: str) -> None:
        def edit(obj: JSON) -> None:
            for condition in obj["status"]["conditions"]:
                if condition["type"] == "Ready":
                    condition["status"] = ready

        w.access.edit(PODS, pod, edit, "status")

    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 1))
        w.create(SERVICES, "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]})
        await w.until(lambda: len(w.running(app="web")) == 1)
        pod = f"default/{w.running(app='web')[0]['metadata']['name']}"
        for ready, listed in (("False", {"notReadyAddresses", "ports"}), ("True", {"addresses", "ports"})):
            say(ready)
            await clock.advance(1)
            (subset,) = w.get(ENDPOINTS, "web")["subsets"]
            (endpoint,) = _slice(w)["endpoints"]
            assert set(subset) == listed
            assert (endpoint["conditions"]["ready"], endpoint["conditions"]["serving"]) == (ready == "True",) * 2


@virtual_time
async def test_they_go_with_their_service(clock: VirtualClock) -> None:
    """Deleting a Service deletes both objects."""
    async with world(clock) as w:
        w.create(SERVICES, "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]})
        await clock.settle()
        w.delete(SERVICES, "web")
        await clock.settle()
        assert "web" not in w.names(ENDPOINTS)
        assert not [name for name in w.names(ENDPOINT_SLICES) if name.startswith("web-")]
