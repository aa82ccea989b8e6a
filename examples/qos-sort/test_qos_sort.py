"""The order in which pods are tried."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from qos_sort import BEST_EFFORT, BURSTABLE, GUARANTEED, QOSSort, qos_class

from kubesched import Pod
from kubesched.simulator import ScenarioClient
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

NONE = pod()
SOME = pod(cpu="500m")
ALL = pod(cpu="500m", memory="64Mi", limits={"cpu": "0.5", "memory": "64Mi"})
ONLY_LIMITS = pod(limits={"cpu": "1", "memory": "64Mi"})
LESS = pod(cpu="100m", limits={"cpu": "1", "memory": "64Mi"})
ZERO = pod(cpu="0", limits={"memory": 0})


def asking(name: str, like: Pod, priority: int = 0) -> Pod:
    """A pod with these requests."""
    return pod(name, containers=like.spec.containers, priority=priority)


def test_the_queue(cluster: VirtualCluster) -> None:
    """Priority counts first, then the class; of equals, the one that came first."""
    cluster.know(QOSSort)
    cluster.configure(Path(__file__).parent / "scheduler.yaml")
    cluster.add(
        node("n1"),
        asking("best-effort", NONE),
        asking("burstable", SOME),
        asking("guaranteed", ALL),
        asking("guaranteed-later", ALL),
        asking("important", NONE, priority=10),
    )
    cluster.start()
    tried = [each.pod.name for each in cluster.decisions]
    assert tried == ["important", "guaranteed", "guaranteed-later", "burstable", "best-effort"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([NONE], BEST_EFFORT),
        ([ZERO], BEST_EFFORT),
        ([SOME], BURSTABLE),
        ([LESS], BURSTABLE),
        ([ALL, NONE], BURSTABLE),
        ([ALL], GUARANTEED),
        ([ALL, ONLY_LIMITS], GUARANTEED),
    ],
)
def test_the_class_of_a_pod(pods: list[Pod], expected: int) -> None:
    """As Kubernetes defines it: by CPU and memory of all containers, and 500m is 0.5."""
    assert qos_class(pod(containers=[container for each in pods for container in each.spec.containers])) == expected


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: pods, then a node with room for two; the pod without requests waits."""

    async def act(client: ScenarioClient) -> None:
        await embedded.apply(client, "pods.yaml")
        (machine,) = embedded.manifest("node.yaml")
        await client.create(machine | {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "2"}}})
        await client.sleep(15)
        await client.expect(pod="guaranteed", on_node="n1")
        await client.expect(pod="burstable", on_node="n1")
        await client.expect(pod="best-effort", pending=True, because="1 Too many pods")

    embedded.run(act, plugin="qos_sort.py", config="scheduler.yaml")


def test_it_keeps_the_contract() -> None:
    """It can be run, and changes nothing."""
    check_plugin(QOSSort)
