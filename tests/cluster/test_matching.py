"""Selectors and taints evaluated over a window equal those evaluated on each node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import affinity, cluster, node, node_term, pod, taint, toleration

from kubesched.api import objects as api
from kubesched.api.selectors import CompiledNodeTerm, Requirement, node_selector, required_node_affinity
from kubesched.api.taints import HARD_EFFECTS, untolerated
from kubesched.cluster.matching import (
    field_mask,
    node_selector_mask,
    per_taint_set,
    required_affinity_mask,
    requirement_mask,
    term_mask,
    untolerated_mask,
)
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes

LABELS = [{}, {"disk": "ssd"}, {"disk": "hdd", "size": "7"}, {"size": "12"}, {"size": "big"}, {"disk": ""}]
TAINTS = ["k=v:NoSchedule", "k=w:NoExecute", "l:PreferNoSchedule"]

node_lists = st.lists(
    st.tuples(st.sampled_from(LABELS), st.lists(st.sampled_from(TAINTS), max_size=2, unique=True)),
    min_size=1,
    max_size=6,
)
expressions = st.one_of(
    st.tuples(st.sampled_from(["disk", "nobody"]), st.just("In"), st.sampled_from(["ssd", "hdd", "", "other"])),
    st.tuples(st.just("disk"), st.just("In"), st.just("ssd"), st.just("hdd")),
    st.tuples(st.just("disk"), st.just("NotIn"), st.sampled_from(["ssd", ""])),
    st.tuples(st.sampled_from(["disk", "size"]), st.sampled_from(["Exists", "DoesNotExist"])),
    st.tuples(st.just("size"), st.sampled_from(["Gt", "Lt"]), st.sampled_from(["7", "9", "-1"])),
)
terms = st.builds(
    lambda labels, name: node_term(*labels, name=name),
    st.lists(expressions, max_size=3),
    st.sampled_from(["", "n0", "n1", "n9"]),
)
windows = st.lists(st.integers(0, 5), unique=True).map(sorted)


def made(nodes: list[tuple[dict[str, str], list[str]]]) -> ClusterState:
    return cluster(*(node(f"n{i}", labels=labels, taints=taints) for i, (labels, taints) in enumerate(nodes)))


def window(state: ClusterState, rows: list[int]) -> Nodes:
    return Nodes(state.nodes, np.array([row for row in rows if row < state.nodes.size], dtype=np.int64))


@given(
    nodes=node_lists, rows=windows, wanted=st.lists(terms, max_size=3), simple=st.sampled_from([{}, {"disk": "ssd"}])
)
def test_required_affinity_over_a_window(
    nodes: list[tuple[dict[str, str], list[str]]],
    rows: list[int],
    wanted: list[api.NodeSelectorTerm],
    simple: dict[str, str],
) -> None:
    """A window's mask equals the results of its single nodes, and is part of the mask of the whole table."""
    state = made(nodes)
    required = required_node_affinity(pod(node_selector=simple, affinity=affinity(nodes=wanted)))
    whole = required_affinity_mask(Nodes(state.nodes), required)
    assert whole.tolist() == [required.matches(each.labels, each.name) for each in Nodes(state.nodes)]
    part = window(state, rows)
    assert required_affinity_mask(part, required).tolist() == whole[part.rows].tolist()


@given(
    nodes=node_lists, tolerated=st.lists(st.sampled_from(["k=v:NoSchedule", "k", "l", "*", ":NoExecute"]), max_size=2)
)
def test_taints_over_a_window(nodes: list[tuple[dict[str, str], list[str]]], tolerated: list[str]) -> None:
    """Taints are evaluated once per distinct set, with the same results as for each node."""
    state = made(nodes)
    tolerations = [toleration(text) for text in tolerated]
    found = untolerated_mask(Nodes(state.nodes), tolerations, HARD_EFFECTS)
    assert found.tolist() == [untolerated(n.taints, tolerations) is not None for n in Nodes(state.nodes)]


def test_each_distinct_taint_set_is_asked_about_once() -> None:
    """The taints of a thousand nodes with two distinct sets are evaluated twice."""
    state = cluster(*(node(f"n{i}", taints=["k:NoSchedule"] if i % 2 else []) for i in range(50)))
    asked: list[tuple[api.Taint, ...]] = []

    def count(taints: tuple[api.Taint, ...]) -> int:
        asked.append(taints)
        return len(taints)

    assert per_taint_set(Nodes(state.nodes), count).tolist() == [0, 1] * 25
    assert asked == [(), (taint("k:NoSchedule"),)]


def test_values_seen_after_a_column_was_made() -> None:
    """A value added after the column was created is matched, and a value without nodes matches nothing."""
    state = cluster(node("a", labels={"disk": "ssd"}))
    wants = Requirement("disk", "In", frozenset(["nvme"]))
    assert requirement_mask(Nodes(state.nodes), wants).tolist() == [False]
    state.set(node("b", labels={"disk": "nvme"}))
    assert requirement_mask(Nodes(state.nodes), wants).tolist() == [False, True]
    state.set(node("b"))
    assert requirement_mask(Nodes(state.nodes), wants).tolist() == [False, False]


def test_fields() -> None:
    """The node's name is the only field; In and NotIn work on it, and any other field is empty."""
    nodes = Nodes(cluster(node("a"), node("b")).nodes)
    named = frozenset(["b", "gone"])
    assert field_mask(nodes, Requirement("metadata.name", "In", named)).tolist() == [False, True]
    assert field_mask(nodes, Requirement("metadata.name", "NotIn", named)).tolist() == [True, False]
    assert field_mask(nodes, Requirement("metadata.uid", "In", named)).tolist() == [False, False]
    assert field_mask(nodes, Requirement("metadata.uid", "NotIn", named)).tolist() == [True, True]


def test_terms_are_alternatives() -> None:
    """All requirements of a term must match, and one matching term is enough; no terms match nothing."""
    nodes = Nodes(cluster(node("a", labels={"disk": "ssd"}), node("b", labels={"size": "9"}), node("c")).nodes)
    assert term_mask(nodes, CompiledNodeTerm()).tolist() == [True, True, True]
    either = node_selector(api.NodeSelector((node_term(("disk", "Exists")), node_term(("size", "Gt", "5"), name="b"))))
    assert node_selector_mask(nodes, either).tolist() == [True, True, False]
    assert not node_selector_mask(nodes, node_selector(api.NodeSelector())).any()
