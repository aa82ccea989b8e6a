"""Counts of pods by row and by domain: updated incrementally, rebuilt when necessary, dropped when unused."""

from __future__ import annotations

import numpy as np
from tests.builders import HOSTNAME, ZONE, affinity, cluster, expression, namespace, node, pod, pod_term, selector
from tests.cluster.content import counted, domains

from kubesched.api import objects as api
from kubesched.api.selectors import label_selector
from kubesched.cluster.counters import RowCounter
from kubesched.cluster.counts import PodCounts
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import NodeTable
from kubesched.cluster.terms import AffinityTerm, affinity_terms
from kubesched.cluster.view import Nodes

WEB = label_selector(selector({"app": "web"}))


def web(name: str, place: str, **fields: object) -> api.Pod:
    return pod(name, node=place, labels={"app": "web"}, **fields)  # type: ignore[arg-type]  # the field that a test varies


def term(selects: api.LabelSelector, key: str = ZONE, **fields: object) -> AffinityTerm:
    near = pod_term(selects, key, **fields)  # type: ignore[arg-type]  # the field that a test varies
    return affinity_terms("default", affinity(near=[near])).required[0]


def test_a_counter_starts_with_the_pods_there_are() -> None:
    """A new counter includes the matching pods that were placed before."""
    state = cluster(node("a"), node("b"), web("p1", "a"), web("p2", "a"), pod("other", node="b", labels={"app": "db"}))
    assert counted(state.nodes, state.counts.spread("default", WEB)) == {"a": 2}


def test_a_counter_follows_pods() -> None:
    """A counter follows pods that are added, moved, relabelled and removed."""
    state = cluster(node("a"), node("b"))
    counter = state.counts.spread("default", WEB)
    state.set(web("p1", "a"))
    state.set(web("p2", "a"))
    assert counted(state.nodes, counter) == {"a": 2}
    state.set(web("p2", "b"))
    assert counted(state.nodes, counter) == {"a": 1, "b": 1}
    state.set(pod("p2", node="b", labels={"app": "db"}))
    assert counted(state.nodes, counter) == {"a": 1}
    state.remove(web("p1", "a"))
    assert counted(state.nodes, counter) == {}


def test_other_namespaces_do_not_count_for_spreading() -> None:
    """A spread counter counts pods of one namespace only."""
    state = cluster(node("a"), web("p1", "a"), web("p2", "a", namespace="other"))
    assert state.counts.spread("default", WEB).total == 1


def test_pods_on_their_way_out_do_not_count_for_spreading() -> None:
    """A terminating pod does not count for spreading, whether the counter was created before or after its deletion."""
    state = cluster(node("a"), web("p1", "a"), web("p2", "a"))
    early = state.counts.spread("default", WEB)
    state.set(web("p2", "a", terminating=True))
    late = state.counts.spread("default", label_selector(selector({"app": "web"}, expression("app", "Exists"))))
    assert early.total == late.total == 1
    state.remove(web("p2", "a"))
    assert early.total == late.total == 1


def test_pods_on_their_way_out_still_count_for_affinity() -> None:
    """A terminating pod counts for affinity until it is gone."""
    state = cluster(node("a"), web("p1", "a", terminating=True))
    assert state.counts.affinity((term(selector({"app": "web"})),)).total == 1


def test_one_key_is_one_counter() -> None:
    """The same key returns the same counter."""
    state = cluster(node("a"))
    assert state.counts.spread("default", WEB) is state.counts.spread("default", WEB)
    assert state.counts.spread("default", WEB) is not state.counts.spread("other", WEB)


def test_domains_sum_rows() -> None:
    """A domain's count is the sum over its nodes; nodes without the label belong to no domain."""
    state = cluster(node("a", zone="x"), node("b", zone="x"), node("c", zone="y"), node("d"))
    for number, place in enumerate(["a", "b", "b", "d"]):
        state.set(web(f"p{number}", place))
    assert domains(state.counts.spread("default", WEB).by_domain(ZONE)) == {"x": 3, "y": 0}


def test_domains_follow_pods_without_a_rebuild() -> None:
    """A new pod updates the count in place, so that an array already returned stays correct."""
    state = cluster(node("a", zone="x"), node("b", zone="y"))
    counts = state.counts.spread("default", WEB).by_domain(ZONE)
    held = counts.counts
    state.set(web("p1", "b"))
    assert counts.counts is held
    assert domains(counts) == {"x": 0, "y": 1}


