"""A profile's plugins, run as upstream's framework runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.builders import cluster, node, pod
from tests.harness import make, named, profile

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import CPU, Ints
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.errors import PluginError
from kubesched.framework.plugin import Plugin, PostFilterResult, Verdicts
from kubesched.framework.runtime import Framework, PreFilterOutcome
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from kubesched.framework.what_if import checked
from kubesched.plugins.node_resources import NodeResourcesFit


def state_of(made: ClusterState, each: api.Pod) -> tuple[CycleState, PodInfo]:
    info = made.classes.info(each)
    return CycleState(info.pod_class), info


def new_state() -> CycleState:
    return state_of(cluster(), pod())[0]


# --- PreEnqueue -------------------------------------------------------------------------------------------------------


class Gate(Plugin):
    """Blocks pods with the label "out", and raises for the label "bug"."""

    name = "Gate"

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        if "bug" in pod.labels:
            raise RuntimeError("oops")
        return unresolvable("kept out") if "out" in pod.labels else None


def test_pre_enqueue() -> None:
    """The first plugin that blocks the pod is reported by name; otherwise the result is None."""
    framework = profile(cluster(), Gate)
    assert framework.run_pre_enqueue(pod()) is None
    assert framework.run_pre_enqueue(pod(labels={"out": ""})) == unresolvable("kept out").by("Gate")


# --- PreFilter --------------------------------------------------------------------------------------------------------


def merged(*answers: Any) -> tuple[PreFilterOutcome, CycleState]:
    state = new_state()
    framework = profile(cluster())
    return framework.combine_pre_filter(((f"P{i}", answer) for i, answer in enumerate(answers)), state), state


def test_none_is_success() -> None:
    """Plugins that return nothing keep all nodes."""
    outcome, state = merged(None, Status(Code.SUCCESS), None)
    assert (outcome.status, outcome.node_names, outcome.plugins) == (None, None, frozenset())
    assert state.skip_filter == set()


def test_skip_spares_the_filter() -> None:
    """A plugin that skips is recorded in the cycle, and its Filter is not active."""
    made = cluster(node("a"))
    state, _ = state_of(made, pod())
    framework = profile(made, NodeResourcesFit)
    assert [f.name for f in framework.active_filters(state)] == ["NodeResourcesFit"]
    outcome = framework.combine_pre_filter([("NodeResourcesFit", SKIP)], state)
    assert outcome.status is None
    assert state.skip_filter == {"NodeResourcesFit"}
    assert framework.active_filters(state) == []


def test_an_unresolvable_rejection_ends_it() -> None:
    """After an unresolvable rejection, later plugins are not called, since preemption cannot help."""
    asked: list[str] = []

    def answers() -> Any:
        for name, answer in (("P0", unresolvable("never")), ("P1", unschedulable("not now"))):
            asked.append(name)
            yield name, answer

    outcome = profile(cluster()).combine_pre_filter(answers(), new_state())
    assert outcome.status == unresolvable("never").by("P0")
    assert outcome.plugins == frozenset()
    assert asked == ["P0"]


def test_a_resolvable_rejection_lets_the_others_prepare() -> None:
    """After a resolvable rejection all plugins still run, since preemption needs their state; the last rejection is
    reported.
    """
    outcome, state = merged(unschedulable("first"), SKIP, unschedulable("last"), None)
    assert outcome.status == unschedulable("last").by("P2")
    assert state.skip_filter == {"P1"}


def test_an_unresolvable_rejection_after_a_resolvable_one() -> None:
    """An unresolvable rejection takes precedence over a resolvable one."""
    outcome, _ = merged(unschedulable("first"), unresolvable("never"))
    assert outcome.status == unresolvable("never").by("P1")


def test_narrowing() -> None:
    """The node names of several plugins are intersected, and those plugins are recorded."""
    outcome, _ = merged({"a", "b", "c"}, None, frozenset(("b", "c", "d")))
    assert outcome.node_names == frozenset(("b", "c"))
    assert outcome.plugins == {"P0", "P2"}
    assert outcome.status is None


def test_narrowing_to_nothing() -> None:
    """One plugin that allows no node is named; several whose intersection is empty are listed."""
    alone, _ = merged(set())
    assert alone.status == unresolvable("node(s) didn't satisfy plugin P0")
    assert alone.plugins == {"P0"}
    together, _ = merged({"a"}, None, {"b"}, unresolvable("not reached"))
    assert together.status == unresolvable("node(s) didn't satisfy plugin(s) [P0 P2] simultaneously")
    assert together.plugins == {"P0", "P2"}


@pytest.mark.parametrize("status", [error("lost"), Status(Code.PENDING, "lost"), Status(Code.WAIT, "lost")])
def test_any_other_prefilter_status_is_an_error(status: Status) -> None:
    """A code that PreFilter must not return ends the attempt with upstream's message."""
    with pytest.raises(PluginError, match='running PreFilter plugin "P0": lost') as caught:
        merged(status)
    assert (caught.value.plugin, caught.value.point) == ("P0", "PreFilter")


