"""The same fifteen causes when the cluster is read from an API server, with defaults and admission in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner
from msgspec.structs import replace
from tests.explain import fifteen
from tests.explain.test_fifteen import EXPECTED

from kubesched.api import objects as api
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.cli.explain import PENDING, command
from kubesched.client.connection import resolve
from kubesched.client.endpoints import endpoint_of
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import load_file
from kubesched.client.protocol import ApiError
from kubesched.explain.change import Change
from kubesched.explain.standing import State
from kubesched.library.cluster import Cluster


def path_of(manifest: dict[str, Any]) -> str:
    """Where objects of a manifest's kind are created."""
    endpoint = endpoint_of(api.KINDS[manifest["apiVersion"], manifest["kind"]])
    return endpoint.path(manifest["metadata"].get("namespace", ""))


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """An API server with the cluster of fifteen pending pods."""
    running: HttpServer = build_server(ServerOptions())
    await running.start()
    try:
        await fill(LocalClient(running.api))
        running.write_kubeconfig(tmp_path / "config")
        yield tmp_path / "config"
    finally:
        await running.stop()


async def fill(client: LocalClient) -> None:
    """Create all objects, and then those statuses that creating leaves out."""
    for each in fifteen.cluster():
        await client.create(path_of(each), each)
        if "status" in each:
            name = f"{path_of(each)}/{each['metadata']['name']}/status"
            await client.patch(name, {"status": each["status"]})


async def test_causes_read_from_an_api_server(kubeconfig: Path) -> None:
    """Every cause is named as it is from files, and each pod has a verified fix."""
    arguments = ["--kubeconfig", str(kubeconfig), "-o", "json"]
    result = await asyncio.to_thread(CliRunner().invoke, command, arguments)
    assert result.exit_code == PENDING, result.stderr
    pods = {each["pod"].removeprefix("default/"): each for each in json.loads(result.stdout)["pods"]}
    assert set(pods) == set(EXPECTED)
    for cause, words in EXPECTED.items():
        texts = [d["text"] for r in pods[cause]["closest"]["refusals"] for d in r["details"]]
        assert words in pods[cause]["words"] + "; ".join(texts), cause
        assert pods[cause]["suggestions"], cause


async def only_nodes_and_pods(request: web.Request) -> web.Response:
    """A server on which the user may read nodes and pods and nothing else."""
    kind = request.path.rpartition("/")[2]
    if kind == "queue":
        woken = {"NodeResourcesFit": [{"resource": "Node", "actions": ["Add", "UpdateNodeAllocatable"]}]}
        waiting = {"uid": "big-uid", "place": "Backoff", "position": None, "attempts": 7, "wokenBy": woken}
        return web.json_response({"items": [{**waiting, "backoffUntil": "2026-01-01T10:00:08Z"}]})
    big = fifteen.pod("big", "20")
    big["metadata"]["uid"] = "big-uid"
    shown = {"nodes": fifteen.nodes(), "pods": [big]}
    if kind in shown:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": shown[kind]})
    status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"{kind} is forbidden"}
    return web.json_response(status, status=403)


async def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    """The answer goes on without the forbidden kinds, and the notes and stderr name them."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", only_nodes_and_pods)
    async with TestServer(app) as server:
        config = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
        }
        (tmp_path / "config").write_text(json.dumps(config))
        arguments = ["--kubeconfig", str(tmp_path / "config"), "-o", "json"]
        result = await asyncio.to_thread(CliRunner().invoke, command, arguments)
        queue = [*arguments, "--scheduler", str(server.make_url("")), "pod", "big"]
        asked = await asyncio.to_thread(CliRunner().invoke, command, queue)
    queued = json.loads(asked.stdout)
    assert (queued["state"], queued["tries"], queued["queued"]["wakes"]) == (
        "backoff",
        7,
        ["Node Add|UpdateNodeAllocatable"],
    )
    assert "waits until 2026-01-01T10:00:08Z before it tries the pod again after 7 tries" in queued["words"]
    assert result.exit_code == PENDING, result.stderr
    found = json.loads(result.stdout)
    assert found["pods"][0]["suggestions"][0]["words"] == "ask for cpu 8 instead of 20"
    (differ,) = [each for each in found["notes"] if each.startswith("decisions may differ: you may not list ")]
    assert "storageclasses" in differ
    assert "tries are not shown: you may not list events" in found["notes"]
    assert f"Warning: {differ}" in result.stderr


async def test_first_fixes_made_on_the_api_server(kubeconfig: Path) -> None:
    """Every pod's first fix is carried out by requests; read again, a node fits each of the fifteen pods."""
    cluster = await asyncio.to_thread(Cluster.from_kubeconfig, kubeconfig)
    explainer = cluster.explainer()
    explainer.pending()
    async with HttpClient(resolve(load_file(str(kubeconfig)))) as client:
        for key, tried in explainer.tried.items():
            await carry_out(client, cluster, explainer.find(key), tried[0].changes)
    again = (await asyncio.to_thread(Cluster.from_kubeconfig, kubeconfig)).explainer()
    states = {each.pod: each.state for each in again.pending().pods}
    assert states == {f"default/{cause}": State.SCHEDULABLE for cause in EXPECTED}


async def carry_out(client: HttpClient, cluster: Cluster, pod: api.Pod, changes: tuple[Change, ...]) -> None:
    """Make the changes of a suggestion: pods and other objects are created anew, nodes are patched."""
    for change in changes:
        for each in change.removed:
            await delete(client, each)
        for obj in change.objects:
            await renew(client, obj)
        if change.edit is not None:
            await renew(client, change.edit(pod))
        if change.node_edit is not None:
            before = cluster.node(change.node)
            await client.merge_patch(api.Node, change.node, difference(before, change.node_edit(before)))


async def delete(client: HttpClient, obj: api.Object) -> None:
    """Delete an object at once: no kubelet is here to end its containers."""
    path = endpoint_of(type(obj)).path(obj.namespace, obj.name)
    await client.request("DELETE", path, query={"gracePeriodSeconds": "0"})


async def renew(client: HttpClient, obj: api.Object) -> None:
    """Delete an object, if it exists, and create it as it is to be."""
    with suppress(ApiError):
        await delete(client, obj)
    meta = replace(obj.metadata, uid="", resource_version="", generation=0, creation_timestamp=None)
    body = msgspec.to_builtins(replace(obj, metadata=meta))
    if isinstance(obj, api.Pod):
        body.pop("status", None)
        for name in ("priority", "preemptionPolicy"):
            body["spec"].pop(name, None)
    if isinstance(obj, api.PersistentVolume):
        body["spec"]["hostPath"] = {"path": "/data"}
    await client.create_object(type(obj), body, obj.namespace)
    if isinstance(obj, api.Node):
        await client.merge_patch(api.Node, obj.name, {"status": body["status"]}, subresource="status")


def difference(before: api.Node, after: api.Node) -> dict[str, Any]:
    """A merge patch of what changes in a node: labels, taints, cordon."""
    labels = {**dict.fromkeys(before.labels), **after.labels}
    taints = [msgspec.to_builtins(taint) for taint in after.spec.taints]
    return {"metadata": {"labels": labels}, "spec": {"taints": taints, "unschedulable": after.spec.unschedulable}}
