"""PodTopologySpread: skew, domains, which nodes and pods count, default constraints, hints."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import (
    HOSTNAME,
    ZONE,
    affinity,
    cluster,
    expression,
    node,
    node_term,
    owner,
    pod,
    replica_set,
    replication_controller,
    selector,
    service,
    spread,
    stateful_set,
)
from tests.harness import filtered, hint, make, scored

from kubesched.api import objects as api
from kubesched.api.selectors import label_selector
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes
from kubesched.config.args import PodTopologySpreadArgs
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Code
from kubesched.plugins.pod_topology_spread import PodTopologySpread
from kubesched.plugins.pod_topology_spread.constraints import default_selector

QUEUE, SKIPPED = Hint.QUEUE, Hint.SKIP
WEB = {"app": "web"}
SKEWED = ("Unschedulable", "node(s) didn't match pod topology spread constraints")
UNLABELED = (
    "UnschedulableAndUnresolvable",
    "node(s) didn't match pod topology spread constraints (missing required label)",
)


def zones(**pods: int) -> ClusterState:
    """A node per zone, named like it, with so many web pods on it."""
    made = cluster(*(node(zone, zone=zone) for zone in pods))
    for zone, count in pods.items():
        for number in range(count):
            made.set(pod(f"{zone}{number}", node=zone, labels=WEB))
    return made


def web(*constraints: api.TopologySpreadConstraint, **fields: Any) -> api.Pod:
    return pod(**{"labels": WEB, "spread": constraints, **fields})


def passing(made: ClusterState, each: api.Pod) -> str:
    """The names of the nodes that pass, in one string."""
    found = filtered(make(PodTopologySpread, made), made, each)
    assert set(found.values()) <= {(), SKEWED, UNLABELED}
    return "".join(sorted(name for name, said in found.items() if not said))


# --- Filter -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "constraint", "expected"),
    [
        ({"a": 0, "b": 0}, spread(WEB), "ab"),
        ({"a": 1, "b": 0}, spread(WEB), "b"),
        ({"a": 1, "b": 1}, spread(WEB), "ab"),
        ({"a": 2, "b": 0}, spread(WEB, skew=2), "b"),
        ({"a": 2, "b": 1}, spread(WEB, skew=2), "ab"),
        ({"a": 3, "b": 1, "c": 2}, spread(WEB, skew=2), "bc"),
        # Fewer domains than asked for: the smallest count is taken to be zero.
        ({"a": 1, "b": 1}, spread(WEB, min_domains=3), ""),
        ({"a": 1, "b": 1}, spread(WEB, min_domains=2), "ab"),
        ({"a": 0, "b": 1}, spread(WEB, min_domains=3), "a"),
        # A selector of everything or nothing counts no pods, and then nothing is skewed.
        ({"a": 3, "b": 0}, spread(selector()), "ab"),
        ({"a": 3, "b": 0}, spread(None), "ab"),
        # The key is each node's own.
        ({"a": 1, "b": 0}, spread(WEB, HOSTNAME), "b"),
    ],
)
def test_skew(pods: dict[str, int], constraint: api.TopologySpreadConstraint, expected: str) -> None:
    """A domain may have at most `maxSkew` more matching pods than the emptiest, the new pod included."""
    assert passing(zones(**pods), web(constraint)) == expected


def test_a_pod_that_does_not_match_itself_adds_nothing() -> None:
    """Its coming does not raise the count, so it may go where the skew is already at its limit."""
    made = zones(a=1, b=0)
    assert passing(made, pod(labels={"app": "db"}, spread=[spread(WEB)])) == "ab"
    assert passing(zones(a=2, b=0), pod(labels={"app": "db"}, spread=[spread(WEB)])) == "b"


def test_nodes_without_the_label_are_beyond_help() -> None:
    """They are in no domain, and removing pods cannot change that."""
    made = zones(a=0)
    made.set(node("x"))
    assert filtered(make(PodTopologySpread, made), made, web(spread(WEB))) == {"a": (), "x": UNLABELED}


def test_a_key_that_nobody_has() -> None:
    """Then there is no domain at all and every node lacks the label."""
    made = zones(a=0, b=1)
    assert filtered(make(PodTopologySpread, made), made, web(spread(WEB, "rack"))) == {"a": UNLABELED, "b": UNLABELED}


def test_several_constraints_all_hold() -> None:
    """Nodes must satisfy every constraint; nodes without all the keys count for none."""
    made = cluster(
        node("a1", zone="a", labels={"rack": "1"}),
        node("a2", zone="a"),
        node("b1", zone="b", labels={"rack": "2"}),
        pod("p", node="a1", labels=WEB),
        pod("q", node="a2", labels=WEB),
    )
    found = filtered(make(PodTopologySpread, made), made, web(spread(WEB, ZONE), spread(WEB, "rack")))
    assert found == {"a1": SKEWED, "a2": SKEWED, "b1": ()}
    assert passing(made, web(spread(WEB, ZONE, skew=2), spread(WEB, "rack", skew=2))) == "a1b1"


def test_a_node_must_have_every_key_to_count() -> None:
    """Where no node has the label of one constraint, no pod counts for the other either."""
    made = zones(a=1, b=0)
    found = filtered(make(PodTopologySpread, made), made, web(spread(WEB, ZONE), spread(WEB, "rack")))
    assert found == {"a": UNLABELED, "b": UNLABELED}


def test_only_some_pods_count() -> None:
    """Pods of the same namespace that are not terminating."""
    made = zones(a=0, b=0)
    made.set(pod("elsewhere", namespace="other", node="a", labels=WEB))
    made.set(pod("leaving", node="a", labels=WEB, terminating=True))
    assert passing(made, web(spread(WEB))) == "ab"
    made.set(pod("counts", node="a", labels=WEB))
    assert passing(made, web(spread(WEB))) == "b"


def test_which_nodes_count() -> None:
    """Nodes that the pod's node affinity excludes do not count by default, tainted ones do."""
    made = zones(a=1, b=1, c=0)
    made.set(node("c", zone="c", labels={"disk": "hdd"}, taints=["k:NoSchedule"]))
    on_ssd = {"affinity": affinity(nodes=[node_term(("disk", "NotIn", "hdd"))])}
    assert passing(made, web(spread(WEB))) == "c"
    assert passing(made, web(spread(WEB), **on_ssd)) == "abc"
    assert passing(made, web(spread(WEB, affinity_policy="Ignore"), **on_ssd)) == "c"
    assert passing(made, web(spread(WEB, taints_policy="Honor"))) == "abc"
    assert passing(made, web(spread(WEB, taints_policy="Honor"), tolerations=["k"])) == "c"