# --- Filter -----------------------------------------------------------------------------------------------------------


class Picky(Plugin):
    """Rejects the configured nodes with the configured status."""

    name = "Picky"
    rejects: dict[str, Status] = {}  # noqa: RUF012 - set per test
    asked: list[str] = []  # noqa: RUF012 - set per test

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return self.rejects.get(node.name)


def picky(made: ClusterState, name: str, **rejects: Status) -> Picky:
    plugin = make(named(Picky, name), made)
    plugin.rejects, plugin.asked = rejects, []
    return plugin


def test_filters_in_their_order() -> None:
    """Each node has the status of the first plugin that rejects it."""
    made = cluster(node("a"), node("b"), node("c"))
    full, busy = unschedulable("full"), unresolvable("busy")
    framework = profile(made, picky(made, "One", b=full), picky(made, "Two", b=busy, c=busy))
    state, info = state_of(made, pod())
    rejections = framework.run_filters(state, info.pod, Nodes(made.nodes))
    assert [rejections.status(row) for row in range(3)] == [None, full.by("One"), busy.by("Two")]


def test_one_row_at_a_time() -> None:
    """A single row gives the same result as in a window."""
    made = cluster(node("a"), node("b"))
    framework = profile(made, picky(made, "One", b=unschedulable("full")))
    state, info = state_of(made, pod())
    assert framework.what_if.status_on(state, info.pod, 0) is None
    assert framework.what_if.status_on(state, info.pod, 1) == unschedulable("full").by("One")
    rejections = framework.what_if.rejections_on(state, info.pod, np.array([1, 0]))
    assert [spoken is not None for spoken in map(rejections.status, range(2))] == [True, False]


def test_a_filter_error_says_where_it_is_from() -> None:
    """A status that is not a rejection is a plugin error with upstream's message, and ends the attempt."""
    made = cluster(node("a"))
    framework = profile(made, picky(made, "One", a=error("disk on fire")))
    state, info = state_of(made, pod())
    status = framework.what_if.status_on(state, info.pod, 0)
    assert status == error('running "One" filter plugin: disk on fire').by("One")
    with pytest.raises(PluginError, match='running "One" filter plugin: disk on fire') as caught:
        checked(framework.what_if.rejections_on(state, info.pod, np.array([0])).status(0))
    assert (caught.value.plugin, caught.value.point) == ("One", "Filter")
    assert checked(None) is None
    assert checked(unschedulable("full")) == unschedulable("full")


def test_lifted_and_vectorised_forms() -> None:
    """Only a plugin without a vectorised form is marked as lifted, and what it reads is unknown."""
    made = cluster()
    framework = profile(made, picky(made, "One"), NodeResourcesFit)
    assert [(f.name, f.lifted) for f in framework.filters] == [("One", True), ("NodeResourcesFit", False)]
    assert not framework.filters[0].reads.is_cacheable
    assert framework.filters[1].reads.is_cacheable


