"""Clients for operators and scripts, each doing a job on `kubesched up`: kopf, kr8s and the official Python client."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kubectl.local import Local, eventually, local

with warnings.catch_warnings():
    # Their dependencies warn while they are imported, which is not ours to mend.
    warnings.simplefilter("ignore")
    kubernetes = pytest.importorskip("kubernetes", reason="the official Python client is not installed")
    dynamic = pytest.importorskip("kubernetes.dynamic")
    kr8s = pytest.importorskip("kr8s", reason="kr8s is not installed")
    objects = pytest.importorskip("kr8s.objects")
    pytest.importorskip("kopf", reason="kopf is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")
HERE = Path(__file__).parent
PATIENCE = 180.0
SITES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["replicas", "image"],
                                "properties": {
                                    "replicas": {"type": "integer", "minimum": 0},
                                    "image": {"type": "string"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster with three nodes."""
    with local(tmp_path_factory.mktemp("up"), "--nodes=3") as running:
        yield running


@pytest.fixture(scope="module")
def official(cluster: Local) -> Iterator[Any]:
    """The official client, configured by the kubeconfig that `up` wrote."""
    with kubernetes.config.new_client_from_config(str(cluster.kubeconfig)) as client:
        yield client


@contextmanager
def process(cluster: Local, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program beside the cluster, ended afterwards."""
    environment = {**cluster.environment, "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as out:
        program = subprocess.Popen([sys.executable, "-W", "ignore", *words], stdout=out, stderr=out, env=environment)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def test_a_kopf_operator(cluster: Local, official: Any, tmp_path: Path) -> None:
    """It creates, scales and reports what a custom resource says, and its finalizer has the last word."""
    core, apps = kubernetes.client.CoreV1Api(official), kubernetes.client.AppsV1Api(official)
    sites = kubernetes.client.CustomObjectsApi(official)
    place = ("shop.example.com", "v1", "default", "sites")
    kubernetes.client.ApiextensionsV1Api(official).create_custom_resource_definition(SITES)
    log = tmp_path / "log"

    def ready() -> Any:
        return sites.get_namespaced_custom_object(*place, "books").get("status", {}).get("ready")

    def events() -> list[str]:
        return [
            event.message
            for event in core.list_namespaced_event("default", field_selector="involvedObject.name=books").items
        ]

    with process(
        cluster, log, "-m", "kopf", "run", "--namespace=default", "--standalone", str(HERE / "site_operator.py")
    ) as kopf:
        site = {"apiVersion": "shop.example.com/v1", "kind": "Site", "metadata": {"name": "books"}}
        sites.create_namespaced_custom_object(*place, {**site, "spec": {"replicas": 2, "image": "nginx"}})
        eventually(lambda: ready() == 2 or kopf.poll() is not None, PATIENCE, "two replicas are ready")
        assert kopf.poll() is None, log.read_text("utf-8")
        sites.patch_namespaced_custom_object(*place, "books", {"spec": {"replicas": 5}})
        eventually(lambda: ready() == 5, PATIENCE, "five replicas are ready")
        found = sites.get_namespaced_custom_object(*place, "books")
        assert found["status"]["deploy"] == {"deployment": "books"}
        assert found["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        assert (
            len({pod.spec.node_name for pod in core.list_namespaced_pod("default", label_selector="site=books").items})
            == 3
        )
        sites.delete_namespaced_custom_object(*place, "books")
        eventually(lambda: not sites.list_namespaced_custom_object(*place)["items"], PATIENCE, "the site is gone")
        eventually(lambda: "The site is closed." in events(), PATIENCE, "the event is there")
        eventually(lambda: not apps.list_namespaced_deployment("default").items, PATIENCE, "its deployment is gone")


def test_kr8s(cluster: Local) -> None:
    """Objects are created, waited for, scaled, labelled, listed, cordoned and deleted; logs can be read."""
    api = kr8s.api(kubeconfig=str(cluster.kubeconfig))
    labels = {"app": "shop"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    shop = objects.Deployment({"metadata": {"name": "shop"}, "spec": spec}, api=api)
    shop.create()
    shop.wait("condition=Available", timeout=PATIENCE)
    shop.scale(4)
    eventually(lambda: shop.ready(), PATIENCE, "all replicas are ready")
    pods = list(api.get("pods", namespace="default", label_selector=labels))
    assert (len(pods), all(pod.ready() for pod in pods)) == (4, True)
    pods[0].label({"canary": "yes"})
    assert [pod.name for pod in api.get("pods", namespace="default", label_selector="canary=yes")] == [pods[0].name]
    assert "".join(pods[0].logs())
    (node,) = (node for node in api.get("nodes") if node.name == pods[0].spec.nodeName)
    node.cordon()
    pods[0].delete()
    eventually(lambda: not pods[0].exists() and shop.ready(), PATIENCE, "the pod is replaced")
    names = {pod.name for pod in pods}
    (new,) = (pod for pod in api.get("pods", namespace="default", label_selector=labels) if pod.name not in names)
    assert new.spec.nodeName != node.name
    node.uncordon()
    shop.delete()
    shop.wait("delete", timeout=PATIENCE)


def test_the_dynamic_client_and_a_watch(official: Any) -> None:
    """Kinds are found by discovery, applied by the server, patched in three ways and watched from a version on."""
    client = dynamic.DynamicClient(official)
    maps = client.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
    made = client.server_side_apply(maps, body=body, namespace="default", field_manager="one")
    assert [each.manager for each in made.metadata.managedFields] == ["one"]
    with pytest.raises(dynamic.exceptions.ConflictError):
        client.server_side_apply(maps, body={**body, "data": {"a": "2"}}, namespace="default", field_manager="two")
    for change, content_type in (
        ({"data": {"b": "2"}}, "application/merge-patch+json"),
        ({"metadata": {"labels": {"x": "y"}}}, "application/strategic-merge-patch+json"),
        ([{"op": "remove", "path": "/data/a"}], "application/json-patch+json"),
    ):
        maps.patch(body=change, name="dynamic", namespace="default", content_type=content_type)
    core = kubernetes.client.CoreV1Api(official)
    seen = []
    since, watch = made.metadata.resourceVersion, kubernetes.watch.Watch()
    for event in watch.stream(
        core.list_namespaced_config_map,
        "default",
        field_selector="metadata.name=dynamic",
        resource_version=since,
        timeout_seconds=60,
    ):
        seen.append((event["type"], event["object"].data, event["object"].metadata.labels))
        if len(seen) == 3:
            watch.stop()
    assert seen == [
        ("MODIFIED", {"a": "1", "b": "2"}, None),
        ("MODIFIED", {"a": "1", "b": "2"}, {"x": "y"}),
        ("MODIFIED", {"b": "2"}, {"x": "y"}),
    ]


def test_an_election_by_the_official_client(cluster: Local, official: Any, tmp_path: Path) -> None:
    """One of two candidates leads; when it is killed, the other takes the lease over."""
    pytest.importorskip("kubernetes.leaderelection.resourcelock.leaselock", reason="the client has no LeaseLock yet")
    leases = kubernetes.client.CoordinationV1Api(official)
    program, logs = str(HERE / "candidate.py"), (tmp_path / "a", tmp_path / "b")
    with process(cluster, logs[0], program, "a") as first:
        eventually(lambda: "a leads" in logs[0].read_text("utf-8"), PATIENCE, "a leads")
        assert leases.read_namespaced_lease("the-lock", "default").spec.holder_identity == "a"
        with process(cluster, logs[1], program, "b"):
            first.kill()
            eventually(lambda: "b leads" in logs[1].read_text("utf-8"), PATIENCE, "b leads")
            assert leases.read_namespaced_lease("the-lock", "default").spec.holder_identity == "b"
