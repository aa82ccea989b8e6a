"""Nominations: which pods have been promised which node."""

from __future__ import annotations

from tests.builders import cluster, node, pod

from kubesched.cluster.nominations import Nominations
from kubesched.cluster.pods import PodClasses, PodInfo


def info(name: str) -> PodInfo:
    return PodClasses().info(pod(name))


def names(nominations: Nominations, node_name: str) -> list[str]:
    return [each.pod.name for each in nominations.on(node_name)]


def test_pods_are_listed_in_the_order_of_nomination() -> None:
    """The pods of a node come in the order in which they were promised it."""
    nominations = Nominations()
    for name in ("b", "a", "c"):
        nominations.add(info(name), "n")
    assert names(nominations, "n") == ["b", "a", "c"]
    assert list(nominations.nodes) == ["n"]
    assert len(nominations) == 3
    assert nominations.node_of("default.a") == "n"


def test_a_second_nomination_replaces_the_first() -> None:
    """A pod is promised one node at a time; a node with no promises left is not listed."""
    nominations = Nominations()
    nominations.add(info("a"), "n")
    nominations.add(info("a"), "m")
    assert names(nominations, "n") == []
    assert names(nominations, "m") == ["a"]
    assert list(nominations.nodes) == ["m"]
    assert len(nominations) == 1


def test_withdrawing() -> None:
    """Withdrawing leaves the others, and withdrawing what was never promised does nothing."""
    nominations = Nominations()
    nominations.add(info("a"), "n")
    nominations.add(info("b"), "n")
    nominations.remove("default.a")
    nominations.remove("default.a")
    nominations.remove("default.nobody")
    assert names(nominations, "n") == ["b"]
    assert nominations.node_of("default.a") is None


def test_status_nominates() -> None:
    """A pending pod whose status names a node is nominated to it, until the status says otherwise."""
    state = cluster(node("a"), pod("p", nominated="a"))
    assert names(state.nominations, "a") == ["p"]
    state.set(pod("p", nominated="b"))
    assert (names(state.nominations, "a"), names(state.nominations, "b")) == ([], ["p"])
    state.set(pod("p"))
    assert len(state.nominations) == 0


def test_nominations_outlive_their_node() -> None:
    """A nomination names a node; whether that node is there is another matter."""
    state = cluster(pod("p", nominated="a"))
    state.set(node("a"))
    state.remove(node("a"))
    assert names(state.nominations, "a") == ["p"]
    assert state.nodes.row_of == {}


def test_nominations_end() -> None:
    """A pod that is bound, has ended or is gone is promised nothing."""
    ends = [pod("p", node="b", nominated="a"), pod("p", nominated="a", phase="Failed")]
    for end in ends:
        state = cluster(node("a"), pod("p", nominated="a"))
        state.set(end)
        assert len(state.nominations) == 0
    state = cluster(node("a"), pod("p", nominated="a"))
    state.remove(pod("p"))
    assert len(state.nominations) == 0


def test_a_bound_pod_is_never_nominated() -> None:
    """What the status of a pod on a node still says of a nomination does not count."""
    assert len(cluster(node("a"), pod("p", node="a", nominated="a")).nominations) == 0


def test_an_update_replaces_the_nominated_pod() -> None:
    """A nominated pod that changes is nominated as it is now."""
    state = cluster(node("a"), pod("p", nominated="a", priority=1))
    state.set(pod("p", nominated="a", priority=5))
    assert [each.pod.priority for each in state.nominations.on("a")] == [5]