def test_match_label_keys_narrow_the_selector() -> None:
    """Pods of another revision do not count; a key that the pod lacks is ignored."""
    made = cluster(node("a", zone="a"), node("b", zone="b"))
    made.set(pod("old", node="a", labels={**WEB, "rev": "1"}))
    keyed = spread(WEB, match_label_keys=["rev", "absent"])
    assert passing(made, web(keyed, labels={**WEB, "rev": "2"})) == "ab"
    assert passing(made, web(keyed, labels={**WEB, "rev": "1"})) == "b"
    assert passing(made, web(keyed)) == "b"


def test_soft_constraints_do_not_filter() -> None:
    """With nothing hard the Filter is skipped."""
    made = zones(a=5, b=0)
    info = made.classes.info(web(spread(WEB, soft=True)))
    plugin = make(PodTopologySpread, made)
    assert plugin.pre_filter(CycleState(info.pod_class), info.pod, Nodes(made.nodes)) is SKIP


def test_a_bad_selector_is_an_error() -> None:
    """PreFilter and PreScore end the attempt with upstream's message."""
    made = zones(a=0)
    plugin = make(PodTopologySpread, made)
    bad = selector(None, expression("app", "In"))
    for soft, start in (
        (False, "get constraints from pod: obtaining pod's hard topology spread constraints: "),
        (True, "calculating preScoreState: obtaining pod's soft topology spread constraints: "),
    ):
        info = made.classes.info(web(spread(bad, soft=soft)))
        ask = plugin.pre_score if soft else plugin.pre_filter
        status = ask(CycleState(info.pod_class), info.pod, Nodes(made.nodes))
        assert status is not None
        assert status.code is Code.ERROR
        assert status.message.startswith(start)


