"""The naive oracle knows the rules that the simulated workloads use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import node, pod

from kubesched.api.builders import ZONE, affinity, node_term, pod_term, spread
from kubesched.torture.oracle import SeenCluster, fits, objections

APP = {"app": "web"}


@pytest.mark.parametrize(
    ("fields", "running", "objection"),
    [
        ({"cpu": "1"}, {}, ""),
        ({"cpu": "3"}, {"cpu": "2"}, "cpu: 2000 are used and 3000 requested of 4000"),
        ({"host_ports": (80,)}, {"host_ports": (80,)}, "has host port 80"),
        ({"host_ports": (80,)}, {"host_ports": (81,)}, ""),
        ({"node_selector": {ZONE: "b"}}, {}, "is a and not b"),
        ({"affinity": affinity(nodes=[node_term((ZONE, "In", "b"))])}, {}, "no term of the node affinity"),
        ({"affinity": affinity(away=[pod_term(APP, ZONE)])}, {"labels": APP}, "its anti-affinity forbids"),
        ({"labels": APP}, {"affinity": affinity(away=[pod_term(APP)])}, "default/old's anti-affinity forbids"),
        ({"labels": APP, "spread": [spread(APP)]}, {"labels": APP}, "2 matching pods"),
        ({"labels": APP, "spread": [spread(APP, skew=2)]}, {"labels": APP}, ""),
    ],
)
def test_rules(fields: dict[str, Any], running: dict[str, Any], objection: str) -> None:
    """Each rule is broken by one pod beside another on a node, or is not."""
    nodes = [node("n1", zone="a"), node("n2", zone="b")]
    view = SeenCluster(nodes, [(pod("old", **running), "n1")])
    found = list(objections(pod("new", **fields), "n1", view))
    assert bool(found) is bool(objection)
    assert fits(pod("new", **fields), "n1", view) is not bool(objection)
    assert objection in "".join(found)


def test_rules_of_nodes() -> None:
    """Taints, cordons, full nodes and nodes that do not exist are objections."""
    nodes = [node("tainted", taints=["a:NoExecute"]), node("closed", unschedulable=True), node("full", pods=1)]
    view = SeenCluster(nodes, [(pod("old"), "full")])
    assert [*objections(pod("new"), "tainted", view)] == ["taint a:NoExecute is not tolerated"]
    assert [*objections(pod("new", tolerations=["a"]), "tainted", view)] == []
    assert [*objections(pod("new"), "closed", view)] == [
        "taint node.kubernetes.io/unschedulable:NoSchedule is not tolerated"
    ]
    assert [*objections(pod("new"), "full", view)] == ["the node has 1 pods already"]
    assert [*objections(pod("new"), "gone", view)] == ["the node does not exist"]
