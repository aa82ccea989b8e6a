"""A cluster in memory answers what people ask about clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kubesched
from kubesched.api import objects as api
from kubesched.library.cluster import Cluster
from kubesched.library.results import Fate
from kubesched.testing import budget, node, owner, pod

WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: web, resources: {requests: {cpu: "1"}}}
"""
MOST_ALLOCATED = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ],
            "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        }
    ]
}


def test_load_reads_snapshots(tmp_path: Path) -> None:
    """What kubectl printed is a cluster, and what scheduling does not read is mentioned."""
    snapshot = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": 4}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n1"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}},
        ],
    }
    (tmp_path / "snapshot.json").write_text(json.dumps(snapshot))
    cluster = Cluster.load(tmp_path / "snapshot.json")
    assert repr(cluster) == "<Cluster: 1 nodes, 1 pods on them, 1 pending; ignored: 1 Secret>"
    assert [each.name for each in cluster.pending] == ["b"]


def test_asking_changes_nothing() -> None:
    """Scheduling a pod is a question; only `place` puts it on its node."""
    cluster = Cluster(node("n1", cpu=2), node("n2", cpu=1))
    assert cluster.schedule(WEB).node == cluster.schedule(WEB).node
    assert cluster.pods == []
    decision = cluster.schedule(WEB)
    decision.place()
    assert [(each.key, each.node_name) for each in cluster.pods] == [("default/web", decision.node)]


def test_pods_without_a_uid_fill_a_node() -> None:
    """Manifests have no UIDs; the third pod of a cpu does not fit on a node of two."""
    cluster = Cluster(node("n1", cpu=2))
    for _ in range(2):
        cluster.schedule(WEB).place()
    third = cluster.schedule(WEB)
    assert third.node == ""
    assert third.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_pod_is_a_dict_text_or_struct() -> None:
    """All forms of a pod get the same decision."""
    cluster = Cluster(node("n1", cpu=1), node("n2", cpu=4))
    as_dict = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}}
    big = {**as_dict, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 3}}}]}}
    assert {cluster.schedule(each).node for each in (big, json.dumps(big), pod("web", cpu=3))} == {"n2"}


def test_a_decision_says_everything() -> None:
    """Scores by node and plugin, rejections, the message, words, and a dict for JSON."""
    cluster = Cluster(node("n1"), node("n2"), node("n3", taints=["gpu:NoSchedule"]), pod("a", node="n1", cpu=1))
    decision = cluster.schedule(WEB)
    assert decision.node == "n2"
    assert decision.scores["n2"]["NodeResourcesFit"] > decision.scores["n1"]["NodeResourcesFit"]
    assert decision.totals["n2"] == sum(decision.scores["n2"].values())
    assert decision.rejected["n3"].plugin == "TaintToleration"
    assert str(decision).startswith("default/web goes to n2.\n2 of 3 nodes fit.")
    assert repr(decision) == "<Decision: default/web goes to n2>"
    written = json.loads(json.dumps(decision.to_dict()))
    assert written["rejected"]["n3"]["message"] == "node(s) had untolerated taint(s)"
    assert (written["node"], written["scores"]) == ("n2", decision.scores)


def test_a_decision_stays_as_it_was() -> None:
    """A decision is a record; what happens to the cluster later does not change it."""
    cluster = Cluster(node("n1"), node("n2", unschedulable=True))
    decision = cluster.schedule(WEB)
    before = decision.to_dict()
    cluster.remove(cluster.node("n2"))
    cluster.add(node("n9"), node("n8"))
    assert decision.to_dict() == before


def test_an_old_decision_is_not_placed() -> None:
    """After another pod was placed, a decision may no longer hold."""
    cluster = Cluster(node("n1", cpu=1))
    first, second = cluster.schedule(WEB), cluster.schedule(WEB)
    first.place()
    with pytest.raises(ValueError, match="the cluster has changed since the decision about pod default/web"):
        second.place()
    with pytest.raises(ValueError, match=r"pod default/web has no node: 0/1 nodes are available: 1 Insufficient cpu"):
        cluster.schedule(WEB).place()


