"""Questions about a cluster: capacity, changes of nodes, nodes that could go, plans, and nodes to buy."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched import Cluster, ConfigError, Fate, ManifestError
from kubesched.api import objects as api
from kubesched.library import sizing
from kubesched.library.suppose import SupposeError
from kubesched.simulator.scenario_client import as_json
from kubesched.testing import affinity, node, node_term, pod, related

OWNER = api.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="rs", controller=True)


def owned(name: str, where: str = "", cpu: Any = 1, **more: Any) -> api.Pod:
    """A pod of a ReplicaSet, with a UID of its own."""
    return pod(name, uid=f"uid-{name}", node=where, cpu=cpu, owner=OWNER, **more)


def deployment(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    """A Deployment written by hand."""
    labels = {"app": name}
    container = {"name": "m", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


# --- capacity ---------------------------------------------------------------------------------------------------------


def test_one_template() -> None:
    """How many fit, where, and what runs out on each node."""
    cluster = Cluster(node("n1", cpu=4), node("n2", cpu=2, taints=["x:NoSchedule"]))
    found = cluster.capacity(pod("web", cpu=1))
    assert (found.total, found.rounds) == (4, 4)
    (web,) = found.templates
    assert web.per_node == {"n1": 4}
    assert web.limits["n1"].startswith("cpu short by 1")
    assert web.limits["n2"].startswith("taint x")
    assert web.runs_out == {"Insufficient cpu": 1, "node(s) had untolerated taint(s)": 1}
    assert web.message.startswith("0/2 nodes are available")
    assert cluster.pods == []
    assert found.to_frame().to_dict("records")[0] == {
        "template": "web",
        "node": "n1",
        "pods": 4,
        "limit": web.limits["n1"],
    }


def test_several_templates_in_proportion_and_in_sequence() -> None:
    """By their replicas in turn, until one does not fit; or the first ones first."""
    cluster = Cluster(node("n1", cpu=10))
    given = (deployment("small", 2, "1"), pod("large", cpu=3))
    found = cluster.capacity(*given)
    assert ({each.name: each.count for each in found.templates}, found.rounds) == ({"small": 4, "large": 2}, 2)
    first = cluster.capacity(*reversed(given), sequence=True)
    assert {each.name: each.count for each in first.templates} == {"large": 3, "small": 1}
    assert cluster.capacity(pod("tiny", cpu="1m"), at_most=5).at_least


def test_spread_and_preemption_count() -> None:
    """A constraint ends the count before the room does; less important pods make room if they may be pushed away."""
    cluster = Cluster(node("n1", cpu=4), node("n2", cpu=1))
    constraint = api.TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="DoNotSchedule",
        label_selector=api.LabelSelector(match_labels={"app": "web"}),
    )
    spread = pod("web", cpu=1, labels={"app": "web"}, spread=[constraint])
    assert cluster.capacity(spread).total == 3
    cluster.add(owned("old", "n1", cpu=3))
    important = pod("vip", cpu=2, priority=10)
    assert cluster.capacity(important).total == 0
    found = cluster.capacity(important, preempt=True)
    assert (found.total, [each.name for each in found.evicted]) == (2, ["old"])


def devices(**numbers: int) -> list[dict[str, Any]]:
    """Devices by node, their class, and a template for a claim on one."""
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{number}"} for number in range(count)],
            },
        }
        for name, count in numbers.items()
    ]
    return [
        *slices,
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
        },
    ]


def holder(name: str, where: str, device: str) -> list[dict[str, Any]]:
    """A pod that a controller would create again, and its claim on a device."""
    user = as_json(owned(name, where))
    user["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    user["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    by = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}]
    results = [{"request": "r", "driver": "gpu.example.com", "pool": where, "device": device}]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{name}-gpu", "namespace": "default", "uid": f"claim-{name}", "ownerReferences": [by]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        },
    }
    return [user, claim]


def test_devices_count() -> None:
    """Every copy gets claims of its own, as controllers would make them."""
    cluster = Cluster(node("n1", cpu=16), node("n2", cpu=16), *devices(n1=3))
    user = as_json(pod("train", cpu=1))
    user["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    found = cluster.capacity(user)
    assert (found.total, found.templates[0].per_node) == (3, {"n1": 3})
    assert found.templates[0].limits["n1"].endswith("the node has 3 devices, 0 of them free")
    user["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "none"}]
    with pytest.raises(LookupError, match="no ResourceClaimTemplate default/none"):
        cluster.capacity(user)


def test_volumes_count() -> None:
    """Every pod of a StatefulSet has claims of its own, and there are two volumes for them."""
    storage = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    volume = {**storage, "capacity": {"storage": "5Gi"}, "hostPath": {"path": "/d"}}
    up = {"phase": "Available"}
    class_ = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster = Cluster(
        node("n1", cpu=16),
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}, **class_},
        *(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": n}, "spec": volume, "status": up}
            for n in ("a", "b")
        ),
    )
    database = deployment("db", 1, "1")
    claim = {"metadata": {"name": "data"}, "spec": {**storage, "resources": {"requests": {"storage": "5Gi"}}}}
    database |= {"kind": "StatefulSet", "spec": {**database["spec"], "volumeClaimTemplates": [claim]}}
    assert cluster.capacity(database).total == 2


def test_the_default_storage_class_counts() -> None:
    """A claim that names no class gets the default one, as from the API server; the newest if there are several."""
    waits = {"provisioner": "a.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    chosen = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    version, kind = "storage.k8s.io/v1", "StorageClass"
    old = {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z", **chosen}
    new = {"name": "a", "creationTimestamp": "2026-01-02T00:00:00Z", **chosen}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    cluster = Cluster(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec},
        node("n1", cpu=4),
        {"apiVersion": version, "kind": kind, "metadata": old, "provisioner": "kubernetes.io/no-provisioner"},
        {"apiVersion": version, "kind": kind, "metadata": new, **waits},
    )
    database = deployment("db", 1, "1")
    claim = {"metadata": {"name": "data"}, "spec": spec}
    database |= {"kind": "StatefulSet", "spec": {**database["spec"], "volumeClaimTemplates": [claim]}}
    assert cluster.capacity(database).total == 4
    user = as_json(pod("user"))
    user["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert cluster.schedule(user).node == "n1"


def test_what_is_no_template_is_refused() -> None:
    """A node has no pods to count."""
    with pytest.raises(ManifestError, match="expected a Pod, or a workload"):
        Cluster().capacity({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})


# --- what if ----------------------------------------------------------------------------------------------------------


def budget(allowed: int) -> api.PodDisruptionBudget:
    """A budget for all pods that are labelled web."""
    return api.PodDisruptionBudget(
        metadata=api.ObjectMeta(name="b", namespace="default"),
        spec=api.PodDisruptionBudgetSpec(selector=api.LabelSelector(match_labels={"app": "web"})),
        status=api.PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def test_a_drain_moves_what_budgets_allow() -> None:
    """Who moves where, who may not, and what is left of the budget. The cluster itself stays as it is."""
    web = {"app": "web"}
    cluster = Cluster(
        node("n1"), node("n2"), owned("a", "n1", labels=web), owned("b", "n1", labels=web), owned("c", "n1"), budget(1)
    )
    found = cluster.what_if("drain n1")
    fates = {each.pod.name: (each.fate, each.origin, each.node) for each in found.moved}
    assert fates == {"a": (Fate.PLACED, "n1", "n2"), "b": (Fate.REFUSED, "", "n1"), "c": (Fate.PLACED, "n1", "n2")}
    assert [(each.budget, each.allowed, each.used, each.refused) for each in found.budgets] == [("default/b", 1, 1, 1)]
    assert not found.ok
    assert {each.node_name for each in cluster.pods} == {"n1"}
    assert {each.node_name for each in found.cluster.pods} == {"n1", "n2"}


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ({"minAvailable": 2}, 1),
        ({"minAvailable": "50%"}, 1),
        ({"minAvailable": "100%"}, 0),
        ({"maxUnavailable": 0}, 0),
        ({"maxUnavailable": 2}, 1),  # one of the two is pending already
        ({"maxUnavailable": "50%"}, 1),
        ({}, 0),
    ],
)
def test_a_budget_without_a_status_counts_its_pods(rule: dict[str, object], allowed: int) -> None:
    """A budget that was written by hand allows what the disruption controller would let it allow."""
    web = {"app": "web"}
    written = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": web}, **rule},
    }
    running = [owned(name, "n1", labels=web) for name in "abc"]
    cluster = Cluster(node("n1"), node("n2"), *running, owned("pending", "", labels=web), written)
    found = cluster.what_if("drain n1")
    assert [each.allowed for each in found.budgets] == [allowed]


def test_a_zone_fails_whatever_budgets_say() -> None:
    """Pods of the zone go elsewhere as far as there is room; pods of DaemonSets are gone with their nodes."""
    daemon = api.OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="ds", controller=True)
    cluster = Cluster(
        node("n1", cpu=4, zone="a"),
        node("n2", cpu=4, zone="b"),
        owned("x", "n1", cpu=3, labels={"app": "web"}),
        owned("y", "n1", cpu=3),
        pod("d", uid="d", node="n1", owner=daemon),
        budget(0),
    )
    found = cluster.what_if("fail zone a")
    assert [(each.pod.name, each.node) for each in found.moved] == [("x", "n2"), ("y", "")]
    assert [each.name for each in found.cluster.nodes] == ["n2"]
    assert {each.name for each in found.cluster.pods} == {"x", "y"}


@pytest.mark.parametrize("change", ["fail zone a", "remove n1", "taint n1 gone:NoExecute"])
@pytest.mark.parametrize(("allowed", "missing"), [(1, 0), (0, 1)])
def test_a_budget_that_loses_pods_does_not_hold(change: str, allowed: int, missing: int) -> None:
    """A budget holds only if no more pods are gone at a time than it allows, also where nobody asked it."""
    cluster = Cluster(
        node("n1", zone="a"), node("n2", zone="b"), owned("x", "n1", labels={"app": "web"}), budget(allowed)
    )
    found = cluster.what_if(change)
    (use,) = found.budgets
    assert (use.used, use.lost, use.missing, use.holds) == (0, 1, missing, not missing)
    assert found.moved.ok
    assert found.ok is use.holds
    with pytest.raises(SupposeError, match=r"no node is in zone 'q'; the zones are a, b"):
        cluster.what_if("fail zone q")


def test_taints_patterns_and_new_nodes() -> None:
    """NoExecute moves pods that do not tolerate it; new nodes take pending pods; priority pushes others away."""
    cluster = Cluster(node("p-1"), node("p-2"), node("q"), owned("a", "p-1"), pod("wide", cpu=4, uid="wide"))
    tainted = cluster.what_if("taint p-* x=1:NoExecute", "add 1 like q")
    assert [(each.pod.name, each.origin) for each in tainted.moved] == [("a", "p-1")]
    assert {each.node for each in (*tainted.moved, *tainted.waiting)} == {"q", "q-new-1"}
    full = Cluster(node("n1"), node("n2"), owned("low", "n2", cpu=4), owned("high", "n1", cpu=4, priority=9))
    pushed = full.what_if("remove n1")
    assert [(each.pod.name, each.node) for each in pushed.moved] == [("high", "n2")]
    assert [(each.pod.name, each.fate) for each in pushed.preempted] == [("low", Fate.PENDING)]
    assert not full.what_if("remove n1", preempt=False).ok
    with pytest.raises(SupposeError, match="cannot be read; write one of: drain N"):
        cluster.what_if("explode n1")
    for count in ("10000000000", "9" * 5000):
        with pytest.raises(SupposeError, match="at most 100000 nodes can be added at once"):
            cluster.what_if(f"add {count} like q")


# --- consolidation and plans ------------------------------------------------------------------------------------------


def test_pods_take_their_claims_on_devices_along() -> None:
    """A pod that moves gives its device back and gets another one, and what is left is known to the next question."""
    machines = [node(name, cpu=16) for name in ("n1", "n2", "n3")]
    cluster = Cluster(*machines, *devices(n1=1, n2=1), *holder("a", "n1", "gpu-0"))
    result = cluster.what_if("drain n1")
    assert [(each.pod.name, each.node) for each in result.moved] == [("a", "n2")]
    user = as_json(pod("b", uid="b", cpu=1))
    user["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    assert result.cluster.what_if("uncordon n1").cluster.capacity(user).templates[0].per_node == {"n1": 1}
    assert cluster.consolidate(["n1"]).nodes == ["n1"]
    again = cluster.what_if("drain n1", "add 2 like n2", "remove n2")
    assert [each.node in ("n2-new-1", "n2-new-2") for each in again.moved] == [True]


def test_a_node_like_another_has_the_pods_of_its_daemon_sets() -> None:
    """They take their share of it, as on every node."""
    daemons = api.OwnerReference(api_version="apps/v1", kind="DaemonSet", name="ds", uid="ds", controller=True)
    cluster = Cluster(node("n1", cpu=4), pod("ds-1", uid="ds-1", node="n1", cpu=1, owner=daemons), owned("a", "n1", 3))
    result = cluster.what_if("add 1 like n1", "drain n1")
    assert [(each.pod.name, each.node) for each in result.moved if each.fate is Fate.PLACED] == [("a", "n1-new-1")]
    assert result.cluster.capacity(pod("web", cpu=1)).total == 0


def test_nodes_that_could_go() -> None:
    """The emptiest go, pods without a controller and budgets keep theirs, and each pod moves once at most."""
    cluster = Cluster(
        *(node(f"n{number}", cpu=4) for number in range(6)),
        *(owned(f"p{number}", f"n{number}", cpu=1) for number in range(4)),
        pod("bare", uid="bare", node="n4", cpu=1),
        owned("kept", "n5", annotations={"karpenter.sh/do-not-disrupt": "true"}),
    )
    found = cluster.consolidate()
    assert sorted(found.nodes) == ["n0", "n1", "n2", "n3"]
    assert "default/bare has no controller" in found.kept["n4"]
    assert "must not be moved" in found.kept["n5"]
    moved = [each.pod.name for removal in found.removals for each in removal.moves]
    assert sorted(moved) == ["p0", "p1", "p2", "p3"]
    assert all(each.node in ("n4", "n5") for removal in found.removals for each in removal.moves)
    assert cluster.consolidate(["n0"]).nodes == ["n0"]
    assert {each.node_name for each in cluster.pods} == {f"n{number}" for number in range(6)}


def test_budgets_of_nodes_that_could_go() -> None:
    """A budget that allows one eviction at a time lets a node go, one after the other; one that allows none does not,
    and is named. Patterns choose nodes.
    """
    objects = [
        *(node(f"n{number}", cpu=4) for number in range(4)),
        *(owned(f"p{number}", "n0", cpu=1, labels={"app": "web"}) for number in range(3)),
        *(owned(f"q{number}", f"n{number}", cpu=1, labels={"app": "db"}) for number in (1, 2)),
    ]
    web, db = related.budget("web", {"app": "web"}, allowed=1), related.budget("db", {"app": "db"})
    found = Cluster(*objects, web, db).consolidate()
    assert found.nodes == ["n3", "n0"]
    assert set(found.kept.values()) == {"disruption budget default/db allows no eviction"}
    assert Cluster(*objects).consolidate(["n[12]", "n3"]).nodes == ["n3", "n1"]
    with pytest.raises(LookupError, match=r"no node is called 'm\*'"):
        Cluster(*objects).consolidate(["m*"])
    refused = Cluster(*objects, web).what_if("drain n0")
    assert str(refused).startswith("1 of 3 pods move, 0 stay pending, 2 refused by a budget")


def test_the_fewest_moves_that_make_a_pod_fit() -> None:
    """One move is found where one is enough; nothing is moved that has no place elsewhere."""
    cluster = Cluster(
        node("n1", cpu=4),
        node("n2", cpu=4),
        node("n3", cpu=4),
        owned("a", "n1", cpu=2),
        owned("b", "n2", cpu=1),
        owned("c", "n2", cpu=1),
        owned("d", "n3", cpu=4),
        pod("big", uid="big", cpu=4),
    )
    plan = cluster.plan(cluster.pending[0])
    assert (plan.node, [(each.pod.name, each.origin, each.node) for each in plan.moves]) == ("n1", [("a", "n1", "n2")])
    assert cluster.plan(pod("small", cpu=1)).moves.to_dict() == []
    hopeless = cluster.plan(pod("huge", cpu=5))
    assert not hopeless.ok
    assert "Insufficient cpu" in hopeless.message


# --- nodes to buy -----------------------------------------------------------------------------------------------------

TYPES = [
    {"name": "small", "cpu": 4, "memory": "16Gi", "price": 1.0},
    {"name": "large", "cpu": 16, "memory": "64Gi", "price": 3.0},
    {"name": "gpu", "cpu": 8, "memory": "32Gi", "price": 9.0, "resources": {"example.com/gpu": 2}, "maximum": 1},
]


def test_the_cheapest_mix_is_verified() -> None:
    """Room of the cluster is used first; the price is the bound where packing is perfect."""
    cluster = Cluster(node("n1", cpu=4))
    needed = cluster.nodes_needed([deployment("web", 10, "2")], TYPES)
    assert (needed.ok, needed.nodes, needed.price, needed.bound) == (True, {"large": 1}, 3.0, 3.0)
    assert needed.placements.pods_per_node == {"n1": 2, "large-1": 8}
    gpus = cluster.nodes_needed(pod("g", requests={"example.com/gpu": 1}, limits={"example.com/gpu": 1}), TYPES)
    assert gpus.nodes == {"gpu": 1}
    none = cluster.nodes_needed(pod("x", cpu=100), TYPES)
    assert (none.ok, none.nodes) == (False, {})
    assert Cluster(node("n1"), pod("a", uid="a", cpu=1)).nodes_needed(None, TYPES).nodes == {}


@pytest.mark.parametrize("solver", [True, False])
def test_daemon_sets_take_their_share_of_new_nodes(solver: bool) -> None:
    """Each new node gets a pod of every DaemonSet that tolerates it, as the cluster's nodes have."""
    daemons = api.OwnerReference(api_version="apps/v1", kind="DaemonSet", name="ds", uid="ds", controller=True)
    here = affinity(nodes=[node_term(name="n1")])
    agent = pod("ds-1", uid="ds-1", node="n1", cpu=1, owner=daemons, affinity=here)
    cluster = Cluster(node("n1", cpu=4), agent, owned("full", "n1", 3))
    types = [{"name": "small", "cpu": 4, "price": 1}]
    found = cluster.nodes_needed([pod(f"p{number}", cpu=1) for number in range(6)], types, solver=solver)
    assert (found.nodes, found.ok) == ({"small": 2}, True)
    assert found.placements.pods_per_node == {"small-1": 3, "small-2": 3}
    assert not cluster.nodes_needed([pod("wide", cpu=4)], types, solver=solver).ok
    tainted = [{"name": "small", "cpu": 4, "price": 1, "taints": ["x:NoSchedule"]}]
    wide = pod("wide", cpu=4, tolerations=["x:NoSchedule"])
    assert cluster.nodes_needed([wide], tainted, solver=solver).nodes == {"small": 1}


