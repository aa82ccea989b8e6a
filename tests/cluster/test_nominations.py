"""Nominations: which pods are nominated to which node."""

from __future__ import annotations

from tests.builders import cluster, node, pod

from kubesched.cluster.nominations import Nominations
from kubesched.cluster.pods import PodClasses, PodInfo
from kubesched.cluster.table import NodeTable


def info(name: str) -> PodInfo:
    return PodClasses().info(pod(name))


def names(nominations: Nominations, node_name: str) -> list[str]:
    return [each.pod.name for each in nominations.on(node_name)]


def test_pods_are_listed_in_the_order_of_nomination() -> None:
    """The pods of a node are listed in the order of their nomination."""
    nominations = Nominations(NodeTable())
    for name in ("b", "a", "c"):
        nominations.add(info(name), "n")
    assert names(nominations, "n") == ["b", "a", "c"]
    assert list(nominations.nodes) == ["n"]
    assert len(nominations) == 3
    assert nominations.node_of("default.a") == "n"


def test_a_second_nomination_replaces_the_first() -> None:
    """A pod has one nomination at a time; a node without nominations is not listed."""
    nominations = Nominations(NodeTable())
    nominations.add(info("a"), "n")
    nominations.add(info("a"), "m")
    assert names(nominations, "n") == []
    assert names(nominations, "m") == ["a"]
    assert list(nominations.nodes) == ["m"]
    assert len(nominations) == 1


def test_withdrawing() -> None:
    """Removing a nomination keeps the others, and removing one that does not exist does nothing."""
    nominations = Nominations(NodeTable())
    nominations.add(info("a"), "n")
    nominations.add(info("b"), "n")
    nominations.remove("default.a")
    nominations.remove("default.a")
    nominations.remove("default.nobody")
    assert names(nominations, "n") == ["b"]
    assert nominations.node_of("default.a") is None


def test_priorities_and_classes() -> None:
    """The nodes with pods of at least a priority, and the classes of all nominated pods, follow every change."""
    nominations, classes = Nominations(NodeTable()), PodClasses()
    low, high = classes.info(pod("low", priority=1)), classes.info(pod("high", priority=9, cpu="3"))
    nominations.add(low, "n")
    nominations.add(high, "n")
    nominations.add(classes.info(pod("other", priority=1)), "m")
    assert [nominations.nodes_with(priority) for priority in (1, 2, 10)] == [["n", "m"], ["n"], []]
    assert set(nominations.classes) == {low.pod_class, high.pod_class}
    nominations.remove("default.high")
    assert [nominations.nodes_with(priority) for priority in (1, 2)] == [["n", "m"], []]
    assert set(nominations.classes) == {low.pod_class}
    nominations.remove("default.low")
    nominations.remove("default.other")
    assert (nominations.nodes_with(0), list(nominations.classes)) == ([], [])


def test_status_nominates() -> None:
    """A pending pod whose status names a node is nominated to it until the status changes."""
    state = cluster(node("a"), pod("p", nominated="a"))
    assert names(state.nominations, "a") == ["p"]
    state.set(pod("p", nominated="b"))
    assert (names(state.nominations, "a"), names(state.nominations, "b")) == ([], ["p"])
    state.set(pod("p"))
    assert len(state.nominations) == 0


def test_nominations_outlive_their_node() -> None:
    """A nomination does not require its node to exist."""
    state = cluster(pod("p", nominated="a"))
    state.set(node("a"))
    state.remove(node("a"))
    assert names(state.nominations, "a") == ["p"]
    assert state.nodes.row_of == {}


def test_nominations_end() -> None:
    """A pod that is bound, has ended or is deleted has no nomination."""
    ends = [pod("p", node="b", nominated="a"), pod("p", nominated="a", phase="Failed")]
    for end in ends:
        state = cluster(node("a"), pod("p", nominated="a"))
        state.set(end)
        assert len(state.nominations) == 0
    state = cluster(node("a"), pod("p", nominated="a"))
    state.remove(pod("p"))
    assert len(state.nominations) == 0


def test_a_bound_pod_is_never_nominated() -> None:
    """A nominated node in the status of a bound pod is ignored."""
    assert len(cluster(node("a"), pod("p", node="a", nominated="a")).nominations) == 0


def test_an_update_replaces_the_nominated_pod() -> None:
    """An update of a nominated pod updates its nomination."""
    state = cluster(node("a"), pod("p", nominated="a", priority=1))
    state.set(pod("p", nominated="a", priority=5))
    assert [each.pod.priority for each in state.nominations.on("a")] == [5]
