"""The scenarios of the learning scheduler's steps 3 to 5, on virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from node_number import NodeNumber, last_digit

from kubesched.simulator import ScenarioClient
from kubesched.simulator import node as machine
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

CONFIG = Path(__file__).parent / "scheduler.yaml"


@pytest.fixture
def ten(cluster: VirtualCluster) -> VirtualCluster:
    """node0 to node9, and the configuration."""
    cluster.know(NodeNumber)
    cluster.configure(CONFIG)
    cluster.add(*(node(f"node{number}") for number in range(10)))
    return cluster


def test_equal_digits_win(ten: VirtualCluster) -> None:
    """pod1 goes to node1 and pod3 to node3: 10 points there, none elsewhere."""
    decision = ten.schedule(pod("pod1", scheduler="node-number"))
    assert decision.node == "node1", decision.explain()
    assert [scores["NodeNumber"] for scores in decision.node_scores.values()] == [0, 10, *[0] * 8]
    assert ten.schedule(pod("pod3", scheduler="node-number")).node == "node3"


def test_pods_wait_as_long_as_the_digit_says(ten: VirtualCluster) -> None:
    """After four seconds pod1 is bound and pod9 is not; seven seconds later pod9 is on node9."""
    for name in ("pod1", "pod9"):
        ten.schedule(pod(name, scheduler="node-number"))
    ten.advance(4)
    assert (ten.node_of("pod1"), ten.node_of("pod9")) == ("node1", "")
    ten.advance(7)
    assert ten.node_of("pod9") == "node9"


def test_zero_does_not_wait(ten: VirtualCluster) -> None:
    """The original could allow such a pod before it waited, and crash."""
    ten.schedule(pod("pod0", scheduler="node-number"))
    assert ten.node_of("pod0") == "node0"


def test_a_pod_without_a_digit_goes_anywhere(ten: VirtualCluster) -> None:
    """The original failed to score it; here nothing is preferred."""
    decision = ten.schedule(pod("web", scheduler="node-number"))
    assert decision.node, decision.explain()


def test_a_pod_that_is_deleted_while_it_waits(ten: VirtualCluster) -> None:
    """Its timer finds no pod, and a later pod with the same UID waits its full time."""
    waits = pod("pod9", scheduler="node-number")
    ten.schedule(waits)
    ten.advance(5)
    ten.remove(waits)
    ten.schedule(waits)
    ten.advance(5)
    assert ten.node_of("pod9") == ""
    ten.advance(4.1)
    assert ten.node_of("pod9") == "node9"
    assert ten.log.errors() == []


def test_reverse(cluster: VirtualCluster) -> None:
    """With `reverse` the node of the same digit is the worst."""
    cluster.use(NodeNumber, args={"reverse": True})
    cluster.add(node("node1"), node("node2"))
    decision = cluster.schedule(pod("pod1"))
    assert {name: scores["NodeNumber"] for name, scores in decision.node_scores.items()} == {"node1": 0, "node2": 10}


def test_only_the_last_character_counts() -> None:
    """One digit, and only one that int() of Go reads."""
    assert [last_digit(name) for name in ("node10", "node3", "node", "", "node\u0663")] == [0, 3, None, None, None]


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: bound after one, three and nine seconds, side by side."""

    async def act(client: ScenarioClient) -> None:
        for number in range(1, 10):
            await client.create(machine(f"node{number}"))
        await embedded.apply(client, "pods.yaml")
        await client.sleep(4)
        await client.expect(pod="pod1", on_node="node1")
        await client.expect(pod="pod3", on_node="node3")
        await client.expect(pod="pod9", pending=True)
        await client.sleep(6)
        await client.expect(pod="pod9", on_node="node9")

    embedded.run(act, plugin="node_number.py", config="scheduler.yaml")


def test_it_keeps_the_contract() -> None:
    """Deterministic, in range, the same for a node alone as among others."""
    check_plugin(NodeNumber, nodes=[node("node1"), node("node2")], pods=[pod("pod1"), pod("web")])
