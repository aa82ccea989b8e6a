"""A running cluster is read with a kubeconfig, also where an event loop runs already, as in a notebook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import kubesched
from kubesched.api import objects as api
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.client.kubeconfig import KubeconfigError
from kubesched.library.cluster import Cluster
from kubesched.library.configuration import adapted
from kubesched.library.live import queued_pods
from kubesched.simulator.scenario_client import as_json
from kubesched.testing import node, pod


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    """An API server on a socket, with a node and a pod."""
    running = build_server(ServerOptions())
    await running.start()
    client = LocalClient(running.api)
    await client.call("POST", "/api/v1/nodes", as_json(node("n1", cpu=2)))
    await client.call("POST", "/api/v1/namespaces/default/pods", as_json(pod("a", cpu=1)))
    yield running
    await running.stop()


async def test_a_cluster_is_read_once(server: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds are listed over HTTPS; decisions are made here, and nothing is written there."""
    kubeconfig = tmp_path / "config"
    server.write_kubeconfig(kubeconfig)
    before = await asyncio.to_thread(Cluster.from_kubeconfig, kubeconfig)
    assert [each.name for each in before.nodes] == ["n1"]
    (waiting,) = before.pending
    before.schedule(waiting).place()
    assert before.how_many(pod("b", cpu=1)) == 1
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    after = await asyncio.to_thread(Cluster.from_kubeconfig)
    assert [each.name for each in after.pending] == ["a"]


async def test_it_works_where_a_loop_runs(tmp_path: Path) -> None:
    """Called from a coroutine, as notebooks do, it fails with the kubeconfig's error and not with asyncio's."""
    (tmp_path / "config").write_text("{apiVersion: v1, kind: Config, current-context: x}")
    with pytest.raises(KubeconfigError, match="there is no context 'y'"):
        Cluster.from_kubeconfig(tmp_path / "config", context="y")
    text = (
        "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    (tmp_path / "config").write_text(text)
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        Cluster.from_kubeconfig(tmp_path / "config")


def test_without_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file that was looked for."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError, match="none: no such file"):
        Cluster.from_kubeconfig()


async def refuse_most(request: web.Request) -> web.Response:
    """Shows nodes and pods, forbids storage classes, and has no other kind."""
    kind = request.path.rpartition("/")[2]
    if kind in ("nodes", "pods"):
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
    code, reason = (403, "Forbidden") if kind == "storageclasses" else (404, "NotFound")
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": f"no {kind}"}, status=code)


async def test_kinds_that_the_user_may_not_read(tmp_path: Path) -> None:
    """A forbidden kind gives a warning, because decisions may differ; a kind that the server lacks gives none."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse_most)
    async with TestServer(app) as server:
        config = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
        }
        (tmp_path / "config").write_text(json.dumps(config))
        with pytest.warns(UserWarning, match="decisions may differ: you may not list storageclasses") as warned:
            cluster = await asyncio.to_thread(Cluster.from_kubeconfig, tmp_path / "config")
    assert len(warned) == 1
    assert cluster.nodes == []


def test_queue_page_is_read() -> None:
    """Events of several plugins are listed once per resource; a pod at Permit has the plugins that hold it."""
    events = {
        "A": [{"resource": "Node", "actions": ["Add"]}],
        "B": [{"resource": "Node", "actions": ["Add", "Update"]}],
    }
    items = [
        {"uid": "1", "namespace": "a", "pod": "x", "place": "Unschedulable", "wokenBy": events},
        {"uid": "2", "namespace": "a", "pod": "y", "place": "InFlight"},
    ]
    found = queued_pods({"items": items, "waitingOnPermit": [{"namespace": "a", "pod": "y", "plugins": ["Gang"]}]})
    assert found["1"].wakes == ("Node Add|Update",)
    assert (found["2"].queue, found["2"].plugins) == ("waiting", ("Gang",))


def test_configuration_of_a_scheduler_is_adapted() -> None:
    """Plugins that are not known here are left out and named; one's own are enabled."""

    @kubesched.filter
    def mine(pod: api.Pod, node: kubesched.NodeInfo) -> bool:
        return True

    enabled = {"enabled": [{"name": "Theirs"}, {"name": "NodeName"}], "disabled": [{"name": "*"}]}
    profile = {"plugins": {"filter": enabled}, "pluginConfig": [{"name": "Theirs", "args": {}}]}
    config, missing = adapted({"profiles": [profile]}, [mine], enabled=True)
    assert missing == ["Theirs"]
    assert config["profiles"][0]["plugins"] == {
        "filter": {"enabled": [{"name": "NodeName"}], "disabled": [{"name": "*"}]},
        "multiPoint": {"enabled": [{"name": "mine"}]},
    }
    assert config["profiles"][0]["pluginConfig"] == []
