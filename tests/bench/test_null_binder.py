"""The null binder on the embedded API server: what it writes is accepted, and in the right order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kubesched.base.types import JSON
from kubesched.bench.peers.embedded import EmbeddedPlane
from kubesched.bench.peers.null_binder import NullBinder
from kubesched.client.connection import resolve
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import load_file

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLAIM = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
DEADLINE = 120.0


def pod(name: str, claims: list[JSON]) -> JSON:
    containers = [{"name": "main", "image": "app"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "resourceClaims": claims}}


async def bound(client: HttpClient, name: str) -> str:
    """The node of a pod, once it has one."""
    async with asyncio.timeout(DEADLINE):
        while True:
            node = (await client.get(f"{PODS}/{name}"))["spec"].get("nodeName")
            if node:
                return str(node)
            await asyncio.sleep(0.02)


async def wait_for_status(client: HttpClient) -> None:
    """Give the pod that waits for its claim what the claim controller gives it."""
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "late"}]}
    await client.post(CLAIMS, {"metadata": {"name": "late"}, "spec": CLAIM})
    await client.patch(f"{PODS}/later/status", {"status": status})


async def check(plane: EmbeddedPlane) -> None:
    async with plane.client() as client:
        await client.post("/api/v1/nodes", {"metadata": {"name": "node"}})
        await client.post(CLAIMS, {"metadata": {"name": "early"}, "spec": CLAIM})
        await client.post(PODS, pod("plain", []))
        await client.post(PODS, pod("claiming", [{"name": "gpu", "resourceClaimName": "early"}]))
        binder = asyncio.create_task(NullBinder(resolve(load_file(str(plane.kubeconfig())))).run())
        assert [await bound(client, name) for name in ("plain", "claiming")] == ["node", "node"]
        await client.post(PODS, pod("later", [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]))
        await wait_for_status(client)
        assert await bound(client, "later") == "node"
        binder.cancel()
        for name, user in (("early", "claiming"), ("late", "later")):
            claim = await client.get(f"{CLAIMS}/{name}")
            assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
            assert [each["request"] for each in claim["status"]["allocation"]["devices"]["results"]] == ["gpu"]
            assert [each["name"] for each in claim["status"]["reservedFor"]] == [user]


def test_claims_are_allocated_before_their_pods_are_bound(tmp_path: Path) -> None:
    """A pod without claims, one whose claim is there from the start, and one whose claim is made later."""
    plane = EmbeddedPlane(tmp_path)

    async def run() -> None:
        await plane.start()
        try:
            await check(plane)
        finally:
            plane.stop()

    asyncio.run(run())