def test_what_is_row_local() -> None:
    """A profile is row-local if every active Filter evaluates a row by that row alone."""
    made = cluster()
    state = new_state()
    assert profile(made, NodeResourcesFit).what_if.is_row_local(state)
    mixed = profile(made, NodeResourcesFit, picky(made, "One"))
    assert not mixed.what_if.is_row_local(state)
    state.skip_filter.add("One")
    assert mixed.what_if.is_row_local(state)


# --- nominated pods and other what-ifs --------------------------------------------------------------------------------


class Counter(Plugin):
    """Counts the pods added and removed, and for some pods requires that there are any."""

    name = "Counter"

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        if "alone" in pod.labels:
            return SKIP
        state.write(self, Calls())
        return None

    def add_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(self, Calls).pods.append(f"+{info.pod.name}@{row}")

    def remove_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(self, Calls).pods.append(f"-{info.pod.name}@{row}")

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        lonely = "company" in pod.labels and not state.read(self, Calls).pods
        return unschedulable("nobody there") if lonely else None


class Calls:
    """The calls that `Counter` received."""

    def __init__(self, pods: Sequence[str] = ()) -> None:
        self.pods = list(pods)

    def clone(self) -> Calls:
        return Calls(self.pods)


def test_nominated_pods_count_as_if_they_were_there() -> None:
    """Nominated pods of equal or higher priority count on the node while it is evaluated."""
    made = cluster(node("a", cpu="2"), pod("promised", nominated="a", cpu="2", priority=5))
    framework = profile(made, NodeResourcesFit)
    for priority, fits in ((6, True), (5, False), (4, False)):
        state, info = state_of(made, pod(cpu="1", priority=priority))
        assert (framework.what_if.status_on(state, info.pod, 0) is None) is fits
        assert bool(framework.what_if.nominated_rows(info.pod)) is not fits
    assert not made.nodes.used.any()
    assert made.nodes.pods[0] == {}


def test_a_pod_is_not_added_to_its_own_nominated_node() -> None:
    """A pod that is itself nominated to the node is not added to it."""
    made = cluster(node("a", cpu="2"), pod("p", nominated="a", cpu="2"))
    state, info = state_of(made, pod("p", nominated="a", cpu="2"))
    framework = profile(made, NodeResourcesFit)
    assert framework.what_if.status_on(state, info.pod, 0) is None
    assert framework.what_if.nominated_rows(info.pod) == []


def test_a_pod_must_fit_without_the_nominated_ones_too() -> None:
    """A pod that fits only together with the nominated pods does not fit, since they may end up elsewhere."""
    made = cluster(node("a"), pod("promised", nominated="a"))
    framework = profile(made, Counter)
    state, info = state_of(made, pod(labels={"company": ""}))
    framework.ask_pre_filter(framework.pre_filter[0], state, info.pod, Nodes(made.nodes))
    assert framework.what_if.status_on(state, info.pod, 0) == unschedulable("nobody there").by("Counter")
    assert state.read(framework.pre_filter[0], Calls).pods == []


def test_plugins_are_notified_of_pods_in_a_what_if() -> None:
    """PreFilter plugins are notified of added and removed pods, in the what-if's own state, unless they were
    skipped.
    """
    made = cluster(node("a"), pod("promised", nominated="a"))
    framework = profile(made, Counter)
    plugin = framework.pre_filter[0]
    state, info = state_of(made, pod())
    framework.ask_pre_filter(plugin, state, info.pod, Nodes(made.nodes))
    with framework.what_if.with_nominated(state, info.pod, 0) as (what_if, added):
        assert added
        assert what_if.read(plugin, Calls).pods == ["+promised@0"]
    assert state.read(plugin, Calls).pods == []
    state, info = state_of(made, pod(labels={"alone": ""}))
    state.skip_filter.add("Counter")
    with framework.what_if.with_nominated(state, info.pod, 0) as (_, added):
        assert added


