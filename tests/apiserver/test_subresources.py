"""Bindings, evictions, scales, ephemeral containers and tokens."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import DEPLOYMENTS, NODES, PODS, deployment, node, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.patch import STRATEGIC
from kubesched.base.types import JSON

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def _binding(node: str = "n1", **meta: Any) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **meta},
        "target": {"kind": "Node", "name": node},
    }


async def test_binding_gives_a_node(client: LocalClient) -> None:
    """A bound pod has its node and says it is scheduled; a nomination and old reasons are over."""
    await client.create(PODS, pod("p"))
    failed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    await client.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n9", "conditions": [failed]}})
    answer = await client.create(f"{PODS}/p/binding", _binding(annotations={"a": "b"}))
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    bound = await client.get(f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in bound["status"]
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"], condition.get("reason")) == ("PodScheduled", "True", None)
    assert bound["metadata"]["annotations"] == {"a": "b"}


async def test_a_pod_is_bound_once(client: LocalClient) -> None:
    """The second binding is a conflict that names the node, by either path."""
    await client.create(PODS, pod("p"))
    await client.create("/api/v1/namespaces/default/bindings", _binding())
    error = await refusal(client.create(f"{PODS}/p/binding", _binding("n2")))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )


@pytest.mark.parametrize(
    ("spec", "binding", "code", "text"),
    [
        ({"schedulingGates": [{"name": "g"}]}, _binding(), 409, "pod p has non-empty .spec.schedulingGates"),
        ({}, _binding(uid="other"), 409, "UID in precondition: other"),
        ({}, _binding(""), 422, "target.name: Required value"),
        ({}, {**_binding(), "target": {"kind": "Cloud", "name": "x"}}, 422, "target.kind: Unsupported value"),
    ],
)
async def test_bindings_that_cannot_be(client: LocalClient, spec: JSON, binding: JSON, code: int, text: str) -> None:
    """Gated pods, other pods of the name and targets that are no nodes are refused."""
    await client.create(PODS, pod("p", **spec))
    error = await refusal(client.create(f"{PODS}/p/binding", binding))
    assert error.code == code
    assert text in error.message
    assert not (await client.get(f"{PODS}/p"))["spec"].get("nodeName")


async def test_a_pod_being_deleted_is_not_bound(client: LocalClient) -> None:
    """A terminating pod cannot be bound."""
    obj = pod("p")
    obj["metadata"]["finalizers"] = ["example.com/x"]
    await client.create(PODS, obj)
    await client.delete(f"{PODS}/p")
    error = await refusal(client.create(f"{PODS}/p/binding", _binding()))
    assert "pod p is being deleted, cannot be assigned to a host" in error.message


# --- eviction ---------------------------------------------------------------------------------------------------------


async def _running_pod(client: LocalClient, ready: str = "True") -> None:
    obj = pod("p", nodeName="n")
    obj["metadata"]["labels"] = {"app": "x"}
    await client.create(PODS, obj)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    await client.patch(f"{PODS}/p/status", {"status": status})


async def _budget(client: LocalClient, allowed: int, healthy: int = 1, **spec: Any) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1, **spec}}
    await client.create(BUDGETS, body)
    counts = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": 1}
    await client.patch(f"{BUDGETS}/b/status", {"status": {**counts, "observedGeneration": 1}})


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


async def test_eviction_without_a_budget_deletes(client: LocalClient) -> None:
    """A pod without a budget is evicted. A condition says why it ends: failure policies of Jobs can ignore it."""
    await _running_pod(client)
    before = await client.get(f"{PODS}/p")
    version = {"resourceVersion": before["metadata"]["resourceVersion"]}
    dry_run = {**EVICTION, "deleteOptions": {"dryRun": ["All"]}}
    await client.create(f"{PODS}/p/eviction", dry_run)
    assert await client.get(f"{PODS}/p") == before
    await client.create(f"{PODS}/p/eviction", {**EVICTION, "deleteOptions": {"preconditions": version}})
    found = await client.get(f"{PODS}/p")
    assert "deletionTimestamp" in found["metadata"]
    condition = found["status"]["conditions"][-1]
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert (condition["reason"], condition["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")


async def test_a_used_up_budget_is_429(client: LocalClient) -> None:
    """An exhausted budget refuses an eviction with the message that kubectl drain waits for."""
    await _running_pod(client)
    await _budget(client, allowed=0)
    error = await refusal(client.create(f"{PODS}/p/eviction", EVICTION))
    assert (error.code, error.reason) == (429, "TooManyRequests")
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert error.causes[0].message == "The disruption budget b needs 1 healthy pods and has 1 currently"


async def test_an_eviction_uses_the_budget(client: LocalClient) -> None:
    """An eviction uses up a disruption, and the budget records the pod."""
    await _running_pod(client)
    await _budget(client, allowed=1)
    await client.create(f"{PODS}/p/eviction", EVICTION)
    status = (await client.get(f"{BUDGETS}/b"))["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p"])


async def test_a_budget_not_yet_counted_asks_for_patience(client: LocalClient) -> None:
    """Until the controller has seen the budget nothing is evicted."""
    await _running_pod(client)
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}}
    await client.create(BUDGETS, body)
    response = await client.send("POST", f"{PODS}/p/eviction", EVICTION)
    assert (response.status, response.headers["Retry-After"]) == (429, "10")


async def test_an_unready_pod_may_go(client: LocalClient) -> None:
    """An unready pod may be evicted if its budget is met or always allows it."""
    await _running_pod(client, ready="False")
    await _budget(client, allowed=0, healthy=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    await client.create(f"{PODS}/p/eviction", EVICTION)
    assert "deletionTimestamp" in (await client.get(f"{PODS}/p"))["metadata"]


# --- the others -------------------------------------------------------------------------------------------------------


async def test_scale(client: LocalClient) -> None:
    """A Scale shows and sets the replicas of whatever has them."""
    await client.create(DEPLOYMENTS, deployment("d", 2))
    scale = await client.get(f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0, "selector": "app=d"},
    )
    scale["spec"]["replicas"] = 5
    await client.replace(f"{DEPLOYMENTS}/d/scale", scale)
    patched = await client.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 7}})
    assert patched["spec"]["replicas"] == 7
    assert (await client.get(f"{DEPLOYMENTS}/d"))["spec"]["replicas"] == 7
    stale = await refusal(client.replace(f"{DEPLOYMENTS}/d/scale", scale))
    assert stale.code == 409
    assert (await refusal(client.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}))).code == 422


async def test_ephemeral_containers(client: LocalClient) -> None:
    """They are added by their own subresource, which changes nothing else."""
    await client.create(PODS, pod("p"))
    patch = {"spec": {"nodeName": "n", "ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}
    changed = await client.patch(f"{PODS}/p/ephemeralcontainers", patch, STRATEGIC)
    assert changed["spec"]["ephemeralContainers"][0]["name"] == "debug"
    assert "nodeName" not in changed["spec"]


async def test_resize(client: LocalClient) -> None:
    """A pod's resources change by their own subresource, and only those."""
    asks = {"name": "c", "image": "nginx:1.25", "resources": {"requests": {"cpu": "1"}}}
    await client.create(PODS, pod("p", containers=[asks]))
    resources = {"requests": {"cpu": "2"}}
    patch = {"spec": {"containers": [{"name": "c", "image": "other", "resources": resources}]}}
    changed = await client.patch(f"{PODS}/p/resize", patch, STRATEGIC)
    container = changed["spec"]["containers"][0]
    assert (container["resources"], container["image"]) == (resources, "nginx:1.25")
    nothing = {"spec": {"containers": [{"name": "c", "resources": {"requests": None}}]}}
    error = await refusal(client.patch(f"{PODS}/p/resize", nothing, STRATEGIC))
    assert 'Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing' in error.message


