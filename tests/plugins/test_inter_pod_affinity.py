"""InterPodAffinity: required and preferred terms in both directions, against plain counting; hints."""

from __future__ import annotations

from collections.abc import Iterator
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
    namespace,
    node,
    pod,
    pod_term,
    selector,
)
from tests.harness import filtered, hint, make, scored

from kubesched.api import objects as api
from kubesched.api.selectors import label_selector
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.config.args import InterPodAffinityArgs
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Code
from kubesched.plugins.inter_pod_affinity import InterPodAffinity

QUEUE, SKIPPED = Hint.QUEUE, Hint.SKIP
WEB, DB = {"app": "web"}, {"app": "db"}
NOT_NEAR = ("UnschedulableAndUnresolvable", "node(s) didn't match pod affinity rules")
TOO_NEAR = ("Unschedulable", "node(s) didn't match pod anti-affinity rules")
UNWANTED = ("Unschedulable", "node(s) didn't satisfy existing pods anti-affinity rules")
BAD = selector(None, expression("app", "In"))


def two_zones(*objects: api.Object) -> ClusterState:
    """Nodes a1 and a2 in zone a, b1 in zone b, and x in none."""
    return cluster(node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), node("x"), *objects)


def found(made: ClusterState, each: api.Pod, args: InterPodAffinityArgs | None = None) -> dict[str, tuple[str, ...]]:
    return filtered(make(InterPodAffinity, made, args), made, each)