def test_a_what_if_leaves_nothing_behind() -> None:
    """Pods, amounts, order and tags of the rows are restored, even after an error."""
    made = cluster(
        node("a"),
        node("b"),
        pod("p", node="a", cpu="1", host_ports=[80]),
        pod("q", node="a", cpu="1"),
        pod("r", node="b", cpu="1"),
    )
    framework = profile(made, NodeResourcesFit)
    state, info = state_of(made, pod(cpu="1"))
    table = made.nodes
    before = [list(pods) for pods in table.pods], table.used.tolist(), repr(table.tagged)
    guests = [made.classes.info(pod(f"guest{i}", cpu="1", host_ports=[81])) for i in range(2)]

    def suppose() -> None:
        with framework.what_if.on_rows([0, 1]):
            leaving = [(state, made.pods["default.p"], 0), (state, made.pods["default.r"], 1)]
            framework.what_if.remove_pods(info.pod, leaving)
            framework.what_if.add_pods(info.pod, [(state, guests[0], 0), (state, guests[1], 1)])
            assert table.used[CPU, :2].tolist() == [2000, 1000]
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        suppose()
    assert ([list(pods) for pods in table.pods], table.used.tolist(), repr(table.tagged)) == before


def test_a_what_if_is_an_event_of_its_rows() -> None:
    """A what-if marks its rows as changed, so that results cached per row are recomputed."""
    made = cluster(node("a"), node("b"), pod("promised", nominated="b", cpu="1"))
    framework = profile(made, NodeResourcesFit)
    state, info = state_of(made, pod(cpu="1"))
    position = made.nodes.log_end
    framework.what_if.status_on(state, info.pod, 1)
    assert set(made.nodes.changed_since(position) or ()) == {1}


# --- PostFilter -------------------------------------------------------------------------------------------------------


class Room(Plugin):
    """Returns the configured PostFilter result."""

    name = "Room"
    answer: tuple[PostFilterResult | None, Status]
    asked = 0

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        self.asked += 1
        return self.answer


def rooms(*answers: tuple[PostFilterResult | None, Status]) -> tuple[list[Room], Any]:
    made = cluster(node("a"))
    plugins = [make(named(Room, f"R{i}"), made) for i in range(len(answers))]
    for plugin, answer in zip(plugins, answers, strict=True):
        plugin.answer = answer
    state, info = state_of(made, pod())
    return plugins, profile(made, *plugins).run_post_filter(state, info.pod, Diagnosis(made.nodes))


FOUND = PostFilterResult("a"), Status(Code.SUCCESS)
WITHDRAWN = PostFilterResult(""), unschedulable("nothing to be done")


def test_the_first_to_make_room_ends_the_search() -> None:
    """A success is returned, and later plugins are not called."""
    plugins, (result, status) = rooms((None, unschedulable("not me")), FOUND, FOUND)
    assert (result, status.is_success) == (FOUND[0], True)
    assert [plugin.asked for plugin in plugins] == [1, 1, 0]


def test_no_plugin_makes_room() -> None:
    """All reasons are collected under the first plugin's name, with the last result that is set."""
    _, (result, status) = rooms((None, unschedulable("one")), WITHDRAWN, (None, unschedulable("three")))
    assert result == WITHDRAWN[0]
    assert status == unschedulable("one", "nothing to be done", "three").by("R0")


def test_an_unresolvable_answer_ends_the_search() -> None:
    """An unresolvable result ends the search."""
    plugins, (_, status) = rooms((None, unresolvable("hopeless")), FOUND)
    assert status == unresolvable("hopeless").by("R0")
    assert plugins[1].asked == 0


def test_a_post_filter_error_ends_the_search() -> None:
    """An error is reported, and no node is nominated."""
    plugins, (result, status) = rooms((PostFilterResult("a"), error("lost")), FOUND)
    assert (result, status) == (None, error("lost").by("R0"))
    assert plugins[1].asked == 0


# --- PreScore and Score -----------------------------------------------------------------------------------------------


class Points(Plugin):
    """Gives every node the same score, raw and normalised as configured."""

    name = "Points"
    raw: Ints | int = 0
    status: Status | None = None

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        return self.status

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        return self.raw


class Doubled(Points):
    """The same, doubled when normalised."""

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return scores * 2


