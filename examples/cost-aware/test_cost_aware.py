"""Cheap nodes first, priced by label or by table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cost_aware import CostAware

from kubesched.simulator import ScenarioClient
from kubesched.simulator import node as machine
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

PRICE, TYPE = "example.com/price-per-hour", "node.kubernetes.io/instance-type"


def test_the_cheapest_core_wins(cluster: VirtualCluster) -> None:
    """Label before table, price per core, nothing for an unknown price; and its weight of 10 decides."""
    cluster.know(CostAware)
    cluster.configure(Path(__file__).parent / "scheduler.yaml")
    cluster.add(
        node("spot", cpu="4", labels={PRICE: "0.04", TYPE: "c5.xlarge"}),  # 0.01 per core
        node("large", cpu="2", labels={TYPE: "m5.large"}),  # 0.048
        node("xlarge", cpu="4", labels={TYPE: "c5.xlarge"}),  # 0.0425
        node("unknown", cpu="4", labels={PRICE: "cheap"}),
    )
    decision = cluster.schedule(pod("web", cpu="1", scheduler="cost-aware"))
    assert decision.node == "spot", decision.explain()
    points = {name: scores["CostAware"] for name, scores in decision.node_scores.items()}
    assert points == {"spot": 1000, "large": 0, "xlarge": 140, "unknown": 0}


def test_without_any_price_nothing_is_preferred(cluster: VirtualCluster) -> None:
    """Nodes without a known price all get the same score."""
    cluster.use(CostAware)
    cluster.add(node("n1"), node("n2"))
    scores = cluster.schedule(pod("web")).node_scores
    assert {each["CostAware"] for each in scores.values()} == {0}


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: all replicas go to the cheapest node."""

    async def act(client: ScenarioClient) -> None:
        await client.create(machine("node-1", labels={TYPE: "m5.large"}))
        await client.create(machine("node-2", labels={TYPE: "c5.xlarge"}))
        await client.create(machine("node-3", labels={PRICE: "0.05"}))
        await embedded.apply(client, "deployment.yaml")
        await client.sleep(5)
        await client.expect(labels={"app": "web"}, count=3, on_node="node-3", phase="Running")

    embedded.run(act, plugin="cost_aware.py", config="scheduler.yaml")


def test_it_keeps_the_contract() -> None:
    """Scores are in range, and results can be cached: only the node is read."""
    prices = {PRICE: ["0.1", "0.25", "free", "-1", "inf"], TYPE: ["m5.large", "c5.xlarge"]}
    check_plugin(CostAware, labels=prices, args={"prices": {"m5.large": 0.096}})