async def test_token_requests(client: LocalClient) -> None:
    """A service account's token is made for the time that was asked for, within limits."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = await client.create(path, {"spec": {"expirationSeconds": 600}})
    assert answer["status"]["token"].count(".") == 2
    assert answer["status"]["expirationTimestamp"] == "2023-11-14T22:23:20Z"
    error = await refusal(client.create(path, {"spec": {"expirationSeconds": 5}}))
    assert "may not specify a duration less than 10 minutes" in error.message
    await client.create(PODS, pod("p", serviceAccountName="other"))
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}}
    assert "different serviceaccount name" in (await refusal(client.create(path, bound))).message
    missing = "/api/v1/namespaces/default/serviceaccounts/none/token"
    assert (await refusal(client.create(missing, {}))).code == 404


@pytest.mark.parametrize(
    ("path", "words"),
    [("exec", "nothing to run a command in"), ("portforward", "no port to forward to")],
)
async def test_what_only_a_container_could_answer(client: LocalClient, path: str, words: str) -> None:
    """There is nothing to talk to where no container runs. Before that, upstream's own refusals."""
    assert (await refusal(client.get(f"{PODS}/p/{path}"))).code == 404
    await client.create(PODS, pod("p"))
    error = await refusal(client.get(f"{PODS}/p/{path}"))
    assert (error.code, error.message) == (400, "pod p does not have a host assigned")
    await client.create(NODES, node("n"))
    await client.create(PODS, pod("q", nodeName="n"))
    error = await refusal(client.get(f"{PODS}/q/{path}"))
    assert error.code == 501
    assert words in error.message
    if path == "exec":
        error = await refusal(client.get(f"{PODS}/p/exec?container=none"))
        assert error.message == "container none is not valid for pod p"


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"status": "True"}, 'status.conditions[0].Type: Invalid value: "": name part must be non-empty'),
        (
            {"type": "a b", "status": "True"},
            'status.conditions[0].Type: Invalid value: "a b": name part must consist of',
        ),
        (
            {"type": "Ready", "observedGeneration": -1},
            "status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer",
        ),
    ],
)
async def test_conditions_of_pods_have_a_type(client: LocalClient, condition: JSON, problem: str) -> None:
    """As upstream, the status is refused with the field and the value."""
    await client.create(PODS, pod("p"))
    error = await refusal(client.patch(f"{PODS}/p/status", {"status": {"conditions": [condition]}}))
    assert error.code == 422
    assert problem in error.message


