"""PreemptionToleration: who is protected from whom, and for how long, with the cases of upstream's tables."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from tests.contrib.support import preemptor

from kubesched import Pod
from kubesched.api.objects import PodCondition, PriorityClass
from kubesched.contrib.preemption_toleration import MINIMUM, SECONDS, PreemptionToleration
from kubesched.testing import ConfigError, VirtualCluster, check_plugin, node, pod


def tolerant(value: int, minimum: str | None = None, seconds: str | None = None) -> PriorityClass:
    """A priority class with a policy."""
    given = {MINIMUM: minimum, SECONDS: seconds}
    annotations = {key: text for key, text in given.items() if text is not None}
    return msgspec.convert(
        {"metadata": {"name": "tolerant", "annotations": annotations}, "value": value}, PriorityClass
    )


def victim(priority: int, scheduled: str = "2026-01-01T00:00:00Z") -> Pod:
    """A pod of that class which fills its node."""
    done = [PodCondition(type="PodScheduled", status="True", last_transition_time=scheduled)] if scheduled else []
    made = pod("victim", node="n1", cpu="4", priority=priority, conditions=done)
    return replace(made, spec=replace(made.spec, priority_class_name="tolerant"))


def evicts(cluster: VirtualCluster, each: Pod, priority: int) -> bool:
    """Whether a pod starts in place of another."""
    cluster.configure(preemptor("PreemptionToleration"))
    cluster.add(node("n1"), each)
    cluster.schedule(pod("p", cpu="4", priority=priority))
    return cluster.api.get(Pod, each.key) is None


@pytest.mark.parametrize(
    ("found", "scheduled", "priority", "evicted"),
    [
        (tolerant(100), "2025-01-01T00:00:00Z", 101, True),  # no policy
        (tolerant(100, "a"), "2026-01-01T00:00:00Z", 150, True),  # not a number: no protection
        (tolerant(100, "200", "a"), "2026-01-01T00:00:00Z", 150, True),
        (tolerant(100, "2_00"), "2026-01-01T00:00:00Z", 150, True),  # neither is this for Go
        (tolerant(100, str(1 << 31), "-1"), "2026-01-01T00:00:00Z", 150, True),  # nor this for 32 bits
        (tolerant(100, "+200", "-1"), "2026-01-01T00:00:00Z", 150, False),
        (tolerant(100, "200", "3600"), "2026-01-01T00:00:00Z", 201, True),  # important enough
        (tolerant(100, "200", "3600"), "2026-01-01T00:00:00Z", 200, True),
        (tolerant(100, "200", "0"), "2026-01-01T00:00:00Z", 199, True),  # protected for no time
        (tolerant(100, "200", "-1"), "2001-01-01T00:00:00Z", 199, False),  # for ever
        (tolerant(100, "200", "100"), "2025-12-31T23:58:19Z", 199, True),  # the time is over
        (tolerant(100, "200", "100"), "2025-12-31T23:59:50Z", 199, False),  # it is not
        (tolerant(100, "200", "100"), "", 199, False),  # it is just being bound
    ],
)
def test_who_is_protected(
    cluster: VirtualCluster, found: PriorityClass, scheduled: str, priority: int, evicted: bool
) -> None:
    """The clock shows the first second of 2026."""
    cluster.add(found)
    assert evicts(cluster, victim(100, scheduled), priority) is evicted
    if not evicted:
        assert "No victims found on node n1 for preemptor pod p" in cluster.decision("p").message


def test_a_class_that_does_not_exist(cluster: VirtualCluster) -> None:
    """The attempt fails and says so."""
    evicts(cluster, victim(100), 150)
    assert 'priorityclass.scheduling.k8s.io "tolerant" not found' in cluster.decision("p").message


def test_a_class_that_does_not_exist_matters_on_its_node_alone(cluster: VirtualCluster) -> None:
    """Room is made on another node."""
    cluster.add(node("n2"), pod("plain", node="n2", cpu="4", priority=5))
    evicts(cluster, victim(100), 150)
    cluster.advance(2)
    assert cluster.node_of("p") == "n2"


def test_pods_without_a_class_are_evicted_by_priority(cluster: VirtualCluster) -> None:
    """As with DefaultPreemption; and a pod of equal priority is not."""
    assert evicts(cluster, pod("plain", node="n1", cpu="4", priority=5), 6)
    cluster.advance(2)
    assert "No victims found on node n1" in cluster.schedule(pod("q", cpu="4", priority=6)).message


def test_protection_ends(cluster: VirtualCluster) -> None:
    """A pod that was held off starts once the time is over and it is tried again."""
    cluster.add(tolerant(100, "200", "60"))
    assert not evicts(cluster, victim(100), 150)
    cluster.advance(400)  # it is tried again after five minutes without an event
    assert cluster.node_of("p") == "n1"


def test_wrong_arguments(cluster: VirtualCluster) -> None:
    """Those of DefaultPreemption, with its limits."""
    cluster.configure(preemptor("PreemptionToleration", {"minCandidateNodesPercentage": 101}))
    with pytest.raises(ConfigError, match=r"minCandidateNodesPercentage is not in valid range \[0, 100\]: 101"):
        cluster.start()


def test_the_contract() -> None:
    """Deterministic, and nothing changed."""
    check_plugin(PreemptionToleration)