def test_domains_follow_nodes() -> None:
    """A node that changes zone takes its pods' counts along; a deleted node removes its domain."""
    state = cluster(node("a", zone="x"), node("b", zone="y"), web("p1", "a"), web("p2", "b"))
    counter = state.counts.spread("default", WEB)
    assert domains(counter.by_domain(ZONE)) == {"x": 1, "y": 1}
    state.set(node("a", zone="y"))
    assert domains(counter.by_domain(ZONE)) == {"y": 2}
    state.remove(node("b"))
    assert domains(counter.by_domain(ZONE)) == {"y": 1}


def test_a_pod_before_its_node_joins_the_domain_with_it() -> None:
    """A pod whose node is unknown counts for its row, and for a domain only once the node is added."""
    state = cluster(node("a", zone="x"))
    counter = state.counts.spread("default", WEB)
    counter.by_domain(ZONE)
    state.set(web("p1", "late"))
    assert counted(state.nodes, counter) == {"late": 1}
    assert domains(counter.by_domain(ZONE)) == {"x": 0}
    state.set(node("late", zone="x"))
    assert domains(counter.by_domain(ZONE)) == {"x": 1}


def test_only_eligible_nodes_count() -> None:
    """With a condition on nodes, pods on other nodes do not count, and domains without an eligible node do not
    exist.
    """
    state = cluster(
        node("a", zone="x", labels={"disk": "ssd"}),
        node("b", zone="x"),
        node("c", zone="y"),
        web("p1", "a"),
        web("p2", "b"),
    )
    counter = state.counts.spread("default", WEB)
    found = counter.by_domain(ZONE, lambda: Nodes(state.nodes).has_label("disk"), "with disks")
    assert domains(found) == {"x": 1}
    state.set(web("p3", "a"))
    state.set(web("p4", "b"))
    assert domains(counter.by_domain(ZONE, lambda: Nodes(state.nodes).has_label("disk"), "with disks")) == {"x": 2}
    assert domains(counter.by_domain(ZONE)) == {"x": 4, "y": 0}


def test_eligibility_is_judged_again_after_a_node_changed() -> None:
    """A node that becomes eligible adds its pods."""
    state = cluster(node("a", zone="x"), web("p1", "a"))
    counter = state.counts.spread("default", WEB)
    eligible = (lambda: Nodes(state.nodes).has_label("disk")), "with disks"
    assert domains(counter.by_domain(ZONE, *eligible)) == {}
    state.set(node("a", zone="x", labels={"disk": "ssd"}))
    assert domains(counter.by_domain(ZONE, *eligible)) == {"x": 1}


def test_counters_grow_with_the_table() -> None:
    """Counters created when the table was small grow with it, before and after being read."""
    state = ClusterState(nodes=NodeTable(capacity=1))
    state.set(node("n0", zone="z"))
    counter = state.counts.spread("default", WEB)
    assert counter.on(1).tolist() == [0]
    for number in range(1, 6):
        state.set(node(f"n{number}", zone="z"))
    assert counter.on(6).tolist() == [0] * 6
    state.set(web("p", "n5"))
    assert counter.on(6).tolist() == [0, 0, 0, 0, 0, 1]
    assert domains(counter.by_domain(ZONE)) == {"z": 1}


def test_a_row_counter_alone() -> None:
    """Rows beyond the counter's initial size are added when a pod is placed there."""
    table = NodeTable(capacity=1)
    counter = RowCounter(table, lambda _: True, skip_terminating=False)
    for number in range(3):
        table.set_node(node(f"n{number}"))
    counter.add(2, 1)
    assert counter.rows[:3].tolist() == [0, 0, 1]
    assert counter.total == 1


def test_namespace_labels_decide_for_affinity() -> None:
    """A term with a namespace selector counts the pods of namespaces that match now."""
    teams = term(selector({"app": "web"}), namespace_selector=selector({"team": "one"}))
    state = cluster(node("a"), web("p1", "a", namespace="blue"), web("p2", "a", namespace="red"))
    assert state.counts.affinity((teams,)).total == 0
    state.set(namespace("blue", labels={"team": "one"}))
    assert state.counts.affinity((teams,)).total == 1
    state.set(namespace("red", labels={"team": "one"}))
    assert state.counts.affinity((teams,)).total == 2
    state.set(namespace("blue", labels={"team": "two"}))
    assert state.counts.affinity((teams,)).total == 1
    state.remove(namespace("red"))
    assert state.counts.affinity((teams,)).total == 0