def everywhere(said: tuple[str, ...], **exceptions: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(["a1", "a2", "b1", "x"], said) | exceptions


# --- Filter: near -----------------------------------------------------------------------------------------------------


def test_near_others() -> None:
    """The pod goes where a matching pod is in the same domain, and nowhere else."""
    made = two_zones(pod("w", node="a1", labels=WEB))
    assert found(made, pod(affinity=affinity(near=[pod_term(WEB, ZONE)]))) == everywhere(NOT_NEAR, a1=(), a2=())
    assert found(made, pod(affinity=affinity(near=[pod_term(WEB, HOSTNAME)]))) == everywhere(NOT_NEAR, a1=())
    assert found(made, pod(affinity=affinity(near=[pod_term(DB, ZONE)]))) == everywhere(NOT_NEAR)


def test_one_pod_must_satisfy_all_terms() -> None:
    """Two terms met by two different pods are not met, as upstream has it."""
    terms = [pod_term(WEB, ZONE), pod_term({"tier": "front"}, HOSTNAME)]
    made = two_zones(pod("w", node="a1", labels=WEB), pod("t", node="a1", labels={"tier": "front"}))
    assert found(made, pod(affinity=affinity(near=terms))) == everywhere(NOT_NEAR)
    made.set(pod("both", node="a2", labels={**WEB, "tier": "front"}))
    assert found(made, pod(affinity=affinity(near=terms))) == everywhere(NOT_NEAR, a2=())


def test_the_first_of_its_kind() -> None:
    """A pod that its own terms select may go anywhere with the label while there is no such pod."""
    wants = affinity(near=[pod_term(WEB, ZONE)])
    made = two_zones()
    assert found(made, pod(labels=WEB, affinity=wants)) == everywhere((), x=NOT_NEAR)
    assert found(made, pod(labels=DB, affinity=wants)) == everywhere(NOT_NEAR)
    made.set(pod("w", node="b1", labels=WEB))
    assert found(made, pod(labels=WEB, affinity=wants)) == everywhere(NOT_NEAR, b1=())


def test_pods_on_nodes_without_the_label_do_not_count() -> None:
    """They are in no domain; a pod of the kind there does not end being the first."""
    made = two_zones(pod("w", node="x", labels=WEB))
    assert found(made, pod(labels=WEB, affinity=affinity(near=[pod_term(WEB, ZONE)]))) == everywhere((), x=NOT_NEAR)


# --- Filter: away -----------------------------------------------------------------------------------------------------


def test_away_from_others() -> None:
    """The pod does not go to the domain of a matching pod; a node in no domain is far from everything."""
    made = two_zones(pod("w", node="a1", labels=WEB))
    assert found(made, pod(affinity=affinity(away=[pod_term(WEB, ZONE)]))) == everywhere((), a1=TOO_NEAR, a2=TOO_NEAR)
    either = affinity(away=[pod_term(WEB, HOSTNAME), pod_term(DB, ZONE)])
    made.set(pod("d", node="b1", labels=DB))
    assert found(made, pod(affinity=either)) == everywhere((), a1=TOO_NEAR, b1=TOO_NEAR)


def test_others_may_want_to_be_alone() -> None:
    """A running pod's anti-affinity keeps the newcomer away as well."""
    made = two_zones(pod("loner", node="a1", affinity=affinity(away=[pod_term(WEB, ZONE)])))
    assert found(made, pod(labels=WEB)) == everywhere((), a1=UNWANTED, a2=UNWANTED)
    assert found(made, pod(labels=DB)) == everywhere(())


def test_which_objection_is_reported() -> None:
    """Affinity comes before the pod's own anti-affinity, and that before what others want."""
    loner = affinity(away=[pod_term(selector(), HOSTNAME)])
    made = two_zones(pod("w", node="a1", labels=WEB, affinity=loner))
    away, near = [pod_term(WEB, HOSTNAME)], [pod_term(DB, ZONE)]
    assert found(made, pod(labels=WEB))["a1"] == UNWANTED
    assert found(made, pod(labels=WEB, affinity=affinity(away=away)))["a1"] == TOO_NEAR
    assert found(made, pod(labels=WEB, affinity=affinity(away=away, near=near)))["a1"] == NOT_NEAR


def test_nothing_to_check_is_skipped() -> None:
    """Without required terms, own or others', the Filter is skipped."""
    made = two_zones(pod("w", node="a1", affinity=affinity(prefer_away=[(1, pod_term(WEB))])))
    info = made.classes.info(pod(labels=WEB, affinity=affinity(prefer_near=[(1, pod_term(WEB))])))
    plugin = make(InterPodAffinity, made)
    assert plugin.pre_filter(CycleState(info.pod_class), info.pod, Nodes(made.nodes)) is SKIP


# --- namespaces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "counted"),
    [
        (pod_term(WEB), {"default"}),
        (pod_term(WEB, namespaces=["blue"]), {"blue"}),
        (pod_term(WEB, namespaces=["blue", "default"]), {"blue", "default"}),
        (pod_term(WEB, namespace_selector={"team": "one"}), {"blue"}),
        (pod_term(WEB, namespaces=["red"], namespace_selector={"team": "one"}), {"blue", "red"}),
        (pod_term(WEB, namespace_selector=selector()), {"default", "blue", "red", "unseen"}),
        (pod_term(WEB, namespace_selector={"team": "none"}), set()),
    ],
)
def test_namespaces(term: api.PodAffinityTerm, counted: set[str]) -> None:
    """A term selects pods of its own namespace, of those named, or of those selected; so do other pods' terms."""
    names = ["default", "blue", "red", "unseen"]
    spaces = [namespace("default"), namespace("blue", labels={"team": "one"}), namespace("red", labels={"team": "two"})]
    made = cluster(*(node(name) for name in names), *spaces)
    for name in names:
        made.set(pod("w", namespace=name, node=name, labels=WEB))
    answers = found(made, pod(affinity=affinity(away=[term])))
    assert {name for name, said in answers.items() if said} == counted
    others = cluster(node("a"), *spaces, pod("loner", node="a", affinity=affinity(away=[term])))
    assert {name for name in names if found(others, pod(namespace=name, labels=WEB))["a"]} == counted


