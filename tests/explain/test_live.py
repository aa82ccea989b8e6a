"""The same fifteen causes when the cluster is read from an API server, with defaults and admission in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner
from tests.explain import fifteen
from tests.explain.test_fifteen import EXPECTED

from kubesched.api import objects as api
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.cli.explain import PENDING, command
from kubesched.client.endpoints import endpoint_of


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
    shown = {"nodes": fifteen.nodes(), "pods": [fifteen.pod("big", "20")]}
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
    assert result.exit_code == PENDING, result.stderr
    found = json.loads(result.stdout)
    assert found["pods"][0]["suggestions"][0]["words"] == "ask for cpu 8 instead of 20"
    assert "decisions may differ: storageclasses is forbidden" in found["notes"]
    assert "tries are not shown: events is forbidden" in found["notes"]
    assert "Warning: decisions may differ: storageclasses is forbidden" in result.stderr