async def test_conditions_of_other_kinds_get_an_empty_type(client: LocalClient) -> None:
    """As upstream, whose encoding writes empty types and statuses; controllers can rely on both."""
    await client.create(DEPLOYMENTS, deployment("d"))
    await client.patch(f"{DEPLOYMENTS}/d/status", {"status": {"conditions": [{"reason": "X"}]}})
    (condition,) = (await client.get(f"{DEPLOYMENTS}/d"))["status"]["conditions"]
    assert condition == {"reason": "X", "type": "", "status": ""}


@pytest.mark.parametrize("part", ["binding", "eviction"])
@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({}, "name in URL does not match name in"),
        ({"name": "other"}, "name in URL does not match name in"),
        ({"name": "p", "namespace": "other"}, "the namespace of the provided object does not match"),
    ],
)
async def test_the_body_of_a_subresource_names_the_pod(
    client: LocalClient, part: str, metadata: JSON, why: str
) -> None:
    """A binding or an eviction of another pod than that of the path is refused."""
    await client.create(PODS, pod("p"))
    body = {"metadata": metadata, "target": {"name": "n"}} if part == "binding" else {"metadata": metadata}
    error = await refusal(client.create(f"{PODS}/p/{part}", body))
    assert (error.code, error.message[: len(why)]) == (400, why)