def test_a_namespace_that_changes_sides() -> None:
    """Results follow a namespace's labels, in both directions, while the plugin stays the same."""
    term = pod_term(WEB, namespace_selector={"team": "one"})
    made = cluster(node("a"), node("b"), namespace("blue"), pod("w", namespace="blue", node="a", labels=WEB))
    made.set(pod("loner", node="b", affinity=affinity(away=[term])))
    plugin = make(InterPodAffinity, made)
    mine, theirs = pod("m", affinity=affinity(away=[term])), pod("t", namespace="blue", labels=WEB)
    for labels, seen in (({"team": "one"}, True), ({"team": "two"}, False), ({"team": "one"}, True)):
        made.set(namespace("blue", labels=labels))
        assert filtered(plugin, made, mine) == {"a": TOO_NEAR if seen else (), "b": ()}
        assert filtered(plugin, made, theirs) == {"a": (), "b": UNWANTED if seen else ()}
    made.remove(namespace("blue"))
    assert filtered(plugin, made, mine) == {"a": (), "b": ()}


# --- what does not parse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["near", "away", "prefer_near", "prefer_away"])
def test_a_bad_selector_rejects_the_pod(place: str) -> None:
    """An invalid selector in any list makes the pod unresolvable, with upstream's message."""
    made = two_zones()
    term = (1, pod_term(BAD)) if place.startswith("prefer") else pod_term(BAD)
    answers = found(made, pod(affinity=affinity(**{place: [term]})))  # type: ignore[arg-type]
    code, message = answers["a1"]
    assert code == "UnschedulableAndUnresolvable"
    assert message.startswith("parsing pod: ")


def test_a_bad_selector_of_a_running_pod_harms_nobody() -> None:
    """Its list counts as empty, its other lists and other pods' terms as they are."""
    made = two_zones(
        pod("odd", node="a1", affinity=affinity(away=[pod_term(BAD)], prefer_away=[(10, pod_term(WEB, ZONE))]))
    )
    made.set(pod("loner", node="b1", affinity=affinity(away=[pod_term(WEB, HOSTNAME)])))
    assert found(made, pod(labels=WEB)) == everywhere((), b1=UNWANTED)
    scores = scored(make(InterPodAffinity, made), made, pod(labels=WEB), normalized=False)
    assert scores == {"a1": -10, "a2": -10, "b1": 0, "x": 0}


# --- Score ------------------------------------------------------------------------------------------------------------


def test_preferences_of_the_pod() -> None:
    """Every matching pod in the domain adds or takes the weight; the range is stretched to 0…100."""
    made = two_zones(pod("w1", node="a1", labels=WEB), pod("w2", node="a2", labels=WEB), pod("d", node="b1", labels=DB))
    likes = affinity(
        prefer_near=[(10, pod_term(WEB, ZONE)), (3, pod_term(WEB, HOSTNAME))], prefer_away=[(4, pod_term(DB, ZONE))]
    )
    plugin, each = make(InterPodAffinity, made), pod(affinity=likes)
    assert scored(plugin, made, each, normalized=False) == {"a1": 23, "a2": 23, "b1": -4, "x": 0}
    assert scored(plugin, made, each) == {"a1": 100, "a2": 100, "b1": 0, "x": int(100 * 4 / 27)}


def test_preferences_of_others() -> None:
    """Running pods' preferences about the newcomer count as well, and their required affinity with its own weight."""
    made = two_zones(
        pod("fan", node="a1", affinity=affinity(prefer_near=[(7, pod_term(WEB, ZONE))])),
        pod("foe", node="b1", affinity=affinity(prefer_away=[(5, pod_term(WEB, ZONE))])),
        pod("friend", node="x", affinity=affinity(near=[pod_term(WEB, HOSTNAME)])),
    )

    def scores(**args: Any) -> dict[str, int] | None:
        return scored(
            make(InterPodAffinity, made, InterPodAffinityArgs(**args)), made, pod(labels=WEB), normalized=False
        )

    assert scores() == {"a1": 7, "a2": 7, "b1": -5, "x": 1}
    assert scores(hard_pod_affinity_weight=50) == {"a1": 7, "a2": 7, "b1": -5, "x": 50}
    assert scores(hard_pod_affinity_weight=0) == {"a1": 7, "a2": 7, "b1": -5, "x": 0}


