"""ResourceQuotas: usage in their status, refusals, scopes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import CONFIG_MAPS, PODS, config_map, pod, refusal

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
SERVICES = "/api/v1/namespaces/default/services"


async def quota(client: LocalClient, hard: JSON, **spec: Any) -> None:
    """Create the quota q."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    await client.create(QUOTAS, body)


async def used(client: LocalClient) -> JSON:
    """What the quota says is used."""
    body: JSON = (await client.get(f"{QUOTAS}/q"))["status"]["used"]
    return body


def with_requests(name: str = "p", **requests: str) -> JSON:
    """A pod with requests."""
    return pod(name, containers=[{"name": "c", "image": "nginx:1", "resources": {"requests": requests}}])


async def test_the_life_of_a_pod(client: LocalClient) -> None:
    """A pod counts from its creation until it ends or is deleted; as an object it counts until it is deleted."""
    await client.create(PODS, with_requests("before", cpu="1"))
    await quota(client, {"pods": "5", "requests.cpu": "3", "count/pods": "9"})
    assert await used(client) == {"pods": "1", "requests.cpu": "1", "count/pods": "1"}
    await client.create(PODS, with_requests("after", cpu="500m"))
    assert await used(client) == {"pods": "2", "requests.cpu": "1500m", "count/pods": "2"}
    await client.patch(f"{PODS}/after/status", {"status": {"phase": "Succeeded"}})
    assert await used(client) == {"pods": "1", "requests.cpu": "1", "count/pods": "2"}
    await client.delete(f"{PODS}/before")
    assert await used(client) == {"pods": "0", "requests.cpu": "0", "count/pods": "1"}


async def test_exceeding(client: LocalClient) -> None:
    """A pod that needs more than is left is refused with upstream's message, and nothing is counted."""
    await quota(client, {"requests.cpu": "1", "requests.memory": "1Gi"})
    await client.create(PODS, with_requests("a", cpu="600m", memory="100Mi"))
    error = await refusal(client.create(PODS, with_requests("b", cpu="600m", memory="100Mi")))
    why = "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    assert (error.code, error.message) == (403, f'pods "b" is forbidden: {why}')
    assert (await used(client))["requests.cpu"] == "600m"


async def test_required_requests(client: LocalClient) -> None:
    """Containers must specify the CPU and memory that a quota limits."""
    await quota(client, {"limits.cpu": "1", "requests.memory": "1Gi"})
    error = await refusal(client.create(PODS, pod()))
    why = "failed quota: q: must specify limits.cpu for: c; requests.memory for: c"
    assert error.message == f'pods "p" is forbidden: {why}'


@pytest.mark.parametrize(
    ("scope", "counted"),
    [
        ({"scopes": ["BestEffort"]}, {"best"}),
        ({"scopes": ["NotBestEffort"]}, {"asks"}),
        ({"scopes": ["Terminating", "BestEffort"]}, set()),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                }
            },
            {"asks"},
        ),
    ],
)
async def test_scopes(client: LocalClient, scope: JSON, counted: set[str]) -> None:
    """A quota with scopes counts only the pods in them."""
    await quota(client, {"pods": "5"}, **scope)
    await client.create(PODS, pod("best"))
    asks = with_requests("asks", cpu="1")
    asks["spec"]["priorityClassName"] = "system-node-critical"
    await client.create(PODS, asks)
    assert (await used(client))["pods"] == str(len(counted))


async def test_objects_of_other_kinds(client: LocalClient) -> None:
    """Every kind can be limited by its number; services also by their node ports."""
    await quota(client, {"configmaps": "1", "count/secrets": "0", "services.nodeports": "1"})
    await client.create(CONFIG_MAPS, config_map("a"))
    error = await refusal(client.create(CONFIG_MAPS, config_map("b")))
    assert "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1" in error.message
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    service: JSON = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}
    await client.create(SERVICES, service)
    error = await refusal(client.patch(f"{SERVICES}/s", {"spec": {"type": "NodePort"}}))
    assert "requested: services.nodeports=2, used: services.nodeports=0" in error.message
    await client.delete(f"{CONFIG_MAPS}/a")
    assert (await used(client))["configmaps"] == "0"


async def test_a_changed_quota(client: LocalClient) -> None:
    """A quota whose spec changes is counted anew."""
    await client.create(PODS, with_requests(cpu="1"))
    await quota(client, {"pods": "5"})
    await client.patch(f"{QUOTAS}/q", {"spec": {"hard": {"requests.cpu": "4"}}})
    status = (await client.get(f"{QUOTAS}/q"))["status"]
    assert status == {"hard": {"pods": "5", "requests.cpu": "4"}, "used": {"pods": "1", "requests.cpu": "1"}}


async def test_a_restart(api: ApiServer, client: LocalClient) -> None:
    """A server on a store that has objects already counts them."""
    await client.create(PODS, pod("a"))
    await quota(client, {"pods": "1"})
    again = LocalClient(ApiServer(api.store, clock=api.clock))
    assert "exceeded quota" in (await refusal(again.create(PODS, pod("b")))).message


async def test_a_status_by_a_client_does_not_last(client: LocalClient) -> None:
    """A client may write the status, and gets it back as it wrote it; then the server corrects it."""
    await quota(client, {"pods": "5"})
    wrong = {"status": {"hard": {"pods": "7"}, "used": {"pods": "6"}}}
    assert (await client.patch(f"{QUOTAS}/q/status", wrong))["status"]["hard"] == {"pods": "7"}
    assert (await client.get(f"{QUOTAS}/q"))["status"] == {"hard": {"pods": "5"}, "used": {"pods": "0"}}
