"""The order in which pods are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from qos_sort import BEST_EFFORT, BURSTABLE, GUARANTEED, QOSSort, qos_class

from kubesched import Pod
from kubesched.testing import VirtualCluster, check_plugin, node, pod

NONE = pod()
SOME = pod(cpu="500m")
ALL = pod(cpu="500m", memory="64Mi", limits={"cpu": "0.5", "memory": "64Mi"})
ONLY_LIMITS = pod(limits={"cpu": "1", "memory": "64Mi"})
LESS = pod(cpu="100m", limits={"cpu": "1", "memory": "64Mi"})
ZERO = pod(cpu="0", limits={"memory": 0})


def asking(name: str, like: Pod, priority: int = 0) -> Pod:
    """A pod that asks for the same."""
    return pod(name, containers=like.spec.containers, priority=priority)


def test_the_queue(cluster: VirtualCluster) -> None:
    """Priority counts first, then the class; of equals, whoever came first."""
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
    """As Kubernetes tells it: by CPU and memory of all containers, and 500m is 0.5."""
    assert qos_class(pod(containers=[container for each in pods for container in each.spec.containers])) == expected


def test_it_keeps_the_contract() -> None:
    """It can be run, and changes nothing."""
    check_plugin(QOSSort)
