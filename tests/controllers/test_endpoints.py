"""Endpoints and EndpointSlices list the pods behind a Service."""

from __future__ import annotations

from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.endpoints import ZONE
from kubesched.reconcile.access import DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES, STATEFUL_SETS


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


@virtual_time
async def test_members_find_one_another_before_they_are_ready(clock: VirtualClock) -> None:
    """A headless service of a StatefulSet lists pods by name, with their zones, as soon as they have addresses."""
    async with world(clock) as w:
        pod = template("web", annotations={"kubesched.io/not-ready": "true"})
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": "web"}}
        w.create(SERVICES, "web", {**spec, "ports": [{"port": 80, "appProtocol": "http"}]})
        w.create(STATEFUL_SETS, "web", {**workload("web", 1, pod=pod), "serviceName": "web"})
        for each in w.names(NODES):
            w.access.edit(NODES, each, lambda obj: obj["metadata"]["labels"].update({ZONE: "a"}))
        await w.until(lambda: len(w.running(app="web")) == 1)
        await clock.advance(2)
        (found,) = _slice(w)["endpoints"]
        assert found["conditions"] == {"ready": True, "serving": False, "terminating": False}
        assert (found["hostname"], found["zone"]) == ("web-0", "a")
        assert _slice(w)["ports"][0]["appProtocol"] == "http"
        (address,) = w.get(ENDPOINTS, "web")["subsets"][0]["addresses"]
        assert address["hostname"] == "web-0"
        w.access.edit(SERVICES, "default/web", lambda obj: obj["metadata"].update(labels={"team": "x"}))
        await clock.advance(2)
        for labels in (_slice(w)["metadata"]["labels"], w.get(ENDPOINTS, "web")["metadata"]["labels"]):
            assert (labels["team"], labels["service.kubernetes.io/headless"]) == ("x", "")