def test_a_namespace_with_the_same_labels_keeps_counters() -> None:
    """A namespace update that keeps the labels causes no recount."""
    state = cluster(node("a"), namespace("blue", labels={"team": "one"}))
    counter = state.counts.affinity((term(selector({"app": "web"})),))
    state.set(namespace("blue", labels={"team": "one"}))
    assert state.counts.affinity((term(selector({"app": "web"})),)) is counter
    spread = state.counts.spread("default", WEB)
    state.set(namespace("blue", labels={"team": "two"}))
    assert state.counts.affinity((term(selector({"app": "web"})),)) is not counter
    assert state.counts.spread("default", WEB) is spread


def test_an_empty_namespace_selector_takes_in_unknown_namespaces() -> None:
    """As upstream, an empty namespace selector matches every namespace, even an unknown one."""
    everywhere = term(selector({"app": "web"}), namespace_selector=selector())
    absent = term(selector({"app": "web"}), namespace_selector=selector(None, expression("team", "DoesNotExist")))
    state = cluster(node("a"), namespace("blue", labels={"team": "one"}), web("p1", "a", namespace="blue"))
    state.set(web("p2", "a", namespace="unseen"))
    assert state.counts.affinity((everywhere,)).total == 2
    assert state.counts.affinity((absent,)).total == 2


def test_all_terms_must_match_a_pod() -> None:
    """A counter of several terms counts pods that match all of them."""
    both = (term(selector({"app": "web"})), term(selector({"tier": "front"}), HOSTNAME))
    state = cluster(node("a"), web("p1", "a"), pod("p2", node="a", labels={"app": "web", "tier": "front"}))
    assert state.counts.affinity(both).total == 1


class FewCounts(PodCounts):
    """Keeps few counters."""

    MOST_COUNTERS = 4


class Few(ClusterState):
    """A cluster that keeps few counters."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = FewCounts(self.nodes, self.objects)


def test_old_counters_are_dropped_and_rebuilt() -> None:
    """The oldest counters beyond the limit are dropped; they are rebuilt correctly, and the others stay correct."""
    state = Few()
    state.set(node("a"))
    picks = [label_selector(selector({"app": f"web{number}"})) for number in range(6)]
    first = state.counts.spread("default", picks[0])
    for pick in picks:
        state.counts.spread("default", pick)
    for number in range(6):
        state.set(pod(f"p{number}", node="a", labels={"app": f"web{number}"}))
    again = state.counts.spread("default", picks[0])
    assert again is not first
    assert [state.counts.spread("default", pick).total for pick in picks] == [1] * 6
    state.remove(pod("p5"))
    assert [state.counts.spread("default", pick).total for pick in picks] == [1, 1, 1, 1, 1, 0]


def test_idle_terms_are_dropped() -> None:
    """Terms that no pod has any more are dropped eventually; those in use stay correct."""
    state = Few()
    state.set(node("a"))

    def carrier(number: int) -> api.Pod:
        away = [pod_term({"app": f"web{number}"}), pod_term({"tier": f"t{number}"}, ZONE)]
        return pod(f"p{number}", node="a", affinity=affinity(away=away))

    state.set(carrier(0))
    version = state.counts.terms_version
    for number in range(1, 10):
        state.set(carrier(number))
        state.remove(carrier(number))
    assert state.counts.terms_version > version
    assert len(state.counts.term_list) < 10
    carried = {t.term.selector for t in state.counts.term_list if t.total}
    assert carried == {label_selector(selector({"app": "web0"})), label_selector(selector({"tier": "t0"}))}
    state.remove(carrier(0))
    assert not any(t.total for t in state.counts.term_list)


def test_terms_are_counted_by_kind_and_weight() -> None:
    """Terms of running pods are counted separately by kind, and preferences by their signed weight."""
    near, away = pod_term({"app": "web"}), pod_term({"app": "db"})
    carrier = affinity(near=[near], away=[away], prefer_near=[(5, near)], prefer_away=[(7, away)])
    state = cluster(node("a"), pod("p", node="a", affinity=carrier), pod("q", node="a", affinity=carrier))
    assert {(t.kind, t.weight): t.total for t in state.counts.term_list} == {
        ("affinity", 0): 2,
        ("anti-affinity", 0): 2,
        ("preferred", 5): 2,
        ("preferred", -7): 2,
    }


def test_counts_are_whole_numbers() -> None:
    """Domain counts are integers although NumPy sums weights as floats."""
    state = cluster(node("a", zone="x"), web("p", "a"))
    assert state.counts.spread("default", WEB).by_domain(ZONE).counts.dtype == np.int64
