"""A decision as text."""

from __future__ import annotations

from tests.builders import cluster, node, pod
from tests.harness import default_engine, engine_of, schedule

from kubesched.api import objects as api
from kubesched.cluster.view import NodeInfo
from kubesched.engine.explain import explain
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins.node_resources import NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable


def test_a_placed_pod() -> None:
    """The text has the node, the number of feasible ones, every plugin's scores with the chosen node first, and
    rejections.
    """
    made = cluster(node("a", cpu="4"), node("b", cpu="8"), node("c", unschedulable=True))
    words = explain(schedule(engine_of(made, NodeUnschedulable, NodeResourcesFit), pod("p", cpu="2")))
    lines = words.splitlines()
    assert lines[0] == "default/p goes to b."
    assert lines[1] == "2 of 3 nodes fit."
    assert next(line.split() for line in lines if "weighted" in line) == ["score,", "weighted", "b", "a"]
    assert next(line.split()[0] for line in lines if line.strip().startswith("NodeResourcesFit")) == "NodeResourcesFit"
    assert next(line.split() for line in lines if line.strip().startswith("total"))[1:] > ["0", "0"]
    assert lines[-1] == "  c: node(s) were unschedulable (NodeUnschedulable, UnschedulableAndUnresolvable)"


def test_a_pod_that_fits_nowhere() -> None:
    """The text has kube-scheduler's message, the nodes by reason, and the victims of a preemption."""
    made = cluster(node("a", cpu="1"), pod("low", node="a", cpu="1"))
    words = explain(schedule(default_engine(made), pod("vip", cpu="1", priority=9)))
    assert words.splitlines()[:2] == ["default/vip fits nowhere.", "0/1 nodes are available: 1 Insufficient cpu."]
    assert "  a: Insufficient cpu (NodeResourcesFit, Unschedulable)" in words
    assert words.endswith("To make room on a, default/low must go.")


def test_a_failed_attempt() -> None:
    """The text names the plugin that failed, with its error."""

    class Broken(Plugin):
        """Raises."""

        name = "Broken"

        def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            raise RuntimeError("oops")

    words = explain(schedule(engine_of(cluster(node("a")), Broken), pod("p")))
    assert words.splitlines()[0] == "default/p was not scheduled: plugin Broken failed."
    assert "RuntimeError: oops" in words


def test_large_clusters_are_abridged() -> None:
    """In a large cluster only the best nodes and some names are shown, and the rest are counted."""
    made = cluster(*(node(f"n{i:02}") for i in range(15)), *(node(f"c{i}", unschedulable=True) for i in range(8)))
    words = explain(schedule(engine_of(made, NodeUnschedulable, NodeResourcesFit), pod("p", cpu="1")))
    assert "and 5 nodes more" in words
    assert "c0, c1, c2, c3, c4 and 3 more: node(s) were unschedulable" in words
