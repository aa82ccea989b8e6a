"""Suppositions: any text is either understood or refused with what can be written."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.explain import fifteen

import kubesched
from kubesched.library.suppose import SupposeError

WORDS = st.sampled_from(
    ["drain", "cordon", "add", "like", "delete", "pod", "node", "untaint", "n1", "3", "pod.cpu=", "x"]
)


@given(st.lists(WORDS, max_size=5).map(" ".join) | st.text(max_size=20))
def test_any_text_is_understood_or_refused(text: str) -> None:
    """Nothing else is raised."""
    cluster = kubesched.Cluster(fifteen.node("n1", 0))
    with suppress(SupposeError):
        cluster.suppose(text)
    assert len(cluster.nodes) <= 4


def test_requests_are_shared_by_the_containers() -> None:
    """The new total is split as the old one was, and init containers ask for no more than that."""
    pod = fifteen.pod("a", "1")
    pod["spec"]["containers"].append({"name": "second", "resources": {"requests": {"cpu": "3"}}})
    pod["spec"]["initContainers"] = [{"name": "first", "resources": {"requests": {"cpu": "6"}}}]
    cluster = kubesched.Cluster(pod)
    (edit,) = cluster.suppose("pod.cpu=2")
    changed = edit(cluster.pending[0])
    assert [each.resources.requests["cpu"] for each in changed.spec.containers] == ["500m", "1500m"]
    assert kubesched.scheduling_requests(changed).milli_cpu == 2000


def test_new_nodes_get_names_of_their_own() -> None:
    """Nodes that are added twice do not replace each other."""
    cluster = kubesched.Cluster(fifteen.node("n1", 0))
    cluster.suppose("add 2 like n1", "add 1 like n1")
    assert sorted(each.name for each in cluster.nodes) == ["n1", "n1-new-1", "n1-new-2", "n1-new-3"]


def test_drain_leaves_what_has_no_place_pending() -> None:
    """A pod that fits nowhere else is pending after a drain."""
    cluster = kubesched.Cluster(fifteen.node("n1", 0), fifteen.pod("a", nodeName="n1"))
    cluster.suppose("drain n1")
    assert [each.name for each in cluster.pending] == ["a"]


def test_unknown_names_are_refused() -> None:
    """The refusal names the statement."""
    with pytest.raises(SupposeError, match=r"^'cordon n9': the cluster has no node 'n9'"):
        kubesched.Cluster().suppose("cordon n9")