def test_preemption_is_shown_and_can_be_carried_out() -> None:
    """The decision names the node and the victims; `place(evict=True)` removes them."""
    cluster = Cluster(node("n1", cpu=1), pod("low", node="n1", cpu=1, priority=1))
    decision = cluster.schedule(pod("high", cpu=1, priority=10))
    assert (decision.node, decision.nominated_node) == ("", "n1")
    assert [each.name for each in decision.victims] == ["low"]
    with pytest.raises(ValueError, match=r"place\(evict=True\) makes room for it"):
        decision.place()
    decision.place(evict=True)
    assert [(each.name, each.node_name) for each in cluster.pods] == [("high", "n1")]


def test_the_priority_class_counts() -> None:
    """A manifest names its class; the API server would have resolved it, wherever the class is in the files."""
    text = WEB.replace("spec:", "spec:\n  priorityClassName: gold")
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 7}
    cluster = Cluster(text, node("n1", cpu=1), gold)
    assert cluster.pods[0].priority == 7
    assert (
        cluster.schedule(WEB.replace("spec:", "spec:\n  priorityClassName: system-node-critical")).pod.priority > 10**9
    )
    with pytest.raises(ValueError, match=r"pod default/web: no PriorityClass with name silver was found; .* gold"):
        cluster.schedule(text.replace("gold", "silver"))
    assert Cluster({**gold, "globalDefault": True}).schedule(WEB).pod.priority == 7


def test_limits_are_requests_too() -> None:
    """A pod with limits alone requests as much, as the API server has it."""
    cluster = Cluster(node("n1", cpu=1))
    assert cluster.schedule(WEB.replace("requests", "limits").replace('"1"', '"2"')).node == ""


def test_a_gated_pod_is_not_scheduled() -> None:
    """Scheduling gates keep a pod back, and the message says so."""
    decision = Cluster(node("n1")).schedule(pod("web", gates=["example.com/wait"]))
    assert decision.node == ""
    assert decision.message == "waiting for scheduling gates: [example.com/wait]"


def test_pods_that_cannot_be_scheduled() -> None:
    """A pod on a node, and a pod of another scheduler, are refused with what to do."""
    cluster = Cluster(node("n1"), pod("a", node="n1"))
    with pytest.raises(ValueError, match=r"pod default/a is on node n1 already; remove\(\) it and leave out"):
        cluster.schedule(cluster.pods[0])
    with pytest.raises(ValueError, match="wants scheduler 'mine'; the configuration has 'default-scheduler'"):
        cluster.schedule(pod("b", scheduler="mine"))
    with pytest.raises(LookupError, match="the cluster has no node 'n7'"):
        cluster.drain("n7")
    with pytest.raises(ValueError, match="the cluster has no Pod default/z"):
        cluster.remove(pod("z"))


def test_many_pods_are_placed_as_they_are_iterated_over() -> None:
    """Each pod sees those before it; one that does not fit is pending and changes nothing."""
    cluster = Cluster(node("n1", cpu="2"))
    placed = cluster.schedule_all(pod(f"p{number}", cpu="1") for number in range(3))
    assert next(placed).node == "n1"
    assert len(cluster.pods) == 1
    assert [each.fate for each in placed] == [Fate.PLACED, Fate.PENDING]
    assert len(cluster.pods) == 2


def test_how_many_fit() -> None:
    """Pods of one kind are placed until none fits, on a copy."""
    cluster = Cluster(node("n1", cpu=3), node("n2", cpu=2), pod("a", node="n1", cpu=1))
    assert cluster.how_many(WEB) == 4
    assert cluster.how_many(WEB, at_most=2) == 2
    assert cluster.how_many(pod("big", cpu=4)) == 0
    assert len(cluster.pods) == 1


def test_a_drain_finds_places_for_pods() -> None:
    """Pods go elsewhere by priority; DaemonSet pods stay; budgets and full nodes are respected."""
    running = [
        pod("low", node="n1", cpu=1),
        pod("high", node="n1", cpu=1, priority=9),
        pod("daemon", node="n1", owner=owner("DaemonSet", "d")),
        pod("guarded", node="n1", labels={"app": "db"}),
        pod("elsewhere", node="n2", cpu=1),
    ]
    cluster = Cluster(node("n1"), node("n2", cpu=2), *running, budget("db", {"app": "db"}, allowed=0))
    result = cluster.drain("n1")
    assert [(each.pod.name, each.fate, each.node) for each in result] == [
        ("high", Fate.PLACED, "n2"),
        ("low", Fate.PENDING, ""),
        ("daemon", Fate.STAYS, "n1"),
        ("guarded", Fate.REFUSED, "n1"),
    ]
    assert not result.ok
    assert result.pods_per_node == {"n2": 1}
    assert "Insufficient cpu" in result.pending[0].message
    assert not cluster.node("n1").spec.unschedulable
    assert str(result).splitlines()[0] == "1 pending, 1 placed, 1 refused, 1 stays"
    cluster.remove(*(each for each in cluster.pods if each.name in ("low", "guarded")))
    assert cluster.drain("n1").ok