def test_ignoring_preferences_of_others() -> None:
    """So configured, a pod without preferences of its own is not scored; one with some still meets others'."""
    made = two_zones(pod("fan", node="a1", labels=DB, affinity=affinity(prefer_near=[(7, pod_term(WEB, ZONE))])))
    plugin = make(InterPodAffinity, made, InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True))
    assert scored(plugin, made, pod(labels=WEB)) is None
    likes = pod(labels=WEB, affinity=affinity(prefer_near=[(2, pod_term(DB, HOSTNAME))]))
    assert scored(plugin, made, likes, normalized=False) == {"a1": 9, "a2": 7, "b1": 0, "x": 0}


def test_nobody_to_prefer() -> None:
    """Without a matching pod anywhere the Score is skipped."""
    made = two_zones()
    assert scored(make(InterPodAffinity, made), made, pod(affinity=affinity(prefer_near=[(1, pod_term(WEB))]))) is None
    assert scored(make(InterPodAffinity, made), made, pod()) is None


def test_equal_scores_are_all_zero() -> None:
    """When all nodes score the same nothing is to be gained."""
    made = cluster(node("a", zone="z"), node("b", zone="z"), pod("w", node="a", labels=WEB))
    each = pod(affinity=affinity(prefer_near=[(5, pod_term(WEB, ZONE))]))
    assert scored(make(InterPodAffinity, made), made, each) == {"a": 0, "b": 0}


# --- against plain counting -------------------------------------------------------------------------------------------

KEYS = st.sampled_from([ZONE, HOSTNAME, "rack"])
terms = st.builds(
    pod_term,
    st.sampled_from([selector(WEB), selector(DB), selector(), None]),
    KEYS,
    namespaces=st.lists(st.sampled_from(["default", "blue"]), max_size=1),
    namespace_selector=st.sampled_from([None, selector({"team": "one"}), selector()]),
)
weighted = st.tuples(st.integers(1, 9), terms)
wishes = st.builds(
    affinity,
    near=st.lists(terms, max_size=2),
    away=st.lists(terms, max_size=2),
    prefer_near=st.lists(weighted, max_size=2),
    prefer_away=st.lists(weighted, max_size=2),
)
labels = st.sampled_from([WEB, DB, {}])
spaces = st.sampled_from(["default", "blue", "unseen"])
guests = st.lists(st.tuples(st.integers(0, 4), labels, spaces, st.none() | wishes, st.booleans()), max_size=7)
nodes = st.lists(
    st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ab"), "labels": st.just({"rack": "1"})}),
    min_size=1,
    max_size=4,
)


