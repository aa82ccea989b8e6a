"""The first seed's walk-through, by plugin and by extender."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import AppRunner, TCPSite
from index_extender import PATH, PORT, app
from index_scheduling import IndexScheduling, mismatch

from kubesched.simulator import ScenarioClient
from kubesched.simulator import node as machine
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

HERE = Path(__file__).parent
WORKERS = [node("worker01.home.local"), node("worker02.home.local")]
SAMPLES = [pod(f"sample-0{number}", scheduler="index-scheduler") for number in (1, 2, 3)]
EXPECTED = ["worker01.home.local", "worker02.home.local", ""]


def test_by_plugin(cluster: VirtualCluster) -> None:
    """sample-01 and sample-02 go to the workers of their number; sample-03 is pending until there is one for it."""
    cluster.know(IndexScheduling)
    cluster.configure(HERE / "index-scheduler.yaml")
    cluster.add(*WORKERS)
    assert [cluster.schedule(each).node for each in SAMPLES] == EXPECTED
    message = cluster.decision("sample-03").message
    assert message.startswith("0/2 nodes are available: 2 Failed to schedule., 2 number does not match.")
    cluster.add(node("worker03.home.local"))
    cluster.advance(10)
    assert cluster.node_of("sample-03") == "worker03.home.local"


@pytest.fixture
def port(cluster: VirtualCluster) -> Iterator[int]:
    """The port of an extender that serves in the cluster's event loop."""
    runner = AppRunner(app(), shutdown_timeout=0.1)

    async def serve() -> int:
        await runner.setup()
        await TCPSite(runner, "127.0.0.1", 0).start()
        return int(runner.addresses[0][1])

    yield cluster.run(serve())
    cluster.run(runner.cleanup())


@pytest.mark.parametrize("names_only", [True, False])
def test_by_extender(cluster: VirtualCluster, port: int, names_only: bool) -> None:
    """The same over HTTP, with nodes sent as names and as objects."""
    text = (HERE / "index-extender.yaml").read_text("utf-8")
    text = text.replace(f":{PORT}", f":{port}").replace("Capable: true", f"Capable: {str(names_only).lower()}")
    cluster.configure(text)
    cluster.add(*WORKERS)
    assert [cluster.schedule(each).node for each in SAMPLES] == EXPECTED
    assert "2 number does not match" in cluster.decision("sample-03").message


async def test_what_the_extender_refuses() -> None:
    """Another method is a 405; no body, no JSON and no pod are a 400."""
    async with TestClient(TestServer(app())) as client:
        assert (await client.get(PATH)).status == 405
        for body in (b"", b"{", b"[]", b"{}", b'{"Pod": null, "NodeNames": []}', b'{"Pod": {}, "NodeNames": []}'):
            assert (await client.post(PATH, data=body)).status == 400
        answer = await client.post(PATH, json={"Pod": {"metadata": {"name": "a-1"}}, "NodeNames": ["n1", "n2"]})
        assert answer.status == 200
        result = await answer.json()
        assert (result["NodeNames"], result["FailedNodes"]) == (["n1"], {"n2": "number does not match"})


@pytest.mark.parametrize(
    ("pod_name", "node_name", "reason"),
    [
        ("sample-01", "worker1", ""),
        ("sample-10", "worker01.home.local", "number does not match"),
        ("sample", "worker01", "pod's name does not end with number"),
        ("sample-1", "worker.zone-1", "node's name does not end with number"),
    ],
)
def test_the_rule(pod_name: str, node_name: str, reason: str) -> None:
    """Trailing numbers are compared as numbers, of a node's name only the host part counts."""
    assert mismatch(pod_name, node_name) == reason


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: two workers, the three samples of the manifest."""

    async def act(client: ScenarioClient) -> None:
        for number in (1, 2):
            await client.create(machine(f"worker0{number}.home.local"))
        await embedded.apply(client, "samples.yaml")
        await client.sleep(5)
        await client.expect(pod="sample-01", on_node="worker01.home.local", phase="Running")
        await client.expect(pod="sample-02", on_node="worker02.home.local", phase="Running")
        await client.expect(pod="sample-03", pending=True, because="2 Failed to schedule., 2 number does not match.")

    embedded.run(act, plugin="index_scheduling.py", config="index-scheduler.yaml")


def test_it_keeps_the_contract() -> None:
    """Deterministic, nothing changed, and pods are woken when their node comes."""
    check_plugin(IndexScheduling, nodes=[node("n1"), node("n2")], pods=[pod("a-1"), pod("a-2"), pod("a")])