def points(kind: type[Points], raw: Ints | int, weight: int = 1) -> tuple[Framework, CycleState, PodInfo]:
    made = cluster(node("a"), node("b"))
    framework = profile(made, kind, weights={"Points": weight})
    framework.scores[0].plugin.raw = raw  # type: ignore[attr-defined]  # a plugin of this file
    return framework, *state_of(made, pod())


def test_pre_score_may_skip() -> None:
    """A plugin that skips gets no Score; None and success continue; anything else is an error."""
    framework, state, info = points(Points, 1)
    plugin, nodes = framework.pre_score[0], Nodes(framework.cluster.nodes)
    outcomes = []
    for status in (None, Status(Code.SUCCESS), SKIP):
        plugin.status = status
        outcomes.append(framework.ask_pre_score(plugin, state, info.pod, nodes))
    assert outcomes == [True, True, False]
    plugin.status = unschedulable("cannot say")
    with pytest.raises(PluginError, match='running PreScore plugin "Points": cannot say'):
        framework.ask_pre_score(plugin, state, info.pod, nodes)


@pytest.mark.parametrize("raw", [30, np.array([10, 30])])
def test_scores_are_normalised_and_weighted(raw: Ints | int) -> None:
    """The weight is applied after normalising; a single number applies to all nodes."""
    framework, state, info = points(Doubled, raw, weight=3)
    weighted = framework.ask_normalize(framework.scores[0], state, info.pod, raw)
    assert np.asarray(weighted).tolist() == (180 if isinstance(raw, int) else [60, 180])


@pytest.mark.parametrize(("raw", "bad"), [(101, 101), (-1, -1), (np.array([50, 101]), 101), (np.array([-2, 50]), -2)])
def test_scores_out_of_range_are_an_error(raw: Ints | int, bad: int) -> None:
    """A score outside 0…100 after normalising is a plugin error with upstream's message."""
    framework, state, info = points(Points, raw)
    message = rf'plugin "Points" returns an invalid score {bad}, it should in the range of \[0, 100\] after normalizing'
    with pytest.raises(PluginError, match=message):
        framework.ask_normalize(framework.scores[0], state, info.pod, raw)


def test_the_range_is_judged_after_normalising() -> None:
    """Raw scores may be out of range."""

    class Clipped(Points):
        """Clips all scores into the range."""

        def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
            return np.clip(scores, 0, 100)

    framework, state, info = points(Clipped, np.array([-7, 1000]))
    assert np.asarray(framework.ask_normalize(framework.scores[0], state, info.pod, np.array([-7, 1000]))).tolist() == [
        0,
        100,
    ]


# --- Reserve ----------------------------------------------------------------------------------------------------------


class Reserver(Plugin):
    """Records its calls."""

    name = "Reserver"
    log: list[str] = []  # noqa: RUF012 - set per test
    status: Status | None = None

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        self.log.append(f"reserve {self.name} {node_name}")
        return self.status

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        self.log.append(f"unreserve {self.name}")


class Forgetful(Plugin):
    """Reserves, but has no unreserve."""

    name = "Forgetful"

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        return None


def reserved(*statuses: Status | None) -> tuple[Status | None, list[str], Callable[[], None]]:
    made, log = cluster(node("a")), list[str]()
    plugins = [make(named(Reserver, f"R{i}"), made) for i in range(len(statuses))]
    for plugin, status in zip(plugins, statuses, strict=True):
        plugin.log, plugin.status = log, status
    framework = profile(made, *plugins, Forgetful)
    state, info = state_of(made, pod())
    outcome = framework.run_reserve(state, info.pod, "a")
    return outcome, log, lambda: framework.run_unreserve(state, info.pod, "a")


def test_reserving_in_order_and_giving_back_in_reverse() -> None:
    """Plugins reserve in order and unreserve in reverse, skipping those without unreserve."""
    outcome, log, unreserve = reserved(None, Status(Code.SUCCESS))
    assert outcome is None
    unreserve()
    assert log == ["reserve R0 a", "reserve R1 a", "unreserve R1", "unreserve R0"]