class Plain:
    """Upstream's rules, spelled out pod by pod and node by node."""

    def __init__(self, made: ClusterState, each: api.Pod) -> None:
        self.made = made
        self.each = each

    def speaks(self, term: api.PodAffinityTerm, of: api.Pod, by: api.Pod, *, incoming: bool) -> bool:
        """Whether `by`'s term selects a pod. An incoming pod's namespace selector is resolved beforehand."""
        own = not term.namespaces and term.namespace_selector is None
        named = {by.namespace} if own else set(term.namespaces)
        selected = label_selector(term.namespace_selector)
        space = self.made.get(api.Namespace, of.namespace)
        if incoming:
            here = selected.matches({}) or (space is not None and selected.matches(space.labels))
        else:
            here = selected.matches(space.labels if space is not None else {})
        return (of.namespace in named or here) and label_selector(term.label_selector).matches(of.labels)

    def around(self, here: NodeInfo, key: str) -> Iterator[api.Pod]:
        """The pods in the domain of a node."""
        for other in Nodes(self.made.nodes):
            if key in here.labels and other.labels.get(key) == here.labels[key]:
                yield from (info.pod for info in other.pods)

    def somewhere(self, key: str) -> Iterator[api.Pod]:
        """The pods in any domain of a key."""
        return (info.pod for other in Nodes(self.made.nodes) if key in other.labels for info in other.pods)

    def filter(self, here: NodeInfo) -> tuple[str, ...]:
        wants = self.each.spec.affinity
        assert wants is not None
        assert wants.pod_affinity is not None
        assert wants.pod_anti_affinity is not None
        near = wants.pod_affinity.required_during_scheduling_ignored_during_execution
        away = wants.pod_anti_affinity.required_during_scheduling_ignored_during_execution

        def all_speak(of: api.Pod) -> bool:
            return all(self.speaks(term, of, self.each, incoming=True) for term in near)

        if near:
            if any(term.topology_key not in here.labels for term in near):
                return NOT_NEAR
            met = all(any(all_speak(p) for p in self.around(here, term.topology_key)) for term in near)
            first = all_speak(self.each) and not any(all_speak(p) for t in near for p in self.somewhere(t.topology_key))
            if not met and not first:
                return NOT_NEAR
        if any(self.speaks(t, p, self.each, incoming=True) for t in away for p in self.around(here, t.topology_key)):
            return TOO_NEAR
        for key in (ZONE, HOSTNAME, "rack"):
            for other in self.around(here, key):
                if any(self.speaks(t, self.each, other, incoming=False) for t in _away(other) if t.topology_key == key):
                    return UNWANTED
        return ()

    def score(self, here: NodeInfo) -> int:
        total = 0
        for weight, term in _preferred(self.each):
            around = self.around(here, term.topology_key)
            total += weight * sum(self.speaks(term, p, self.each, incoming=True) for p in around)
        for key in (ZONE, HOSTNAME, "rack"):
            for other in self.around(here, key):
                for weight, term in (*_preferred(other), *((1, t) for t in _near(other))):
                    if term.topology_key == key:
                        total += weight * self.speaks(term, self.each, other, incoming=False)
        return total


def _near(each: api.Pod) -> tuple[api.PodAffinityTerm, ...]:
    side = each.spec.affinity and each.spec.affinity.pod_affinity
    return side.required_during_scheduling_ignored_during_execution if side else ()


def _away(each: api.Pod) -> tuple[api.PodAffinityTerm, ...]:
    side = each.spec.affinity and each.spec.affinity.pod_anti_affinity
    return side.required_during_scheduling_ignored_during_execution if side else ()


def _preferred(each: api.Pod) -> Iterator[tuple[int, api.PodAffinityTerm]]:
    if each.spec.affinity is not None:
        for side, sign in ((each.spec.affinity.pod_affinity, 1), (each.spec.affinity.pod_anti_affinity, -1)):
            for preferred in side.preferred_during_scheduling_ignored_during_execution if side else ():
                yield sign * preferred.weight, preferred.pod_affinity_term


def build(specs: list[dict[str, Any]], others: list[tuple[int, dict[str, str], str, Any, bool]]) -> ClusterState:
    made = cluster(namespace("default"), namespace("blue", labels={"team": "one"}))
    for number, spec in enumerate(specs):
        made.set(node(f"n{number}", **spec))
    for number, (place, has, space, wants, leaving) in enumerate(others):
        made.set(pod(f"p{number}", node=f"n{place}", labels=has, namespace=space, affinity=wants, terminating=leaving))
    return made


@given(specs=nodes, others=guests, has=labels, space=spaces, wants=wishes)
def test_filter_against_plain_counting(
    specs: list[dict[str, Any]],
    others: list[tuple[int, dict[str, str], str, Any, bool]],
    has: dict[str, str],
    space: str,
    wants: api.Affinity,
) -> None:
    """Counting pods node by node gives the same verdicts."""
    made = build(specs, others)
    each = pod("each", labels=has, namespace=space, affinity=wants)
    plain = Plain(made, each)
    assert found(made, each) == {here.name: plain.filter(here) for here in Nodes(made.nodes)}


@given(specs=nodes, others=guests, has=labels, space=spaces, wants=wishes)
def test_score_against_plain_counting(
    specs: list[dict[str, Any]],
    others: list[tuple[int, dict[str, str], str, Any, bool]],
    has: dict[str, str],
    space: str,
    wants: api.Affinity,
) -> None:
    """Adding weights up pod by pod gives the same scores."""
    made = build(specs, others)
    each = pod("each", labels=has, namespace=space, affinity=wants)
    plain = Plain(made, each)
    expected = {here.name: plain.score(here) for here in Nodes(made.nodes)}
    scores = scored(make(InterPodAffinity, made), made, each, normalized=False)
    assert (scores or dict.fromkeys(expected, 0)) == expected


