"""A running cluster is read with a kubeconfig, also where an event loop runs already, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.client.kubeconfig import KubeconfigError
from kubesched.library.cluster import Cluster
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
