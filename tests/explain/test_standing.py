"""Pods that no decision is about have their own words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.explain import fifteen

import kubesched
from kubesched.explain.document import Table, Text, pod_document
from kubesched.explain.report import PodReport
from kubesched.explain.standing import Queued, State, standing


def stands(pod: dict[str, Any], *others: dict[str, Any], queued: Queued | None = None) -> tuple[State, str]:
    """The state of a pod in a cluster of one node, and its words."""
    cluster = kubesched.Cluster(fifteen.node("n1", 0), pod, *others)
    found = next(each for each in cluster.pods if each.name == pod["metadata"]["name"])
    place = standing(found, cluster.explainer().cluster, {"default-scheduler"}, queued)
    return place.state, place.words


def with_status(pod: dict[str, Any], **status: Any) -> dict[str, Any]:
    """The pod with a status."""
    return {**pod, "status": status}


def terminating(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, being deleted."""
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T10:05:00Z"}}


@pytest.mark.parametrize(
    ("pod", "state", "words"),
    [
        (fifteen.pod("a"), State.PENDING, ""),
        (fifteen.pod("a", nodeName="n1"), State.BOUND, "The pod is on n1."),
        (with_status(fifteen.pod("a"), phase="Failed"), State.FINISHED, "its phase is Failed"),
        (terminating(fifteen.pod("a")), State.TERMINATING, "being deleted (since 2026-01-01T10:05:00Z)"),
        (fifteen.pod("a", schedulerName="other"), State.FOREIGN, "it has default-scheduler"),
        (fifteen.pod("a", schedulingGates=[{"name": "x"}, {"name": "y"}]), State.GATED, "removed: x, y"),
    ],
)
def test_words_of_each_state(pod: dict[str, Any], state: State, words: str) -> None:
    """Every state has its own words."""
    found, said = stands(pod)
    assert found is state
    assert words in said


def test_nominated_pod_waits_for_its_victims() -> None:
    """The pods that are ending on the nominated node are named."""
    pod = with_status(fifteen.pod("a", priority=5), nominatedNodeName="n1")
    victim = terminating(fifteen.pod("victim", nodeName="n1"))
    assert stands(pod, victim) == (
        State.NOMINATED,
        "The pod is nominated to n1. It waits for default/victim to end.",
    )


def test_nothing_is_suggested_while_room_is_made() -> None:
    """A nominated pod whose victims are ending needs no other pod to be evicted."""
    pod = with_status(fifteen.pod("a", "6", priority=5), nominatedNodeName="n1")
    nodes = [fifteen.node("n1", 0), fifteen.node("n2", 1)]
    victim, other = (fifteen.pod(name, "6", nodeName=node) for name, node in (("victim", "n1"), ("other", "n2")))
    explainer = kubesched.Cluster(*nodes, pod, terminating(victim), other).explainer()
    report = explainer.pod(explainer.find("a"))
    assert (report.state, report.feasible, report.suggestions) == (State.NOMINATED, 0, ())
    explainer = kubesched.Cluster(*nodes, fifteen.pod("a", "6", priority=5), victim, other).explainer()
    assert explainer.pod(explainer.find("a")).suggestions


@pytest.mark.parametrize(
    ("queued", "state", "words"),
    [
        (Queued(queue="backoff", tries=4, until="10:00:08"), State.BACKOFF, "until 10:00:08 before it tries"),
        (Queued(queue="waiting", plugins=("Coscheduling",)), State.WAITING, "waits at Permit for Coscheduling"),
        (Queued(queue="inflight"), State.WAITING, "being bound, or waits at Permit"),
        (Queued(queue="unschedulable"), State.PENDING, ""),
    ],
)
def test_a_running_scheduler_knows_more(queued: Queued, state: State, words: str) -> None:
    """Backoff and Permit are known to the scheduler alone."""
    found, said = stands(fifteen.pod("a"), queued=queued)
    assert found is state
    assert words in said


def test_gate_is_removed_and_then_more_is_needed() -> None:
    """A gated pod that would not fit either gets both changes in one suggestion."""
    pod = fifteen.pod("a", "20", schedulingGates=[{"name": "x"}])
    cluster = kubesched.Cluster(fifteen.node("n1", 0), pod)
    report = cluster.explainer().pod(cluster.pending[0])
    assert report.suggestions[0].words == "remove the scheduling gate x, and ask for cpu 8 instead of 20"


def test_preemption_is_part_of_the_headline() -> None:
    """Where preemption makes room, the report names node and victims."""
    low = fifteen.pod("low", "6", nodeName="n1", priority=1)
    cluster = kubesched.Cluster(fifteen.node("n1", 0), low, fifteen.pod("high", "6", priority=9))
    report = cluster.explainer().pod(cluster.pending[0])
    assert report.headline == "default/high fits on none of 1 nodes; preemption makes room on n1"
    assert [each.pod for each in report.victims] == ["default/low"]


def test_no_nodes_at_all() -> None:
    """A cluster without nodes is said to be one."""
    cluster = kubesched.Cluster(fifteen.pod("a"))
    report = cluster.explainer().pending().pods[0]
    assert report.headline == "default/a: the cluster has no nodes"
    assert report.suggestions == ()


def test_events_that_wake_a_pod_are_in_words() -> None:
    """Kinds of which any change counts are named together, without their groups."""
    queued = Queued(queue="unschedulable", wakes=("Pod *", "storage.k8s.io/CSINode *", "Node Add"))
    report = PodReport(pod="default/web", state=State.PENDING, headline="pending", queued=queued)
    texts = [each.text for each in pod_document(report) if isinstance(each, Text)]
    assert texts == [
        "In the scheduler's queue: unschedulable. It would be tried again after: any change of Pod, CSINode; Node Add."
    ]


def test_a_pod_of_a_daemon_set_is_about_its_node() -> None:
    """That node comes first, and to let the pod go elsewhere is no help."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = fifteen.pod("ds", "6", affinity={"nodeAffinity": required})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    full = fifteen.pod("full", "8", priority=9, nodeName="n9")
    explainer = kubesched.Cluster(
        *(fifteen.node(f"n{number}", number) for number in range(1, 10)), pod, full
    ).explainer()
    report = explainer.pod(explainer.find("ds"))
    assert not [each.words for each in report.suggestions if "affinity" in each.words]
    (table,) = [each for each in pod_document(report) if isinstance(each, Table) and each.columns[0] == "node"]
    assert table.rows[0][0] == "n9"