def test_the_solver_puts_whole_pods_on_nodes() -> None:
    """Three of four cores take a small node each: big nodes are cheaper, though they cost more per core. Of the
    cluster's own nodes each counts with what it has, so that the bound is the price of the mix.
    """
    types = [
        {"name": "small", "cpu": 4, "memory": "16Gi", "price": 0.2},
        {"name": "big", "cpu": 16, "memory": "64Gi", "price": 0.82},
    ]
    needed = Cluster().nodes_needed([deployment("web", 100, "3")], types)
    assert (needed.nodes, needed.price, needed.bound) == ({"big": 20}, 16.4, 16.4)
    cluster = Cluster(*(node(f"n{number}", cpu=4, memory="16Gi") for number in range(3)))
    needed = cluster.nodes_needed([deployment("web", 4, "3")], types)
    assert (needed.nodes, needed.bound) == ({"small": 1}, 0.2)


def test_what_the_solver_cannot_see_is_scheduled() -> None:
    """Pods that keep apart need a node each, though their amounts would fit on one."""
    term = api.PodAffinityTerm(
        topology_key="kubernetes.io/hostname", label_selector=api.LabelSelector(match_labels={"app": "lone"})
    )
    apart = api.Affinity(
        pod_anti_affinity=api.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
    lone = [pod(f"p{n}", uid=f"p{n}", cpu=1, labels={"app": "lone"}, affinity=apart) for n in range(3)]
    needed = Cluster().nodes_needed(lone, TYPES)
    assert (needed.ok, needed.nodes) == (True, {"small": 3})


def test_without_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are added one by one; there is no bound, and the result fits as well."""
    monkeypatch.setattr(sizing, "find_spec", lambda _name: None)
    needed = Cluster().nodes_needed([deployment("web", 9, "2")], TYPES)
    assert (needed.ok, needed.bound, needed.solver) == (True, None, "greedy")
    with pytest.raises(ConfigError, match=r"nodeTypes\[0\].price"):
        Cluster().nodes_needed(None, [{"name": "x", "price": -1}])


def test_new_nodes_do_not_replace_those_of_the_cluster() -> None:
    """A node of the cluster may have the name that the first node of a type would get."""
    cluster = Cluster(node("small-1", cpu=4), pod("old", uid="old", node="small-1", cpu=4))
    needed = cluster.nodes_needed([pod("new", uid="new", cpu=4)], TYPES[:1])
    assert (needed.ok, needed.nodes, needed.placements.pods_per_node) == (True, {"small": 1}, {"small-2": 1})


def test_the_bound_counts_the_room_of_the_cluster() -> None:
    """Important pods spread over both nodes and leave no room for a wide one, but they could have been on one node."""
    cluster = Cluster(node("n1", cpu=4), node("n2", cpu=4), seed=2)
    first = [pod(f"s{n}", uid=f"s{n}", cpu=2, priority=9) for n in range(2)]
    wide = {"name": "wide", "cpu": 4, "price": 5.0}
    needed = cluster.nodes_needed([*first, pod("big", uid="big", cpu=4)], [wide])
    assert (needed.ok, needed.nodes, needed.bound) == (True, {"wide": 1}, 0.0)


def test_too_few_nodes_to_be_had() -> None:
    """The solver finds nothing: what fits is placed, the rest is named, and there is no bound."""
    needed = Cluster().nodes_needed([deployment("web", 9, "2")], [{"name": "s", "cpu": 4, "price": 1, "maximum": 2}])
    assert (needed.ok, needed.nodes, needed.bound, needed.solver) == (False, {"s": 2}, None, "HiGHS")
    assert len(needed.placements.pending) == 5


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ([{"name": "a"}, {"name": "a"}], "two types have the same name"),
        ([{"name": "Big Ones"}], "nodeTypes[0].name"),
        ([{"name": "a", "price": float("nan")}], "nodeTypes[0].price"),
        ([{"name": "a", "price": float("inf")}], "nodeTypes[0].price"),
        ([], "expected a list of node types"),
    ],
)
def test_types_that_make_no_sense(types: list[dict[str, Any]], problem: str) -> None:
    """Problems name the field."""
    with pytest.raises(ConfigError) as caught:
        Cluster().nodes_needed(None, types)
    assert problem in str(caught.value)
