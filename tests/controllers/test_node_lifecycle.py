"""Silent nodes: their conditions, taints and pods, and their return."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.nodes import NodeSettings
from kubesched.reconcile.access import DEPLOYMENTS, NODES, PODS

STOP: dict[str, Any] = {"kubesched__io_kubelet": "stopped"}
START: dict[str, Any] = {"kubesched__io_kubelet": "running"}


def _ready(w: World, name: str = "node-1") -> str:
    conditions = w.get(NODES, name)["status"]["conditions"]
    return str(next(each["status"] for each in conditions if each["type"] == "Ready"))


def _taints(w: World, name: str = "node-1") -> list[tuple[str, str]]:
    taints = w.get(NODES, name)["spec"].get("taints") or []
    return [(each["key"].rpartition("/")[2], each["effect"]) for each in taints]


@virtual_time
async def test_new_nodes_are_tainted_until_they_are_ready(clock: VirtualClock) -> None:
    """Every node becomes ready, loses its taints and renews its lease."""
    async with world(clock, nodes=2) as w:
        assert [_ready(w, name) for name in ("node-1", "node-2")] == ["True", "True"]
        before = w.access.get("coordination.k8s.io/leases", "kube-node-lease/node-1")
        await clock.advance(30)
        after = w.access.get("coordination.k8s.io/leases", "kube-node-lease/node-1")
        assert before is not None
        assert after is not None
        assert after["spec"]["renewTime"] > before["spec"]["renewTime"]
        assert _taints(w) == []


@virtual_time
async def test_a_silent_node_is_unreachable_and_its_pods_go(clock: VirtualClock) -> None:
    """A silent node is tainted after the grace period, and its pods are replaced after five minutes."""
    async with world(clock, nodes=2) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 2))
        await w.until(lambda: len(w.running(app="web")) == 2)
        w.annotate(NODES, "node-1", **STOP)
        await clock.advance(40)
        assert _ready(w) == "True"
        await clock.advance(25)
        assert _ready(w) == "Unknown"
        assert _taints(w) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
        (lost,) = [pod for pod in w.pods(app="web") if pod["spec"]["nodeName"] == "node-1"]
        assert next(c["status"] for c in lost["status"]["conditions"] if c["type"] == "Ready") == "False"
        await clock.advance(270)
        assert "deletionTimestamp" not in w.get(PODS, lost["metadata"]["name"])["metadata"]
        await clock.advance(50)
        # Nobody is there to end it: it stays, going, while another runs.
        assert "deletionTimestamp" in w.get(PODS, lost["metadata"]["name"])["metadata"]
        assert w.nodes_of(app="web") == ["node-1", "node-2", "node-2"]


@virtual_time
async def test_a_node_that_comes_back_is_ready_and_cleans_up(clock: VirtualClock) -> None:
    """The taints are removed, and pods deleted in the meantime disappear."""
    async with world(clock, nodes=2) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 2))
        await w.until(lambda: len(w.running(app="web")) == 2)
        w.annotate(NODES, "node-1", **STOP)
        await clock.advance(400)
        w.annotate(NODES, "node-1", **START)
        await clock.advance(5)
        assert (_ready(w), _taints(w)) == ("True", [])
        assert len(w.pods(app="web")) == 2


@virtual_time
async def test_no_execute_taints_evict_whoever_does_not_tolerate_them(clock: VirtualClock) -> None:
    """Pods stay as long as their toleration seconds say, or for ever without them."""
    async with world(clock, nodes=1) as w:
        taint = {"key": "fire", "effect": "NoExecute"}
        for name, seconds in (("soon", 0), ("later", 30), ("never", None)):
            toleration = {"key": "fire", "operator": "Exists", "effect": "NoExecute"}
            tolerations = [toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}]
            w.create(PODS, name, template("x", tolerations=tolerations if seconds != 0 else [])["spec"])
        await w.until(lambda: all(w.get(PODS, n)["status"]["phase"] == "Running" for n in w.names(PODS)))
        w.edit(NODES, "node-1", taints=[taint])
        await clock.advance(2)
        assert w.names(PODS) == ["later", "never"]
        await clock.advance(35)
        assert w.names(PODS) == ["never"]


@virtual_time
async def test_a_cordoned_node_is_tainted_and_other_taints_stay(clock: VirtualClock) -> None:
    """Taints from conditions are added and removed without touching the user's taints."""
    async with world(clock, nodes=1) as w:
        w.edit(NODES, "node-1", unschedulable=True, taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
        await clock.settle()
        assert _taints(w) == [("team", "NoSchedule"), ("unschedulable", "NoSchedule")]
        w.edit(NODES, "node-1", unschedulable=False)
        await clock.settle()
        assert _taints(w) == [("team", "NoSchedule")]


@virtual_time
async def test_without_heartbeats_only_a_stopped_node_is_lost(clock: VirtualClock) -> None:
    """Without heartbeats, a node with a stopped kubelet is still detected."""
    settings = ClusterSettings(node=NodeSettings(heartbeat=0.0), seed=1)
    async with world(clock, nodes=2, settings=settings) as w:
        w.annotate(NODES, "node-1", **STOP)
        await clock.advance(3600)
        assert (_ready(w, "node-1"), _ready(w, "node-2")) == ("Unknown", "True")
        assert w.names("coordination.k8s.io/leases", "kube-node-lease") == []
