"""CapacityScheduling: guaranteed amounts, borrowing, and taking back, with the cases of upstream's tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.contrib.support import preemptor

from kubesched import Pod
from kubesched.contrib.capacity_scheduling import CapacityScheduling
from kubesched.contrib.elastic_quotas import ElasticQuota, exceeds
from kubesched.testing import VirtualCluster, check_plugin, node, pod

LOW, MIDDLE, HIGH = 10, 100, 1000


def quota(namespace: str, least: int, most: int | None = None, **more: Any) -> ElasticQuota:
    """A quota of memory."""
    spec: dict[str, Any] = {"min": {"memory": least}} | ({} if most is None else {"max": {"memory": most}})
    metadata = {"name": "quota", "namespace": namespace}
    return msgspec.convert({"metadata": metadata, "spec": spec | more}, ElasticQuota)


def asking(name: str, namespace: str, memory: int, priority: int = MIDDLE, **more: Any) -> Pod:
    """A pod that requests memory alone."""
    return pod(name, namespace=namespace, memory=memory, priority=priority, **more)


@pytest.fixture
def quotas(cluster: VirtualCluster) -> VirtualCluster:
    """The plugin, as in upstream's sample configuration."""
    cluster.configure(preemptor("CapacityScheduling"))
    return cluster


def test_no_more_than_max(quotas: VirtualCluster) -> None:
    """Of at most 2000, 300 are used: 500 more are possible within the guaranteed 1000, 1800 more are not."""
    quotas.add(node("n1"), quota("ns1", 1000, 2000), asking("there", "ns1", 300, node="n1"))
    message = quotas.schedule(asking("p2", "ns1", 1800)).message
    assert "Pod ns1/p2 is rejected in PreFilter because ElasticQuota ns1 is more than Max" in message
    assert quotas.schedule(asking("p1", "ns1", 500)).node == "n1"


def test_no_more_than_all_that_is_guaranteed(quotas: VirtualCluster) -> None:
    """One namespace has borrowed so much that nothing is left."""
    quotas.add(node("n1"), quota("ns1", 1000, 2000), quota("ns2", 1000, 2000))
    quotas.add(asking("a", "ns1", 1800, node="n1"), asking("b", "ns2", 200, node="n1", priority=HIGH))
    message = quotas.schedule(asking("p", "ns1", 100)).message
    assert "Pod ns1/p is rejected in PreFilter because total ElasticQuota used is more than min" in message


def test_namespaces_without_a_quota(quotas: VirtualCluster) -> None:
    """They may use what they like, and pods of quotas are no victims of theirs."""
    quotas.add(node("n1", memory="150"), quota("ns1", 200), asking("a", "ns1", 100, LOW, node="n1"))
    assert quotas.schedule(asking("p1", "free", 50)).node == "n1"
    message = quotas.schedule(asking("p2", "free", 100, HIGH)).message
    assert "1 Insufficient memory" in message
    assert quotas.api.get(Pod, "ns1/a") is not None
    assert quotas.api.get(Pod, "free/p1") is not None


@pytest.mark.parametrize(
    ("bounds", "victims"),
    [
        ({"ns1": 50, "ns2": 200}, ["ns1/p2"]),  # beyond its guaranteed 50: only its own pods
        ({"ns1": 150, "ns2": 50}, ["ns2/p3", "ns2/p4"]),  # within its 150: one of those that borrow
        ({}, ["ns1/p2", "ns2/p3", "ns2/p4"]),  # no quotas: by priority alone
    ],
)
def test_who_is_evicted(quotas: VirtualCluster, bounds: dict[str, int], victims: list[str]) -> None:
    """A full node has one pod of the preemptor's namespace and two of another."""
    quotas.add(node("n1", memory="150"), *(quota(name, least, 200) for name, least in bounds.items()))
    quotas.add(*(asking(f"p{n}", f"ns{1 + (n > 2)}", 50, node="n1") for n in (2, 3, 4)))
    quotas.schedule(asking("p1", "ns1", 50, HIGH))
    gone = [key for key in ("ns1/p2", "ns2/p3", "ns2/p4") if quotas.api.get(Pod, key) is None]
    assert len(gone) == 1
    assert gone[0] in victims
    quotas.advance(3)
    assert quotas.node_of("p1", "ns1") == "n1"


def test_a_namespace_that_borrows_loses_no_more_than_it_borrowed(quotas: VirtualCluster) -> None:
    """ns2 is guaranteed 50 and uses 100: 100 are not to be had by evicting its pods."""
    quotas.add(node("n1", memory="150"), quota("ns1", 150, 200), quota("ns2", 50, 200))
    quotas.add(*(asking(f"q{n}", "ns2", 50, node="n1") for n in range(3)))
    quotas.schedule(asking("p1", "ns1", 100, HIGH))
    quotas.advance(3)
    assert [quotas.api.get(Pod, f"ns2/q{n}") is None for n in range(3)].count(True) == 2
    assert quotas.node_of("p1", "ns1") == "n1"
    quotas.schedule(asking("p2", "ns1", 50, HIGH))
    assert sum(quotas.api.get(Pod, f"ns2/q{n}") is not None for n in range(3)) == 1


def test_a_pod_that_never_preempts(quotas: VirtualCluster) -> None:
    """preemptionPolicy Never is respected."""
    quotas.add(node("n1", memory="100"), quota("ns1", 200), asking("a", "ns1", 100, LOW, node="n1"))
    decision = quotas.schedule(asking("p", "ns1", 100, HIGH, preemption_policy="Never"))
    assert "not eligible due to preemptionPolicy=Never." in decision.message


def test_room_in_the_quota_wakes_a_pod(quotas: VirtualCluster) -> None:
    """A larger quota, or a pod that goes, lets the next one start."""
    quotas.add(node("n1"), quota("ns1", 100, 100), asking("a", "ns1", 100, node="n1"))
    quotas.schedule(asking("p1", "ns1", 50))
    quotas.schedule(asking("p2", "ns1", 50))
    quotas.add(quota("ns1", 150, 150))
    quotas.advance(2)
    assert quotas.node_of("p1", "ns1") == "n1"
    assert quotas.node_of("p2", "ns1") == ""
    quotas.remove(quotas.pod("a", "ns1"))
    quotas.advance(12)
    assert quotas.node_of("p2", "ns1") == "n1"


@pytest.mark.parametrize(
    ("request_", "used", "bound", "unbound", "expected"),
    [
        ({"memory": 10}, {"memory": 90}, {"memory": 100}, None, False),
        ({"memory": 11}, {"memory": 90}, {"memory": 100}, None, True),
        ({"cpu": 1}, {}, {"memory": 100}, None, True),  # upstream: a native resource that is not named is bounded by 0
        ({"example.com/gpu": 1}, {}, {}, 0, True),
        ({"example.com/gpu": 1}, {}, {}, None, False),
        ({"example.com/gpu": 1}, {"example.com/gpu": 1}, {"example.com/gpu": 1}, None, True),
        ({}, {"example.com/gpu": 5}, {}, 0, False),
    ],
)
def test_bounds(
    request_: dict[str, int], used: dict[str, int], bound: dict[str, int], unbound: int | None, expected: bool
) -> None:
    """Request and usage together are compared, resource by resource."""
    assert exceeds(request_, used, bound, unbound) is expected


def test_the_contract() -> None:
    """Deterministic, and nothing changed."""
    check_plugin(CapacityScheduling)