@given(specs=nodes, others=guests, has=labels, wants=wishes, data=st.data())
def test_a_what_if_is_as_the_real_thing(
    specs: list[dict[str, Any]],
    others: list[tuple[int, dict[str, str], str, Any, bool]],
    has: dict[str, str],
    wants: api.Affinity,
    data: st.DataObject,
) -> None:
    """Telling the plugin that a pod came or went gives what a cluster with that pod, or without it, gives."""
    made = build(specs, others)
    plugin = make(InterPodAffinity, made)
    info = made.classes.info(pod("each", labels=has, affinity=wants))
    state = CycleState(info.pod_class)
    if plugin.pre_filter(state, info.pod, Nodes(made.nodes)) is SKIP:
        return
    what_if = state.clone()
    change = data.draw(st.sampled_from(["come", *sorted(made.pods)]))
    if change == "come":
        guest = made.classes.info(pod("guest", labels=data.draw(labels), affinity=data.draw(wishes)))
        row = data.draw(st.integers(0, len(specs) - 1))
        plugin.add_pod(what_if, info.pod, guest, row)
        made.assume(guest, made.nodes.names[row])
    else:
        guest = made.pods[change]
        if guest.row >= 0 and made.nodes.valid[guest.row]:
            plugin.remove_pod(what_if, info.pod, guest, guest.row)
        made.remove(guest.pod)
    supposed = plugin.filter_all(what_if, info.pod, Nodes(made.nodes))
    really = filtered(make(InterPodAffinity, made), made, info.pod)
    for here in Nodes(made.nodes):
        code = 0 if supposed is None else int(supposed.codes[here.row])
        said = () if supposed is None or not code else supposed.status_of(code)
        assert (said if isinstance(said, tuple) else (said.code.upstream, *said.reasons)) == really[here.name]


# --- hints ------------------------------------------------------------------------------------------------------------

NEAR_WEB = pod("waiting", affinity=affinity(near=[pod_term(WEB, ZONE)]))
AWAY_FROM_WEB = pod("waiting", affinity=affinity(away=[pod_term(WEB, ZONE)]))
PLAIN_WEB = pod("waiting", labels=WEB)


def other(has: dict[str, str] | None = None, **fields: Any) -> api.Pod:
    return pod("other", **{"node": "a", "labels": has or {}, **fields})


HATES_WEB = affinity(away=[pod_term(WEB, ZONE)])


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        (NEAR_WEB, None, other(WEB), QUEUE),
        (NEAR_WEB, None, other(DB), SKIPPED),
        (NEAR_WEB, None, other(WEB, node=""), SKIPPED),
        (NEAR_WEB, None, other(WEB, node="", nominated="a"), QUEUE),
        (NEAR_WEB, None, other(WEB, namespace="blue"), SKIPPED),
        (NEAR_WEB, other(DB), other(WEB), QUEUE),
        (NEAR_WEB, other(WEB), other(DB), SKIPPED),
        (NEAR_WEB, other(WEB), other({**WEB, "x": "y"}), SKIPPED),
        (NEAR_WEB, other(WEB), None, SKIPPED),
        (AWAY_FROM_WEB, None, other(WEB), SKIPPED),
        (AWAY_FROM_WEB, other(WEB), None, QUEUE),
        (AWAY_FROM_WEB, other(DB), None, SKIPPED),
        (AWAY_FROM_WEB, other(WEB, node=""), None, SKIPPED),
        (AWAY_FROM_WEB, other(WEB), other(DB), QUEUE),
        (AWAY_FROM_WEB, other(DB), other(WEB), SKIPPED),
        (PLAIN_WEB, other(affinity=HATES_WEB), None, QUEUE),
        (pod("waiting", labels=DB), other(affinity=HATES_WEB), None, SKIPPED),
        # The waiting pod's own labels changed: others may no longer mind it.
        (PLAIN_WEB, PLAIN_WEB, pod("waiting", labels=DB), QUEUE),
    ],
)
def test_hints_of_pods(waiting: api.Pod, old: api.Pod | None, new: api.Pod | None, expected: Hint) -> None:
    """A pod on a node joins those wanted near, or leaves those wanted away, in either direction."""
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_POD_LABEL
    assert hint(make(InterPodAffinity, cluster()), Resource.POD, action, waiting, old, new) is expected


