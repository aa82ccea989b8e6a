"""Discovery, compared with what kube-apiserver 1.36 lists by default (`discovery.txt`)."""

from __future__ import annotations

from pathlib import Path

from tests.apiserver.test_crd import DEFINITIONS, definition

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.registry import COMPONENT_STATUSES, NODE_METRICS, POD_METRICS
from kubesched.base.types import JSON

LIST = Path(__file__).parent / "discovery.txt"
MORE = {
    "scheduling.k8s.io/v1alpha2": "gangs are a feature of the scheduler, so they are always served here",
    "resource.k8s.io/v1beta2": "so are device taint rules",
    "resource.k8s.io/v1alpha3": "so are device taint rules",
    "metrics.k8s.io/v1beta1": "metrics-server's, for kubectl top",
}
"""Versions that kube-apiserver serves only with a feature gate, or not itself."""


def line(version: str, entry: JSON) -> str:
    """One resource as the list has it."""
    kind = entry["kind"]
    if entry.get("version"):
        kind += f"@{entry.get('group', '')}/{entry['version']}"
    words = [version, entry["name"], entry["singularName"], "Namespaced" if entry["namespaced"] else "Cluster", kind]
    words += [",".join(entry.get(field, [])) for field in ("verbs", "shortNames", "categories")]
    return " | ".join([*words, entry.get("storageVersionHash", "")])


async def listed(client: LocalClient) -> list[str]:
    """All resources that the server lists."""
    versions = [each["groupVersion"] for group in (await client.get("/apis"))["groups"] for each in group["versions"]]
    lines = [line("v1", entry) for entry in (await client.get("/api/v1"))["resources"]]
    for version in versions:
        lines += [line(version, entry) for entry in (await client.get(f"/apis/{version}"))["resources"]]
    return lines


async def test_everything_that_upstream_lists(client: LocalClient, api: ApiServer) -> None:
    """Names, kinds, verbs, short names, categories and hashes are upstream's; further versions have a reason."""
    for resource in (COMPONENT_STATUSES, NODE_METRICS, POD_METRICS):
        api.serve_computed(resource, lambda _namespace: ())
    expected = [text for text in LIST.read_text("utf-8").splitlines() if text and not text.startswith("#")]
    found = await listed(client)
    assert set(expected) - set(found) == set()
    assert {text.partition(" | ")[0] for text in set(found) - set(expected)} == set(MORE)


async def test_hashes_of_custom_resources(client: LocalClient) -> None:
    """All versions of a custom resource have the hash of the one that is stored."""
    made = definition()
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    await client.create(DEFINITIONS, made)
    hashes = {
        (await client.get(f"/apis/stable.example.com/{version}"))["resources"][0]["storageVersionHash"]
        for version in ("v1", "v2")
    }
    assert len(hashes) == 1


async def test_nothing_answers_a_proxy(client: LocalClient) -> None:
    """A proxy is refused with the reason, whatever path follows."""
    await client.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    response = await client.send("GET", "/api/v1/nodes/n/proxy/stats/summary")
    assert response.status == 501
    assert b"run no containers" in response.body