nodes = st.lists(
    st.fixed_dictionaries(
        {}, optional={"zone": st.sampled_from("abc"), "labels": st.sampled_from([{"disk": "ssd"}, {"rack": "1"}])}
    ),
    min_size=1,
    max_size=5,
)
guests = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([WEB, {"app": "db"}, {}]), st.booleans(), st.booleans()), max_size=10
)
constraints = st.lists(
    st.builds(
        spread,
        st.sampled_from([selector(WEB), selector(None, expression("app", "Exists")), selector(), None]),
        st.sampled_from([ZONE, HOSTNAME, "rack"]),
        skew=st.integers(1, 3),
        min_domains=st.none() | st.integers(1, 4),
        affinity_policy=st.sampled_from([None, "Ignore"]),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda c: c.topology_key,
)


def build(specs: list[dict[str, Any]], others: list[tuple[int, dict[str, str], bool, bool]]) -> ClusterState:
    made = cluster(*(node(f"n{i}", **spec) for i, spec in enumerate(specs)))
    for number, (place, labels, leaving, other) in enumerate(others):
        made.set(
            pod(
                f"p{number}",
                node=f"n{place}",
                labels=labels,
                terminating=leaving,
                namespace="other" if other else "default",
            )
        )
    return made


def plainly(made: ClusterState, each: api.Pod, name: str) -> tuple[str, ...]:
    """Upstream's Filter for one node, in plain code."""
    keys = [c.topology_key for c in each.spec.topology_spread_constraints]
    here = next(n for n in Nodes(made.nodes) if n.name == name)
    for constraint in each.spec.topology_spread_constraints:
        if constraint.topology_key not in here.labels:
            return UNLABELED
        chosen = label_selector(constraint.label_selector)
        counts: Counter[str] = Counter()
        domains = set()
        for other in Nodes(made.nodes):
            if any(key not in other.labels for key in keys):
                continue
            wanted = each.spec.node_selector
            if constraint.node_affinity_policy != "Ignore" and any(other.labels.get(k) != v for k, v in wanted.items()):
                continue
            domain = other.labels[constraint.topology_key]
            domains.add(domain)
            counts[domain] += sum(
                not chosen.is_empty
                and chosen.matches(i.pod.labels)
                and i.pod.namespace == each.namespace
                and not i.terminating
                for i in other.pods
            )
        lowest = min((counts[d] for d in domains), default=2**31 - 1)
        if len(domains) < (constraint.min_domains or 1):
            lowest = 0
        own = int(chosen.matches(each.labels))
        if counts[here.labels[constraint.topology_key]] + own - lowest > constraint.max_skew:
            return SKEWED
    return ()


@given(specs=nodes, others=guests, wanted=constraints, on=st.sampled_from([{}, {"disk": "ssd"}]))
def test_filter_against_plain_counting(
    specs: list[dict[str, Any]],
    others: list[tuple[int, dict[str, str], bool, bool]],
    wanted: list[api.TopologySpreadConstraint],
    on: dict[str, str],
) -> None:
    """Counting pods node by node gives the same verdicts."""
    made = build(specs, others)
    each = web(*wanted, node_selector=on)
    expected = {n.name: plainly(made, each, n.name) for n in Nodes(made.nodes)}
    assert filtered(make(PodTopologySpread, made), made, each) == expected


# --- what-ifs ---------------------------------------------------------------------------------------------------------


def test_pods_added_and_removed_in_a_what_if() -> None:
    """Counts follow pods of a what-if; pods of other namespaces, or on nodes that do not count, change nothing."""
    made = zones(a=1, b=0)
    plugin = make(PodTopologySpread, made)
    info = made.classes.info(web(spread(WEB)))
    state = CycleState(info.pod_class)
    assert plugin.pre_filter(state, info.pod, Nodes(made.nodes)) is None

    def rejected() -> list[bool]:
        verdicts = plugin.filter_all(state, info.pod, Nodes(made.nodes))
        return [False, False] if verdicts is None else (verdicts.codes != 0).tolist()

    there, stranger = made.pods["default.a0"], made.classes.info(pod("s", namespace="other", labels=WEB))
    assert rejected() == [True, False]
    plugin.add_pod(state, info.pod, stranger, 1)
    assert rejected() == [True, False]
    plugin.remove_pod(state, info.pod, there, 0)
    assert rejected() == [False, False]
    plugin.add_pod(state, info.pod, there, 0)
    plugin.add_pod(state, info.pod, made.classes.info(pod("new", labels=WEB)), 1)
    assert rejected() == [False, False]
    plugin.add_pod(state, info.pod, made.classes.info(pod("newer", labels=WEB)), 1)
    assert rejected() == [False, True]


# --- Score ------------------------------------------------------------------------------------------------------------


def test_emptier_domains_score_higher() -> None:
    """Raw scores grow with the pods in a domain, weighed by the number of domains; the emptiest gets 100."""
    made = zones(a=4, b=2, c=0)
    plugin, each = make(PodTopologySpread, made), web(spread(WEB, soft=True))
    weight = math.log(3 + 2)
    raw = {"a": round(4 * weight), "b": round(2 * weight), "c": 0}
    assert scored(plugin, made, each, normalized=False) == raw
    highest = raw["a"]
    assert scored(plugin, made, each) == {name: 100 * (highest - score) // highest for name, score in raw.items()}


def test_max_skew_dampens() -> None:
    """A larger skew allowed adds to every node, so that differences weigh less."""
    made = zones(a=1, b=0)
    plugin = make(PodTopologySpread, made)
    weight = math.log(2 + 2)
    strict, loose = (scored(plugin, made, web(spread(WEB, soft=True, skew=skew))) for skew in (1, 5))
    assert strict == {"a": 0, "b": 100}
    assert loose == {"a": 100 * 4 // round(weight + 4), "b": 100}


def test_nodes_without_the_label_score_nothing() -> None:
    """They are ignored: no points for them, and they do not count for the others."""
    made = zones(a=1, b=0)
    made.set(node("x"))
    made.set(pod("p", node="x", labels=WEB))
    assert scored(make(PodTopologySpread, made), made, web(spread(WEB, soft=True))) == {"a": 0, "b": 100, "x": 0}


def test_all_equal_is_all_best() -> None:
    """Without any pods every node gets 100."""
    made = zones(a=0, b=0)
    assert scored(make(PodTopologySpread, made), made, web(spread(WEB, soft=True))) == {"a": 100, "b": 100}


def test_hosts_are_counted_by_themselves() -> None:
    """With the hostname as key the pods of each node count, weighed by the number of nodes."""
    made = zones(a=3, b=1, c=0)
    weight = math.log(3 + 2)
    found = scored(make(PodTopologySpread, made), made, web(spread(WEB, HOSTNAME, soft=True)), normalized=False)
    assert found == {"a": round(3 * weight), "b": round(weight), "c": 0}


def test_hard_constraints_do_not_score() -> None:
    """With nothing soft the Score is skipped."""
    made = zones(a=1, b=0)
    assert scored(make(PodTopologySpread, made), made, web(spread(WEB))) is None
    assert scored(make(PodTopologySpread, made), made, pod()) is None


# --- default constraints ----------------------------------------------------------------------------------------------


def test_system_defaults_spread_siblings() -> None:
    """Pods of a service, or of one owner, spread softly over hosts and zones; others do not."""
    made = zones(a=2, b=0)
    plugin = make(PodTopologySpread, made)
    assert scored(plugin, made, pod(labels=WEB)) is None
    made.set(service("web", WEB))
    found = scored(plugin, made, pod(labels=WEB))
    assert found is not None
    assert found["b"] > found["a"]
    made.remove(service("web", WEB))
    assert scored(plugin, made, pod(labels=WEB)) is None


def test_own_constraints_replace_the_defaults() -> None:
    """A pod with constraints of its own, even only hard ones, gets no defaults."""
    made = zones(a=2, b=0)
    made.set(service("web", WEB))
    assert scored(make(PodTopologySpread, made), made, web(spread(WEB))) is None


def test_listed_defaults() -> None:
    """Constraints from the configuration apply to siblings, hard ones too, and nodes need their labels."""
    args = PodTopologySpreadArgs(
        defaulting_type="List", default_constraints=(spread(None), spread(None, "rack", soft=True))
    )
    made = zones(a=1, b=0)
    made.set(node("x", labels={"rack": "1"}))
    made.set(service("web", WEB))
    plugin = make(PodTopologySpread, made, args)
    assert filtered(plugin, made, pod(labels=WEB)) == {"a": SKEWED, "b": (), "x": UNLABELED}
    assert filtered(plugin, made, pod(labels={"app": "db"})) == {"a": (), "b": (), "x": ()}
    assert scored(plugin, made, pod(labels=WEB)) == {"a": 0, "b": 0, "x": 100}


def test_no_defaults_at_all() -> None:
    """An empty list switches defaults off."""
    made = zones(a=1, b=0)
    made.set(service("web", WEB))
    plugin = make(PodTopologySpread, made, PodTopologySpreadArgs(defaulting_type="List"))
    assert scored(plugin, made, pod(labels=WEB)) is None


FULL_LABELS = {"app": "web", "tier": "front", "pod-template-hash": "1"}


@pytest.mark.parametrize(
    ("objects", "owned", "siblings"),
    [
        ([], None, []),
        ([service("s", {"app": "web"})], None, [{"app": "web"}]),
        ([service("s", {"app": "web"}), service("t", {"tier": "front"})], None, [{"app": "web", "tier": "front"}]),
        ([service("s", {"app": "db"})], None, []),
        ([service("s", {"app": "web"}, namespace="other")], None, []),
        ([service("s", {})], None, []),
        ([replica_set("r", {"app": "web"})], owner("ReplicaSet", "r"), [{"app": "web"}]),
        ([replica_set("r", {"app": "web"})], None, []),
        ([replica_set("r", {"app": "web"})], owner("ReplicaSet", "r", "extensions/v1"), []),
        ([replica_set("r", {"app": "web"}, namespace="other")], owner("ReplicaSet", "r"), []),
        ([stateful_set("r", {"app": "web"})], owner("StatefulSet", "r"), [{"app": "web"}]),
        ([stateful_set("r", {"app": "web"})], owner("ReplicaSet", "r"), []),
        ([replication_controller("r", {"app": "web"})], owner("ReplicationController", "r", "v1"), [{"app": "web"}]),
        (
            [service("s", {"tier": "front"}), replica_set("r", {"app": "web"})],
            owner("ReplicaSet", "r"),
            [{"app": "web", "tier": "front"}],
        ),
        ([service("s", {"app": "web"})], owner("Job", "j", "batch/v1"), [{"app": "web"}]),
        (
            [service("s", {"app": "web"}), replica_set("r", selector(None, expression("app", "In")))],
            owner("ReplicaSet", "r"),
            [{"app": "web"}],
        ),
    ],
)
def test_who_siblings_are(
    objects: list[api.Object], owned: api.OwnerReference | None, siblings: list[dict[str, str]]
) -> None:
    """The selectors of matching services and of the owner, combined; invalid and unknown ones are ignored."""
    made = cluster(*objects)
    found = default_selector(made, pod(labels=FULL_LABELS, owner=owned))
    expected = label_selector(selector(siblings[0])) if siblings else label_selector(selector())
    assert found == expected


# --- hints ------------------------------------------------------------------------------------------------------------

WAITING = pod("waiting", labels=WEB, spread=[spread(WEB), spread({"tier": "front"}, HOSTNAME)])
HONORING = pod("waiting", labels=WEB, spread=[spread(WEB, taints_policy="Honor")])


def other(labels: dict[str, str] | None = None, **fields: Any) -> api.Pod:
    return pod("other", **{"node": "a", "labels": labels or {}, **fields})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, other(WEB), QUEUE),
        (None, other({"tier": "front"}), QUEUE),
        (None, other({"app": "db"}), SKIPPED),
        (None, other(WEB, namespace="other"), SKIPPED),
        (None, other(WEB, node=""), SKIPPED),
        (None, other(WEB, node="", nominated="a"), QUEUE),
        (other(WEB), None, QUEUE),
        (other({"app": "db"}), None, SKIPPED),
        (other(WEB), other({"app": "db"}), QUEUE),
        (other({"app": "db"}), other(WEB), QUEUE),
        (other(WEB), other({**WEB, "x": "y"}), SKIPPED),
        (other(WEB, node=""), other(WEB), SKIPPED),
        (WAITING, pod("waiting", labels={}, spread=WAITING.spec.topology_spread_constraints), QUEUE),
    ],
)
def test_hints_of_pods(old: api.Pod | None, new: api.Pod | None, expected: Hint) -> None:
    """A pod of the namespace that a constraint selects is added, deleted, or changes its labels."""
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_POD_LABEL
    assert hint(make(PodTopologySpread, cluster()), Resource.POD, action, WAITING, old, new) is expected


