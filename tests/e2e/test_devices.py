"""Devices with the real kube-scheduler and with kubesched: the same allocations and messages in the API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.e2e.api import JSON, Api, condition, node_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, start
from tests.e2e.waiting import until

DRIVER = "gpu.example.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def resource(kind: str, name: str, spec: JSON) -> JSON:
    """An object of resource.k8s.io."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(name: str, *requests: JSON, **more: Any) -> JSON:
    """A claim in the default namespace."""
    made = resource("ResourceClaim", name, {"devices": {"requests": list(requests), **more}})
    made["metadata"]["namespace"] = "default"
    return made


def exactly(name: str = "r", **fields: Any) -> JSON:
    """A request for devices."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def model(name: str) -> list[JSON]:
    """Selects devices of a model."""
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{name}"'}}]


def user(name: str, *claims: str) -> JSON:
    """A pod with claims by name."""
    made = pod(name, cpu="100m")
    made["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
    return made


def devices(node_name: str, *models: str, **last: Any) -> JSON:
    """The devices of a node; the last one has further fields."""
    made: list[JSON] = [{"name": f"d{n}", "attributes": {"model": {"string": each}}} for n, each in enumerate(models)]
    made[-1].update(last)
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": made}
    return resource("ResourceSlice", node_name, spec)


def bound(api: Api, *pods: JSON) -> None:
    """Create pods one after the other; each is bound."""
    for each in pods:
        api.create(each)
        name = each["metadata"]["name"]
        until(lambda name=name: node_of(api.pod(name)), f"{name} is bound")  # type: ignore[misc]


def furnish(api: Api) -> None:
    """Devices, and every way to ask for them that needs no driver. All of it is there before the scheduler, which could
    see a pod before the devices otherwise."""
    api.create(node("n1"), node("n2"))
    selector = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    api.create(resource("DeviceClass", "gpu", {"selectors": selector, "extendedResourceName": "example.com/gpu"}))
    taint = [{"key": "broken", "effect": "NoSchedule"}]
    api.create(devices("n1", "a", "a", "b", "b"), devices("n2", "c", "d", "d", taints=taint))
    api.create(
        claim("pair", exactly(count=2, selectors=model("a")), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    )
    options = [{"name": each, "deviceClassName": "gpu", "selectors": model(each)} for each in ("none", "b", "c")]
    api.create(claim("list", {"name": "r", "firstAvailable": options}))
    toleration = [{"key": "broken", "operator": "Exists"}]
    api.create(claim("broken", exactly(selectors=model("d"), count=2, tolerations=toleration)))
    api.create(claim("shared", exactly(selectors=model("c"))), claim("never", exactly(selectors=model("x"))))


def scenario(api: Api) -> None:
    """Pods for all the claims."""
    bound(api, user("pair", "pair"), user("list", "list"), user("broken", "broken"))
    bound(api, user("shares-1", "shared"), user("shares-2", "shared"))
    classic = pod("classic", cpu="100m")
    amounts = {"cpu": "100m", "example.com/gpu": "1"}
    classic["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": {"example.com/gpu": "1"}}
    bound(api, classic)
    api.create(user("never", "never"))
    until(lambda: condition(api.pod("never")).get("reason"), "never is turned down")


ALPHA_GATES = "--feature-gates=" + ",".join(
    f"{gate}=true" for gate in ("DRADeviceTaintRules", "DRAListTypeAttributes", "DRANodeAllocatableResources")
)
SERVED = "--runtime-config=resource.k8s.io/v1beta2=true"


def alpha_furnish(api: Api) -> None:
    """Lists as attributes, devices that stand for CPUs, and a rule that taints devices, in one cluster."""
    api.create(node("n1", cpu="8"), node("n2", cpu="4"))
    api.create(resource("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}))
    numa = [{"ints": [0]}, {"ints": [0, 1]}, {"ints": [1]}, {"ints": [2]}]
    mapping = {"cpu": {"allocationMultiplier": "2"}}
    for name, count in (("n1", 4), ("n2", 2)):
        made = devices(name, *["a"] * count)
        for each, values in zip(made["spec"]["devices"], numa, strict=False):
            each["attributes"]["numa"] = values
            each["nodeAllocatableResourceMappings"] = mapping
        api.create(made)
    rule = {"taint": {"key": "broken", "effect": "NoSchedule"}, "deviceSelector": {"pool": "n1", "device": "d0"}}
    body = {**resource("DeviceTaintRule", "broken", rule), "apiVersion": "resource.k8s.io/v1beta2"}
    api.post("/apis/resource.k8s.io/v1beta2/devicetaintrules", body)
    api.create(
        claim("near", exactly(count=2, selectors=numa_node(1))), claim("second", exactly(selectors=numa_node(2)))
    )
    api.create(
        claim("far", exactly(count=3, selectors=numa_node(1))), claim("third", exactly()), claim("fourth", exactly())
    )


def alpha_scenario(api: Api) -> None:
    """Pods for all the claims."""
    bound(api, taker("near"), taker("second"))
    api.create(pod("plain", cpu="3", nodeSelector={"kubernetes.io/hostname": "n1"}))
    until(lambda: condition(api.pod("plain")).get("reason"), "plain is turned down")
    bound(api, taker("third"))
    for name in ("far", "fourth"):
        api.create(taker(name))
        until(lambda name=name: condition(api.pod(name)).get("reason"), f"{name} is turned down")  # type: ignore[misc]


def numa_node(number: int) -> list[JSON]:
    """Selects devices near a NUMA node. In constraints, kube-scheduler 1.36.3 cannot compare lists."""
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].numa.includes({number})'}}]


def taker(name: str) -> JSON:
    """A pod whose container uses the claim of the same name."""
    made = user(name, name)
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": name}]
    return made


def allocated(claim: JSON) -> JSON:
    """What a scheduler wrote to a claim, without generated names, identities and times."""
    status = claim.get("status") or {}
    allocation = {key: value for key, value in (status.get("allocation") or {}).items() if key != "allocationTimestamp"}
    reserved = sorted(each["name"] for each in status.get("reservedFor") or ())
    return {"allocation": allocation, "for": reserved, "finalizers": claim["metadata"].get("finalizers")}


def alpha_played(program: str, folder: Path) -> JSON:
    """What the API has after the scenario of the alpha gates with one of the two schedulers."""
    folder.mkdir()
    plane = ControlPlane(folder, ALPHA_GATES, SERVED)
    try:
        plane.start()
        api = plane.admin
        alpha_furnish(api)
        start(program, plane, ALPHA_GATES)
        alpha_scenario(api)
        claims = {each["metadata"]["name"]: allocated(each) for each in api.items(CLAIMS)}
        pods = {
            each["metadata"]["name"]: {
                "node": node_of(each),
                "taken": each["status"].get("nodeAllocatableResourceClaimStatuses"),
                "said": condition(each).get("message"),
            }
            for each in api.pods()
        }
        return {"claims": claims, "pods": pods}
    finally:
        plane.stop()


def played(program: str, folder: Path) -> JSON:
    """What the API has after the scenario with one of the two schedulers."""
    folder.mkdir()
    plane = ControlPlane(folder)
    try:
        plane.start()
        api = plane.admin
        furnish(api)
        start(program, plane)
        scenario(api)
        claims = {each["metadata"]["name"]: allocated(each) for each in api.items(CLAIMS)}
        made = api.pod("classic")["status"]["extendedResourceClaimStatus"]
        claims["of classic"] = claims.pop(made.pop("resourceClaimName"))
        turned_down = {key: condition(api.pod("never"))[key] for key in ("reason", "message")}
        nodes = {each["metadata"]["name"]: node_of(each) for each in api.pods()}
        return {"claims": claims, "mappings": made, "never": turned_down, "nodes": nodes}
    finally:
        plane.stop()


def test_devices_end_the_same(folder: Path) -> None:
    """Allocations, reservations, finalizers, nodes and the message of a pod that fits nowhere are the same."""
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(played, KUBE_SCHEDULER, folder / KUBE_SCHEDULER)
        ours = pool.submit(played, KUBESCHED, folder / KUBESCHED)
        assert ours.result() == theirs.result()


def test_alpha_gates_together_end_the_same(folder: Path) -> None:
    """With three alpha gates on at once: allocations, what they take of nodes, and messages are the same."""
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(alpha_played, KUBE_SCHEDULER, folder / KUBE_SCHEDULER)
        ours = pool.submit(alpha_played, KUBESCHED, folder / KUBESCHED)
        assert ours.result() == theirs.result()
