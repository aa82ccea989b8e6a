"""Fifteen pods that are pending for fifteen causes: each is named with numbers, and the first fix is one."""

from __future__ import annotations

import pytest
from tests.explain import fifteen

import kubesched
from kubesched.explain.change import Change
from kubesched.explain.explainer import Explainer
from kubesched.explain.report import PodReport
from kubesched.explain.standing import State

NOW = 1_767_261_900.0
"""Five minutes after the pods were created."""

EXPECTED = {
    "resources": "cpu short by 0.1: asks for 8, 7.9 free of 8",
    "taint": "taint gpu=yes:NoSchedule is not tolerated",
    "affinity": "term 2 of node affinity wants disk In [nvme ssd]: the node has disk=hdd",
    "anti-affinity": "term 1 of pod anti-affinity (app=lone): topology.kubernetes.io/zone=",
    "spread": "skew 3 > 1: topology.kubernetes.io/zone=a has 2 matching pods, the emptiest domain 0",
    "volume-zone": "volume pv-far of claim far is in topology.kubernetes.io/zone=d: the node is in",
    "missing-claim": "claim nowhere does not exist in namespace default",
    "budget": "cpu short by 3.6: asks for 4, 0.4 free of 8",
    "gate": "scheduling gates to be removed: example.com/quota",
    "port": "port 80/TCP is held by default/web-3",
    "scheduler": "for scheduler volcano",
    "devices": "asks for 2 of class gpu.example.com; the node has 1 device, 1 of them free",
    "class": "its storage class fast does not exist",
    "max-pods": "too many pods: 2 of at most 2 are there",
    "node-name": "names node ghost in spec.nodeName",
}

FIRST_FIX = {
    "resources": "ask for cpu 7.9 instead of 8",
    "taint": "tolerate gpu=yes:NoSchedule",
    "spread": "uncordon spread-2",
    "missing-claim": "create claim default/nowhere, for example with storage class standard",
    "budget": "evict default/batch-1, default/lone-db-2 from db-2",
    "gate": "remove the scheduling gate example.com/quota",
    "max-pods": "evict default/small-0 from small-1",
    "node-name": "recreate the pod without spec.nodeName",
}


@pytest.fixture(scope="module")
def cluster() -> kubesched.Cluster:
    """The cluster, loaded once."""
    return kubesched.Cluster(*fifteen.cluster())


@pytest.fixture(scope="module")
def explainer(cluster: kubesched.Cluster) -> Explainer:
    """One explainer for all pods."""
    return cluster.explainer(now=NOW)


@pytest.fixture(scope="module")
def reports(explainer: Explainer) -> dict[str, PodReport]:
    """The overview, by the pod's name."""
    return {each.pod.removeprefix("default/"): each for each in explainer.pending().pods}


def test_cluster_has_the_promised_size(cluster: kubesched.Cluster) -> None:
    """Forty nodes, three hundred pods on them, fifteen pending."""
    assert len(cluster.nodes) == 40
    assert len(cluster.pods) == 300 + 15
    assert len(fifteen.pending()) == 15


def test_overview_lists_exactly_the_pending_pods(reports: dict[str, PodReport]) -> None:
    """Every cause is there, with ages."""
    assert set(reports) == set(EXPECTED)
    assert {each.age_seconds for each in reports.values()} == {300.0}


@pytest.mark.parametrize("cause", EXPECTED)
def test_cause_is_named_with_numbers(reports: dict[str, PodReport], cause: str) -> None:
    """What blocks the pod is said with its numbers and names."""
    assert EXPECTED[cause] in reports[cause].blocked_by


@pytest.mark.parametrize("cause", FIRST_FIX)
def test_first_fix_is_the_smallest(reports: dict[str, PodReport], cause: str) -> None:
    """Where one change is clearly the smallest, it comes first."""
    assert reports[cause].suggestions[0].words == FIRST_FIX[cause]


@pytest.mark.parametrize("cause", EXPECTED)
def test_first_fix_makes_the_pod_schedulable(cluster: kubesched.Cluster, explainer: Explainer, cause: str) -> None:
    """The changes are made in another cluster, by its public methods, and the pod gets a node there."""
    explainer.pod(explainer.find(f"default/{cause}"))
    first = explainer.tried[f"default/{cause}"][0]
    trial = cluster.copy()
    pod = next(each for each in trial.pods if each.name == cause)
    trial.remove(pod)
    assert trial.schedule(_applied(trial, first.changes, pod)).node


