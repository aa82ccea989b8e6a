"""Cached results of a third-party plugin are computed again when anything changes that they may read."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from kubesched import CycleState, Ints, Node, Nodes, Plugin, Pod, Reads, Verdicts, reject, unschedulable
from kubesched.api.objects import NodeCondition
from kubesched.testing import VirtualCluster, node, pod

NO = unschedulable("no")


class ByAnnotation(Plugin):
    """Reads fields that are in no column."""

    name = "ByAnnotation"
    reads = Reads.NODE
    calls = 0

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        ByAnnotation.calls += 1
        return reject(nodes.by_node(lambda each: each.node.annotations.get("asleep") == "yes") > 0, NO)

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        quiet = nodes.by_node(lambda each: any(c.status == "True" for c in each.node.status.conditions))
        return quiet.astype(np.int64) * 100


def with_condition(name: str, status: str) -> Node:
    made = node(name)
    return replace(made, status=replace(made.status, conditions=(NodeCondition("Quiet", status),)))


def test_annotations_and_conditions_of_nodes(cluster: VirtualCluster) -> None:
    """A change of either reaches the next pod of the same template; a heartbeat does not."""
    cluster.use(ByAnnotation, weight=1000)
    cluster.add(node("n1"), node("n2"))
    cluster.schedule(pod("a"))
    cluster.add(node("n1", annotations={"asleep": "yes"}))
    assert cluster.schedule(pod("b")).node == "n2"
    cluster.add(node("n1"), with_condition("n2", "False"))
    cluster.add(with_condition("n1", "True"))
    assert cluster.schedule(pod("c")).node == "n1"
    before = ByAnnotation.calls
    cluster.add(with_condition("n1", "True"))
    cluster.schedule(pod("d"))
    assert ByAnnotation.calls == before


class Crowded(Plugin):
    """Reads fields of the pods on a node that their class does not include."""

    name = "Crowded"
    reads = Reads.PODS

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        return reject(nodes.by_node(lambda each: any("busy" in info.pod.annotations for info in each.pods)) > 0, NO)


def test_annotations_of_pods_on_nodes(cluster: VirtualCluster) -> None:
    """When a running pod gets an annotation, its node is evaluated again."""
    cluster.use(Crowded)
    cluster.add(node("n1"), pod("runs", node="n1"))
    assert cluster.schedule(pod("a")).node == "n1"
    cluster.add(pod("runs", node="n1", annotations={"busy": "yes"}))
    assert cluster.schedule(pod("b")).node == ""


@pytest.mark.parametrize("plugin", [None, ByAnnotation])
def test_without_such_plugins_nothing_is_computed_twice(cluster: VirtualCluster, plugin: type[Plugin] | None) -> None:
    """The table compares nodes closely only if a third-party plugin has cached results."""
    if plugin is not None:
        cluster.use(plugin)
    cluster.add(node("n1"))
    table = cluster.scheduler.cluster.nodes
    before = table.node_version
    cluster.add(node("n1", annotations={"load": "0.7"}))
    assert (table.node_version != before) == (plugin is not None)
