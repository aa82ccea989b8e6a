"""The official Python client against the embedded API server."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.support import deployment, pod

from kubesched.apiserver.http_server import HttpServer

with warnings.catch_warnings():
    # Its dependencies warn while they are imported, which is not ours to mend.
    warnings.simplefilter("ignore")
    kubernetes = pytest.importorskip("kubernetes", reason="the official Python client is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def official(server: HttpServer, tmp_path: Path) -> Iterator[Any]:
    """The client, configured by the server's own kubeconfig."""
    config = tmp_path / "kubeconfig"
    server.write_kubeconfig(config)
    with kubernetes.config.new_client_from_config(str(config)) as client:
        yield client


async def test_objects(official: Any) -> None:
    """Objects are created, read, patched, listed and deleted as models."""
    core = kubernetes.client.CoreV1Api(official)

    def act() -> list[str]:
        made = core.create_namespaced_pod("default", pod("a"))
        assert made.status.phase == "Pending"
        assert made.metadata.creation_timestamp is not None
        patched = core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"x": "y"}}})
        assert patched.metadata.labels == {"x": "y"}
        names = [item.metadata.name for item in core.list_namespaced_pod("default", label_selector="x=y").items]
        core.delete_namespaced_pod("a", "default")
        with pytest.raises(kubernetes.client.ApiException) as missing:
            core.read_namespaced_pod("a", "default")
        assert missing.value.status == 404
        return names

    assert await asyncio.to_thread(act) == ["a"]


async def test_scheduling(official: Any) -> None:
    """A scheduler written with the client can bind, and is refused the second time."""
    core = kubernetes.client.CoreV1Api(official)
    models = kubernetes.client

    def act() -> str:
        core.create_namespaced_pod("default", pod("a"))
        target = models.V1ObjectReference(kind="Node", name="n1")
        binding = models.V1Binding(metadata=models.V1ObjectMeta(name="a"), target=target)
        core.create_namespaced_pod_binding("a", "default", binding, _preload_content=False)
        with pytest.raises(models.ApiException) as again:
            core.create_namespaced_pod_binding("a", "default", binding, _preload_content=False)
        assert again.value.status == 409
        node: str = core.read_namespaced_pod("a", "default").spec.node_name
        return node

    assert await asyncio.to_thread(act) == "n1"


async def test_watching(official: Any) -> None:
    """Its watch reports changes and can be stopped."""
    core = kubernetes.client.CoreV1Api(official)
    watch = kubernetes.watch.Watch()
    seen: list[tuple[str, str]] = []
    started = threading.Event()

    def follow() -> None:
        version = core.list_namespaced_config_map("default").metadata.resource_version
        started.set()
        for event in watch.stream(
            core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=120
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 2:
                watch.stop()

    def act() -> None:
        started.wait(120)
        core.create_namespaced_config_map("default", {"metadata": {"name": "c"}})
        core.delete_namespaced_config_map("c", "default")

    await asyncio.gather(asyncio.to_thread(follow), asyncio.to_thread(act))
    assert seen == [("ADDED", "c"), ("DELETED", "c")]


async def test_workloads_and_access(official: Any) -> None:
    """Deployments are scaled and access is asked about."""
    apps = kubernetes.client.AppsV1Api(official)
    access = kubernetes.client.AuthorizationV1Api(official)

    def act() -> tuple[int, bool]:
        apps.create_namespaced_deployment("default", deployment("d", 1))
        scale = apps.patch_namespaced_deployment_scale("d", "default", {"spec": {"replicas": 4}})
        attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
        review = access.create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})
        return scale.spec.replicas, review.status.allowed

    assert await asyncio.to_thread(act) == (4, True)