def test_a_failed_reservation_gives_everything_back() -> None:
    """As upstream, after a rejection later plugins do not reserve, and all of them unreserve."""
    outcome, log, unreserve = reserved(None, unschedulable("taken"), None)
    assert outcome == unschedulable("taken").by("R1")
    unreserve()
    assert log == ["reserve R0 a", "reserve R1 a", "unreserve R2", "unreserve R1", "unreserve R0"]


def test_a_reserve_error_says_where_it_is_from() -> None:
    """An error that is not a rejection names the plugin in its message."""
    outcome, _, _ = reserved(error("disk on fire"))
    assert outcome is not None
    assert outcome.code is Code.ERROR
    assert outcome.message == 'running Reserve plugin "R0": disk on fire'


def test_only_bind_may_skip() -> None:
    """Skip from Reserve is an error that names the plugin."""
    outcome, _, _ = reserved(Status(Code.SKIP))
    assert outcome is not None
    assert (outcome.code, outcome.plugin) == (Code.ERROR, "R0")
    assert outcome.message == 'running Reserve plugin "R0": Skip is no result of this point'


# --- plugins that raise -----------------------------------------------------------------------------------------------


class Broken(Plugin):
    """Raises at every point."""

    name = "Broken"

    def _fail(self, *_: object) -> Any:
        raise ZeroDivisionError("oops")

    pre_enqueue = pre_filter = filter_all = post_filter = pre_score = score_all = normalize = reserve = _fail


@pytest.mark.parametrize(
    ("point", "ask"),
    [
        ("PreEnqueue", lambda f, s, p, n: f.run_pre_enqueue(p)),
        ("PreFilter", lambda f, s, p, n: f.ask_pre_filter(f.pre_filter[0], s, p, n)),
        ("Filter", lambda f, s, p, n: f.ask_filter(f.filters[0], s, p, n)),
        ("PostFilter", lambda f, s, p, n: f.run_post_filter(s, p, None)),
        ("PreScore", lambda f, s, p, n: f.ask_pre_score(f.pre_score[0], s, p, n)),
        ("Score", lambda f, s, p, n: f.ask_score(f.scores[0], s, p, n)),
        ("NormalizeScore", lambda f, s, p, n: f.ask_normalize(f.scores[0], s, p, 1)),
    ],
)
def test_a_plugin_that_raises_is_named_with_its_point(
    point: str, ask: Callable[[Framework, CycleState, api.Pod, Nodes], Any]
) -> None:
    """An exception becomes an error with the plugin, the point and the exception's text; the cause is kept."""
    made = cluster(node("a"))
    framework = profile(made, Broken)
    state, info = state_of(made, pod())
    with pytest.raises(PluginError, match=f'running {point} plugin "Broken": ZeroDivisionError: oops') as caught:
        ask(framework, state, info.pod, Nodes(made.nodes))
    assert (caught.value.plugin, caught.value.point) == ("Broken", point)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# --- profiles that disable a point -----------------------------------------------------------------------------------


class Pair(Plugin):
    """Filter and Score that depend on their earlier points."""

    name = "Pair"
    relies_on = frozenset(("preFilter", "preScore"))

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        return None

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        return None

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        return None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        return 0


def test_a_point_that_is_switched_off_is_missed() -> None:
    """Filter and Score whose earlier point is disabled report, with upstream's message, that it did not run."""
    made = cluster(node("a"))
    plugin = make(Pair, made)
    framework = Framework("test", made, {"filter": [plugin], "score": [plugin]}, {"Pair": 1})
    state, info = state_of(made, pod())
    status = framework.what_if.status_on(state, info.pod, 0)
    assert status == error('running "Pair" filter plugin: reading "PreFilterPair" from cycleState: not found').by(
        "Pair"
    )
    with pytest.raises(PluginError, match='plugin "Pair" failed with: reading "PreScorePair" from cycleState'):
        framework.ask_score(framework.scores[0], state, info.pod, Nodes(made.nodes))
    whole = profile(made, Pair)
    assert whole.what_if.status_on(state, info.pod, 0) is None