def _applied(cluster: kubesched.Cluster, changes: tuple[Change, ...], pod: kubesched.Pod) -> kubesched.Pod:
    for change in changes:
        pod = change.edit(pod) if change.edit is not None else pod
        if change.node_edit is not None:
            cluster.add(change.node_edit(cluster.node(change.node)))
        cluster.add(*change.objects)
        cluster.remove(*change.removed)
    return pod


def test_without_a_fix_the_pods_stay_pending(cluster: kubesched.Cluster, explainer: Explainer) -> None:
    """Explaining has changed nothing: the undecided pods still get no node."""
    undecided = [each for each in cluster.pending if each.name not in ("gate", "scheduler")]
    assert [each.name for each in undecided if cluster.schedule(each).node] == []


def test_every_rejecting_plugin_is_named(explainer: Explainer) -> None:
    """A node that two plugins reject says so, where kube-scheduler's message has only the first."""
    report = explainer.pod(explainer.find("default/spread"))
    refusals = {each.node: [refusal.plugin for refusal in each.refusals] for each in report.nodes}
    assert refusals["spread-2"] == ["NodeUnschedulable"]
    assert refusals["gpu-1"] == ["TaintToleration", "NodeAffinity", "PodTopologySpread"]


@pytest.mark.parametrize("cause", [each for each in EXPECTED if each not in ("gate", "scheduler", "node-name")])
def test_first_rejection_is_that_of_the_scheduling_cycle(
    cluster: kubesched.Cluster, explainer: Explainer, cause: str
) -> None:
    """On every node, the first plugin and its message are those that kube-scheduler's message counts."""
    pod = explainer.find(f"default/{cause}")
    report = {each.node: each.refusals[0] for each in explainer.pod(pod).nodes if each.refusals}
    decided = cluster.schedule(pod).rejected
    found = {node: (report[node].plugin, report[node].message) for node in decided}
    assert found == {node: (status.plugin, status.message) for node, status in decided.items()}


def test_pod_that_pre_filter_rejects_is_first_rejected_by_it(explainer: Explainer) -> None:
    """The cycle ends at PreFilter: what Filter plugins say of single nodes comes after that."""
    report = explainer.pod(explainer.find("default/missing-claim"))
    refusals = {each.node: [refusal.plugin for refusal in each.refusals] for each in report.nodes}
    assert {plugins[0] for plugins in refusals.values()} == {"VolumeRestrictions"}
    assert "NodeUnschedulable" in refusals["spread-2"]


def test_budgets_protect_pods_from_being_suggested(explainer: Explainer) -> None:
    """The pods under the budget are named as protected and never as victims."""
    report = explainer.pod(explainer.find("default/budget"))
    assert [(each.pod, each.budget, each.disruptions_allowed) for each in report.protected] == [
        ("default/db-2", "default/db", 0)
    ]
    assert not any("default/db-" in each.words for each in report.suggestions)


def test_single_plugins_left_out(explainer: Explainer) -> None:
    """The report says how many nodes would fit without each rejecting plugin."""
    report = explainer.pod(explainer.find("default/taint"))
    found = {each.plugins: each.nodes for each in report.without}
    assert found.items() >= {("TaintToleration",): 2, ("NodeAffinity",): 35}.items()


def test_one_node_is_scored_although_it_does_not_fit(explainer: Explainer) -> None:
    """Asked about a node, the report says what it would score and who would have to leave."""
    report = explainer.pod(explainer.find("default/port"), node="edge-1")
    (node,) = report.nodes
    assert node.refusals[0].details[0].values == {"port": 80, "protocol": "TCP", "heldBy": "default/web-3"}
    assert node.total is not None
    assert [each.pod for each in report.victims] == ["default/web-3"]


def test_bound_pod_is_decided_again(explainer: Explainer, cluster: kubesched.Cluster) -> None:
    """A pod on a node is decided as if it were not there, and afterwards it is there again."""
    report = explainer.pod(explainer.find("default/web-3"))
    assert report.state is State.BOUND
    assert (report.node, report.source) == ("edge-1", "decided")
    assert report.again
    assert report.influence
    assert any(each.name == "web-3" and each.node_name == "edge-1" for each in cluster.pods)
    assert explainer.find("default/web-3").uid in explainer.cluster.pods
