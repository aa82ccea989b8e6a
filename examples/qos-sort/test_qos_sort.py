"""The order in which pods are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from qos_sort import BEST_EFFORT, BURSTABLE, GUARANTEED, QOSSort, qos_class

from kubesched import Pod
from kubesched.api.objects import Container, ResourceRequirements
from kubesched.testing import VirtualCluster, check_plugin, node, pod

Amounts = dict[str, str | int | float]


def container(requests: Amounts, limits: Amounts) -> Container:
    """A container that asks for this much."""
    return Container(name="main", resources=ResourceRequirements(requests=requests, limits=limits))


NONE = container({}, {})
SOME = container({"cpu": "500m"}, {})
ALL = container({"cpu": "500m", "memory": "64Mi"}, {"cpu": "0.5", "memory": "64Mi"})
ONLY_LIMITS = container({}, {"cpu": "1", "memory": "64Mi"})
LESS = container({"cpu": "100m"}, {"cpu": "1", "memory": "64Mi"})
ZERO = container({"cpu": "0"}, {"memory": 0})


def asking(name: str, container: Container, priority: int = 0) -> Pod:
    """A pod with one container."""
    return pod(name, containers=[container], priority=priority)


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
    ("containers", "expected"),
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
def test_the_class_of_a_pod(containers: list[Container], expected: int) -> None:
    """As Kubernetes tells it: by CPU and memory of all containers, and 500m is 0.5."""
    assert qos_class(pod(containers=containers)) == expected


def test_it_keeps_the_contract() -> None:
    """It can be run, and changes nothing."""
    check_plugin(QOSSort)