def test_toleration_hints() -> None:
    """The pod's own new toleration helps where tainted nodes are left out."""
    plugin, changed = make(PodTopologySpread, cluster()), Action.UPDATE_POD_TOLERATION

    def tolerant(each: api.Pod) -> api.Pod:
        return pod("waiting", labels=WEB, spread=each.spec.topology_spread_constraints, tolerations=["k"])

    assert hint(plugin, Resource.POD, changed, HONORING, HONORING, tolerant(HONORING)) is QUEUE
    assert hint(plugin, Resource.POD, changed, WAITING, WAITING, tolerant(WAITING)) is SKIPPED


def labeled(zone: str | None = "x", **fields: Any) -> api.Node:
    return node("a", zone=zone, **fields)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, labeled(), QUEUE),
        (None, labeled(None), SKIPPED),
        (labeled(), None, QUEUE),
        (labeled(None), None, SKIPPED),
        (labeled(None), labeled(), QUEUE),
        (labeled(), labeled(None), QUEUE),
        (labeled("x"), labeled("y"), QUEUE),
        (labeled(), labeled(labels={"other": "1"}), SKIPPED),
        (labeled(), labeled(taints=["k:NoSchedule"]), QUEUE),
        (labeled(None), labeled(None, taints=["k:NoSchedule"]), SKIPPED),
    ],
)
def test_hints_of_nodes(old: api.Node | None, new: api.Node | None, expected: Hint) -> None:
    """A node with all the keys comes, goes, or changes its domain or taints."""
    if old is None or new is None:
        action = Action.ADD if old is None else Action.DELETE
    else:
        action = Action.UPDATE_NODE_TAINT if old.labels == new.labels else Action.UPDATE_NODE_LABEL
    assert hint(make(PodTopologySpread, cluster()), Resource.NODE, action, WAITING, old, new) is expected


def test_hints_of_default_constraints() -> None:
    """A pod with default constraints is judged by those."""
    made = cluster(service("web", WEB))
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(spread(None),))
    plugin = make(PodTopologySpread, made, args)
    assert hint(plugin, Resource.NODE, Action.ADD, pod(labels=WEB), None, labeled()) is QUEUE
    assert hint(plugin, Resource.NODE, Action.ADD, pod(labels=WEB), None, labeled(None)) is SKIPPED
    assert hint(plugin, Resource.POD, Action.ADD, pod("waiting", labels=WEB), None, other(WEB)) is QUEUE
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE, pod(labels=WEB), labeled(), labeled()) is None