def test_two_configurations_are_compared() -> None:
    """One spreads pods, the other packs them."""
    cluster = Cluster(node("n1"), node("n2"), pod("a", node="n1", cpu=1, memory="1Gi"))
    pods = [pod(f"p{number}", cpu=1, memory="1Gi") for number in range(2)]
    result = cluster.compare(None, MOST_ALLOCATED, pods)
    assert [each.node for each in result.b] == ["n1", "n1"]
    assert result.a[0].node == "n2"
    assert result.changed[0][0].pod.name == "p0"
    assert str(result).startswith(f"{len(result.changed)} of 2 pods go elsewhere; pending: 0 with a, 0 with b\n")
    assert result.to_dict()[0]["changed"] is True
    assert len(cluster.pods) == 1


def test_pending_pods_are_compared_by_default() -> None:
    """Without pods, those that wait in the cluster are scheduled."""
    cluster = Cluster(node("n1"), pod("waiting"))
    assert [each.node for each in cluster.compare(None, MOST_ALLOCATED).a] == ["n1"]


@kubesched.filter
def only_n2(pod: kubesched.Pod, node: kubesched.NodeInfo) -> bool:
    """Rejects all nodes but one."""
    return node.name == "n2"


def test_plugins_are_used_with_and_without_a_configuration(tmp_path: Path) -> None:
    """Alone they are enabled; a configuration, as a file too, enables what it names."""
    nodes = [node("n1", cpu=8), node("n2")]
    assert Cluster(*nodes, plugins=[only_n2]).schedule(WEB).node == "n2"
    assert Cluster(*nodes, plugins=[only_n2], config={}).schedule(WEB).node == "n1"
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    text += "- plugins: {multiPoint: {enabled: [{name: only_n2}]}}\n"
    (tmp_path / "config.yaml").write_text(text)
    for config in (text, tmp_path / "config.yaml", str(tmp_path / "config.yaml")):
        assert Cluster(*nodes, plugins=[only_n2], config=config).schedule(WEB).node == "n2"


def test_a_claim_is_taken_once() -> None:
    """Placing a pod reserves its volume, so that the next claim does not get it."""
    storage = [
        api.StorageClass(
            metadata=api.ObjectMeta(name="local"),
            provisioner="kubernetes.io/no-provisioner",
            volume_binding_mode="WaitForFirstConsumer",
        ),
        api.PersistentVolume(
            metadata=api.ObjectMeta(name="disk"),
            spec=api.PersistentVolumeSpec(
                capacity={"storage": "1Gi"}, access_modes=("ReadWriteOnce",), storage_class_name="local"
            ),
            status=api.PersistentVolumeStatus(phase="Available"),
        ),
        *(
            api.PersistentVolumeClaim(
                metadata=api.ObjectMeta(name=name, namespace="default", uid=name),
                spec=api.PersistentVolumeClaimSpec(
                    access_modes=("ReadWriteOnce",),
                    storage_class_name="local",
                    resources=api.VolumeResourceRequirements(requests={"storage": "1Gi"}),
                ),
                status=api.PersistentVolumeClaimStatus(phase="Pending"),
            )
            for name in ("one", "two")
        ),
    ]
    cluster = Cluster(node("n1"), *storage)
    cluster.schedule(pod("a", claims=["one"])).place()
    assert cluster.schedule(pod("b", claims=["two"])).node == ""


def test_extenders_are_not_called() -> None:
    """A configuration with extenders is used without them, with a warning."""
    config = {"extenders": [{"urlPrefix": "http://localhost:1", "filterVerb": "filter"}]}
    with pytest.warns(UserWarning, match="extenders are not called"):
        Cluster(node("n1"), config=config)
