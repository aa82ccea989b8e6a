"""The fourth seed's walk-through: pending with its event, a label, scheduled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from sample2 import Sample2

from kubesched.simulator import ScenarioClient
from kubesched.simulator import node as machine
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

HERE = Path(__file__).parent


@pytest.fixture
def two(cluster: VirtualCluster) -> VirtualCluster:
    """The two nodes of the seed, and its v1beta1 configuration."""
    cluster.know(Sample2)
    cluster.configure(HERE / "scheduler-config.yaml")
    cluster.add(node("gpu02-poweredge-t420"), node("gpu03-poweredge-t420"))
    return cluster


def test_pending_until_a_node_has_the_label(two: VirtualCluster) -> None:
    """The FailedScheduling event names both nodes; the label wakes the pod, and it goes where the label is."""
    two.schedule(pod("web", scheduler="sample-scheduler"))
    (failed,) = two.events.of("web", "FailedScheduling")
    assert failed.startswith("0/2 nodes are available: 1 Node: gpu02-poweredge-t420, 1 Node: gpu03-poweredge-t420.")
    two.advance(60)
    assert two.attempts("web") == 1
    two.add(node("gpu02-poweredge-t420", labels={"cpu": "true"}))
    two.advance(10)
    (scheduled,) = two.events.of("web", "Scheduled")
    assert scheduled == "Successfully assigned default/web to gpu02-poweredge-t420"


def test_two_nodes_with_the_label_are_one_too_many(two: VirtualCluster) -> None:
    """To choose, nodes are scored; that fails, since the configuration disables the PreScore that TaintToleration
    needs, as it does in kube-scheduler."""
    two.add(*(node(f"n{number}", labels={"cpu": "true"}) for number in (1, 2)))
    decision = two.schedule(pod("web", scheduler="sample-scheduler"))
    assert (decision.node, decision.plugin) == ("", "TaintToleration")


def test_pre_score_sees_the_nodes_that_are_left(cluster: VirtualCluster) -> None:
    """Beside the default plugins it works with any number of nodes, and lists those with the label."""
    cluster.use(Sample2)
    cluster.add(node("n0"), *(node(f"n{number}", labels={"cpu": "true"}) for number in (1, 2)))
    assert cluster.schedule(pod("web")).node in ("n1", "n2")
    (line,) = (each for each in cluster.log if each.message == "collect info for scheduling pod")
    assert line.fields["nodes"] == ["n1", "n2"]


def test_the_deployment_mounts_what_is_here() -> None:
    """The ConfigMap of the deployment holds the configuration and the plugin beside it, to the letter."""
    objects = list(yaml.safe_load_all((HERE / "sample-scheduler.yaml").read_text("utf-8")))
    (data,) = (each["data"] for each in objects if each["kind"] == "ConfigMap")
    assert data == {name: (HERE / name).read_text("utf-8") for name in ("scheduler-config.yaml", "sample2.py")}


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: a Deployment's pod waits, a node is labelled, the pod runs there."""

    async def act(client: ScenarioClient) -> None:
        for number in (1, 2):
            await client.create(machine(f"node-{number}"))
        await embedded.apply(client, "test-scheduler.yaml")
        await client.sleep(5)
        app = {"app": "test-scheduler"}
        why = "0/2 nodes are available: 1 Node: node-1, 1 Node: node-2."
        await client.expect(labels=app, count=1, pending=True, because=why)
        await client.patch("Node", "node-1", {"metadata": {"labels": {"cpu": "true"}}})
        await client.sleep(5)
        await client.expect(labels=app, count=1, on_node="node-1", phase="Running")

    embedded.run(act, plugin="sample2.py", config="scheduler-config.yaml")


def test_it_keeps_the_contract() -> None:
    """Deterministic, nothing changed, and pods are woken by nodes that fit."""
    check_plugin(Sample2, labels={"cpu": ["true", "false"]})