def zoned(zone: str | None = "x") -> api.Node:
    return node("a", zone=zone)


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        (NEAR_WEB, None, zoned(), QUEUE),
        (NEAR_WEB, None, zoned(None), SKIPPED),
        (NEAR_WEB, zoned(None), zoned(), QUEUE),
        (NEAR_WEB, zoned("x"), zoned("y"), QUEUE),
        (NEAR_WEB, zoned(), zoned(), SKIPPED),
        (NEAR_WEB, zoned(), zoned(None), SKIPPED),
        (AWAY_FROM_WEB, None, zoned(), QUEUE),
        (AWAY_FROM_WEB, None, zoned(None), QUEUE),
        (AWAY_FROM_WEB, zoned("x"), zoned("y"), QUEUE),
        (AWAY_FROM_WEB, zoned(), zoned(None), QUEUE),
        (AWAY_FROM_WEB, zoned(None), zoned(), SKIPPED),
        (AWAY_FROM_WEB, zoned(), zoned(), SKIPPED),
        (PLAIN_WEB, None, zoned(), SKIPPED),
    ],
)
def test_hints_of_nodes(waiting: api.Pod, old: api.Node | None, new: api.Node, expected: Hint) -> None:
    """A node joins a domain that the pod could use, or leaves one that it could not."""
    action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL
    assert hint(make(InterPodAffinity, cluster()), Resource.NODE, action, waiting, old, new) is expected


def test_hints_of_terms_that_do_not_parse() -> None:
    """Upstream cannot decide and queues the pod; an invalid preference does not matter here."""
    plugin = make(InterPodAffinity, cluster())
    for bad in (affinity(near=[pod_term(BAD)]), affinity(away=[pod_term(BAD)])):
        waiting = pod("waiting", affinity=bad)
        assert hint(plugin, Resource.POD, Action.ADD, waiting, None, other(WEB)) is QUEUE
        assert hint(plugin, Resource.NODE, Action.ADD, waiting, None, zoned()) is QUEUE
    preference = pod("waiting", affinity=affinity(prefer_near=[(1, pod_term(BAD))]))
    assert hint(plugin, Resource.POD, Action.ADD, preference, None, other(WEB)) is SKIPPED
    assert hint(plugin, Resource.NODE, Action.ADD, preference, None, zoned()) is SKIPPED


def test_what_does_not_interest_affinity() -> None:
    """Changes of taints and sizes of nodes, and deletions of nodes, are skipped."""
    plugin = make(InterPodAffinity, cluster())
    for action in (Action.UPDATE_NODE_TAINT, Action.UPDATE_NODE_ALLOCATABLE, Action.DELETE):
        assert hint(plugin, Resource.NODE, action, NEAR_WEB, zoned(), zoned()) is None
    assert hint(plugin, Resource.POD, Action.UPDATE_POD_TOLERATION, NEAR_WEB, other(WEB), other(WEB)) is None


def test_a_bad_term_is_an_error_at_prescore() -> None:
    """A profile without PreFilter meets the bad selector when scoring."""
    made = two_zones(pod("w", node="a1", labels=WEB))
    info = made.classes.info(pod(affinity=affinity(prefer_near=[(1, pod_term(BAD))])))
    status = make(InterPodAffinity, made).pre_score(CycleState(info.pod_class), info.pod, Nodes(made.nodes))
    assert status is not None
    assert status.code is Code.ERROR
    assert status.message.startswith("failed to parse pod: ")
