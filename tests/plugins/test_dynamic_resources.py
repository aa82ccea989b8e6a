"""DynamicResources as far as it goes: claims keep a pod waiting, and without claims nobody notices it."""

from __future__ import annotations

from tests.builders import cluster, node, pod
from tests.harness import default_engine, schedule

from kubesched.engine.outcome import Outcome


def test_a_pod_with_claims_waits_and_is_told_why() -> None:
    """The message says what is missing, and that no preemption would help; nothing else."""
    decision = schedule(default_engine(cluster(node("a"), node("b"))), pod("p", resource_claims=["gpu"]))
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message == (
        "0/2 nodes are available: pod has resource claims, and this version of kubesched does not allocate resource "
        "claims yet. no new claims to deallocate, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )


def test_a_pod_without_claims_does_not_notice() -> None:
    """The plugin keeps nobody else from a node."""
    assert schedule(default_engine(cluster(node("a"))), pod("p")).node == "a"
