"""NodeResourcesFit and NodeResourcesBalancedAllocation: every reason, every strategy, against plain arithmetic."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import cluster, container, node, pod
from tests.harness import filtered, hint, make, scored

from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.config.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.state import CycleState
from kubesched.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from kubesched.plugins.node_resources.strategies import (
    Strategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)

QUEUE, SKIPPED = Hint.QUEUE, Hint.SKIP
GIB = 2**30
FULL, SMALL = "Unschedulable", "UnschedulableAndUnresolvable"


# --- Filter -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "answer"),
    [
        ({}, ()),
        ({"cpu": "1", "memory": "1Gi"}, ()),
        ({"cpu": "1001m"}, (FULL, "Insufficient cpu")),
        ({"cpu": "4"}, (FULL, "Insufficient cpu")),
        ({"cpu": "4001m"}, (SMALL, "Insufficient cpu")),
        ({"memory": "1073741825"}, (FULL, "Insufficient memory")),
        ({"memory": "9Gi"}, (SMALL, "Insufficient memory")),
        ({"requests": {"ephemeral-storage": "2Gi"}}, (FULL, "Insufficient ephemeral-storage")),
        ({"requests": {"ephemeral-storage": "20Gi"}}, (SMALL, "Insufficient ephemeral-storage")),
        ({"requests": {"example.com/gpu": 1}}, ()),
        ({"requests": {"example.com/gpu": 2}}, (FULL, "Insufficient example.com/gpu")),
        ({"requests": {"example.com/gpu": 3}}, (SMALL, "Insufficient example.com/gpu")),
        ({"requests": {"example.com/none": 1}}, (SMALL, "Insufficient example.com/none")),
        ({"requests": {"example.com/none": 0}}, ()),
        ({"requests": {"hugepages-2Mi": "4Mi"}}, (SMALL, "Insufficient hugepages-2Mi")),
        ({"requests": {"unknown": 5}}, ()),
        ({"cpu": "2", "memory": "2Gi"}, (FULL, "Insufficient cpu", "Insufficient memory")),
        # One thing that the node will never have makes it hopeless, whatever else is missing.
        ({"cpu": "2", "memory": "20Gi"}, (SMALL, "Insufficient cpu", "Insufficient memory")),
        ({"overhead": {"cpu": "2"}}, (FULL, "Insufficient cpu")),
        ({"pod_requests": {"cpu": "2"}, "cpu": "1"}, (FULL, "Insufficient cpu")),
    ],
)
def test_room(asks: dict[str, Any], answer: tuple[str, ...]) -> None:
    """A node must have room for the requests; if it is too small even when empty, preemption cannot help."""
    made = cluster(
        node("a", cpu="4", memory="8Gi", resources={"ephemeral-storage": "10Gi", "example.com/gpu": 2}),
        pod("there", node="a", cpu="3", memory="7Gi", requests={"ephemeral-storage": "9Gi", "example.com/gpu": 1}),
    )
    assert filtered(make(NodeResourcesFit, made), made, pod(**asks)) == {"a": answer}


def test_too_many_pods() -> None:
    """The number of pods is limited, and preemption may always help, even on a node that takes none."""
    made = cluster(node("a", pods=1), node("none", pods=0), pod("there", node="a"))
    found = filtered(make(NodeResourcesFit, made), made, pod())
    assert found == {"a": (FULL, "Too many pods"), "none": (FULL, "Too many pods")}
    found = filtered(make(NodeResourcesFit, made), made, pod(cpu="9"))
    assert found["a"] == (SMALL, "Too many pods", "Insufficient cpu")


def test_init_containers_and_sidecars_count() -> None:
    """The largest init container or the sum with sidecars, whichever is more."""
    made = cluster(node("a", cpu="3"))
    plugin = make(NodeResourcesFit, made)
    fits = pod(cpu="1", init_containers=[container("side", cpu="1", sidecar=True), container("init", cpu="2")])
    too_big = pod(cpu="1", init_containers=[container("side", cpu="1", sidecar=True), container("init", cpu="2500m")])
    assert filtered(plugin, made, fits) == {"a": ()}
    assert filtered(plugin, made, too_big) == {"a": (SMALL, "Insufficient cpu")}


def test_ignored_resources() -> None:
    """Extended resources that others manage are ignored by name or by group; native ones never are."""
    args = NodeResourcesFitArgs(ignored_resources=("example.com/gpu", "cpu"), ignored_resource_groups=("devices.org",))
    made = cluster(node("a", cpu="1"))
    plugin = make(NodeResourcesFit, made, args)
    ignored = pod(requests={"example.com/gpu": 1, "devices.org/x": 1})
    assert filtered(plugin, made, ignored) == {"a": ()}
    assert filtered(plugin, made, pod(requests={"example.com/fpga": 1})) == {
        "a": (SMALL, "Insufficient example.com/fpga")
    }
    assert filtered(plugin, made, pod(cpu="2")) == {"a": (SMALL, "Insufficient cpu")}


def test_many_resources_at_once() -> None:
    """Every missing resource is named, also when there are many."""
    names = [f"example.com/r{i:02}" for i in range(20)]
    made = cluster(node("a", resources=dict.fromkeys(names[:10], 1)), pod("there", node="a", requests={names[0]: 1}))
    found = filtered(make(NodeResourcesFit, made), made, pod(requests=dict.fromkeys(names, 1)))
    assert set(found["a"]) == {SMALL, *(f"Insufficient {name}" for name in (names[0], *names[10:]))}


# --- Score ------------------------------------------------------------------------------------------------------------


def fit(kind: str, shape: list[tuple[int, int]] | None = None, **weights: int) -> NodeResourcesFitArgs:
    names = {"gpu": "example.com/gpu"}
    resources = tuple(ResourceSpec(name=names.get(name, name), weight=weight) for name, weight in weights.items())
    ratio = None
    if shape is not None:
        ratio = RequestedToCapacityRatioParam(
            shape=tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in shape)
        )
    strategy = ScoringStrategy(
        type=kind,  # type: ignore[arg-type]  # one of the three names
        resources=resources or (ResourceSpec(name="cpu"), ResourceSpec(name="memory")),
        requested_to_capacity_ratio=ratio,
    )
    return NodeResourcesFitArgs(scoring_strategy=strategy)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        # 2 of 4 CPUs and 6 of 8 GiB will be used.
        (fit("LeastAllocated"), (50 + 25) // 2),
        (fit("LeastAllocated", cpu=3, memory=1), (150 + 25) // 4),
        (fit("MostAllocated"), (50 + 75) // 2),
        (fit("RequestedToCapacityRatio", [(0, 0), (100, 10)]), round((50 + 75) / 2 + 0.01)),
        (fit("RequestedToCapacityRatio", [(0, 10), (100, 0)], cpu=1), 50),
    ],
)
def test_strategies(args: NodeResourcesFitArgs, expected: int) -> None:
    """Each strategy compares what will be used with what the node has."""
    made = cluster(node("a", cpu="4", memory="8Gi"), pod("there", node="a", cpu="1", memory="2Gi"))
    assert scored(make(NodeResourcesFit, made, args), made, pod(cpu="1", memory="4Gi")) == {"a": expected}


def test_silent_pods_are_supposed_to_use_something() -> None:
    """A container without requests counts with 100m and 200Mi in scores, for the pod and for running pods."""
    made = cluster(node("a", cpu="1", memory="1000Mi"), pod("there", node="a"))
    assert scored(make(NodeResourcesFit, made), made, pod()) == {"a": (80 + 60) // 2}


def test_a_resource_that_a_node_lacks_has_no_say() -> None:
    """Neither does an extended resource that the pod does not ask for."""
    made = cluster(node("with", cpu="4", resources={"example.com/gpu": 4}), node("without", cpu="4"))
    plugin = make(NodeResourcesFit, made, fit("LeastAllocated", cpu=1, gpu=1))
    assert scored(plugin, made, pod(cpu="1", requests={"example.com/gpu": 4})) == {"with": (75 + 0) // 2, "without": 75}
    assert scored(plugin, made, pod(cpu="1")) == {"with": 75, "without": 75}


def test_overcommitted_nodes() -> None:
    """A node with more requested than it has gets the lowest or the highest score, and nothing beyond."""
    made = cluster(node("a", cpu="1"), pod("there", node="a", cpu="3"))
    assert scored(make(NodeResourcesFit, made, fit("LeastAllocated", cpu=1)), made, pod(cpu="1")) == {"a": 0}
    assert scored(make(NodeResourcesFit, made, fit("MostAllocated", cpu=1)), made, pod(cpu="1")) == {"a": 100}


def test_nothing_to_score() -> None:
    """With no resource left to compare every node gets zero."""
    made = cluster(node("a"))
    assert scored(make(NodeResourcesFit, made, fit("LeastAllocated", gpu=1)), made, pod()) == {"a": 0}


@pytest.mark.parametrize(
    ("shape", "at", "expected"),
    [
        ([(0, 0), (100, 10)], 37, 37),
        ([(0, 10), (100, 0)], 37, 63),
        ([(20, 3), (80, 9)], 10, 30),
        ([(20, 3), (80, 9)], 90, 90),
        ([(20, 3), (80, 9)], 50, 60),
        ([(0, 0), (33, 10), (100, 5)], 33, 100),
        ([(0, 0), (33, 10), (100, 5)], 34, 100),  # whole numbers cut towards zero, also on the way down
        ([(0, 0), (33, 10), (100, 5)], 35, 99),
        ([(50, 7)], 10, 70),
    ],
)
def test_broken_lines(shape: list[tuple[int, int]], at: int, expected: int) -> None:
    """Between the points of a shape the score is interpolated in whole numbers, outside it stays level."""
    points = [UtilizationShapePoint(utilization=x, score=y) for x, y in shape]
    score = requested_to_capacity_ratio(points)
    ones = np.ones((1, 1), dtype=np.int64)
    assert score(ones * at, ones * 100, ones, False).tolist() == [expected]


def test_resources_that_score_nothing_do_not_weigh() -> None:
    """With a shape, a resource whose score is zero drops out of the mean."""
    made = cluster(node("a", cpu="4", memory="8Gi"))
    plugin = make(NodeResourcesFit, made, fit("RequestedToCapacityRatio", [(0, 0), (50, 0), (100, 10)]))
    assert scored(plugin, made, pod(cpu="4", memory="1Gi")) == {"a": 100}
    assert scored(plugin, made, pod(cpu="1", memory="1Gi")) == {"a": 0}


amounts = st.integers(0, 5)


@given(
    used=st.tuples(amounts, amounts),
    asked=st.tuples(amounts, amounts),
    offered=st.tuples(amounts, amounts),
    weights=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    kind=st.sampled_from(["LeastAllocated", "MostAllocated"]),
)
def test_strategies_against_plain_arithmetic(
    used: tuple[int, int], asked: tuple[int, int], offered: tuple[int, int], weights: tuple[int, int], kind: str
) -> None:
    """Upstream's arithmetic, one node and one resource at a time."""
    made = cluster(node("a", cpu=offered[0], memory=offered[1] * GIB))
    made.set(pod("there", node="a", cpu=used[0], memory=used[1] * GIB))
    plugin = make(NodeResourcesFit, made, fit(kind, cpu=weights[0], memory=weights[1]))
    total = weight_sum = 0
    for index, weight in enumerate(weights):
        has, wants = offered[index], used[index] + asked[index]
        if not has:
            continue
        part = max(has - wants, 0) if kind == "LeastAllocated" else min(wants, has)
        total += part * 100 // has * weight
        weight_sum += weight
    expected = total // weight_sum if weight_sum else 0
    assert scored(plugin, made, pod(cpu=asked[0], memory=asked[1] * GIB)) == {"a": expected}


@given(
    offered=st.lists(st.integers(0, 2**49), min_size=3, max_size=3),
    used=st.lists(st.integers(0, 2**50), min_size=3, max_size=3),
    weights=st.tuples(st.integers(1, 100), st.integers(1, 100), st.integers(1, 100)),
    score=st.sampled_from([least_allocated, most_allocated]),
)
def test_ordinary_amounts_need_no_care(
    offered: list[int], used: list[int], weights: tuple[int, int, int], score: Strategy
) -> None:
    """Below the limits of huge amounts, scores are the same with and without the arithmetic for overflows."""
    used_, offered_, weights_ = (np.array(each, dtype=np.int64).reshape(3, 1) for each in (used, offered, weights))
    plain, careful = score(used_, offered_, weights_, False), score(used_, offered_, weights_, True)
    assert plain.tolist() == careful.tolist()


@given(offered=st.integers(1, 2**46), percent=st.integers(0, 100), more=st.integers(-2, 2))
def test_quotients_next_to_whole_numbers(offered: int, percent: int, more: int) -> None:
    """Doubles, which are faster to divide, give the whole quotient also where the next amount gives another one."""
    free = min(max(percent * offered // 100 + more, 0), offered)
    used_, offered_, weights_ = (np.array([[each]], dtype=np.int64) for each in (offered - free, offered, 1))
    assert least_allocated(used_, offered_, weights_, False).tolist() == [free * 100 // offered]


# --- balanced allocation ----------------------------------------------------------------------------------------------


@given(moves=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=12))
def test_balances_are_kept_up_to_date(moves: list[tuple[int, bool]]) -> None:
    """The scores of all nodes are those of a plugin that has never seen them, whatever has changed in between."""
    made = cluster(*(node(f"n{number}", cpu=4, memory=16 * GIB) for number in range(8)))
    plugin, asking = make(NodeResourcesBalancedAllocation, made), pod(cpu=1, memory=GIB)
    for index, (number, resizes) in enumerate(moves):
        if resizes:
            made.set(node(f"n{number}", cpu=5 + index, memory=16 * GIB))
        else:
            made.set(pod(f"p{index}", node=f"n{number}", cpu=f"{index + 1}00m", memory=GIB))
        assert scored(plugin, made, asking) == scored(make(NodeResourcesBalancedAllocation, made), made, asking)


def balance(used: list[float], offered: list[float]) -> int:
    """Upstream's balancedResourceScore, spelled out."""
    fractions = [min(u / o, 1.0) for u, o in zip(used, offered, strict=True) if o]
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))
    else:
        deviation = 0.0
    return int((1 - deviation) * 100)


THREE = NodeResourcesBalancedAllocationArgs(
    resources=tuple(ResourceSpec(name=name) for name in ("cpu", "memory", "example.com/gpu"))
)


@given(
    used=st.tuples(amounts, amounts, amounts),
    asked=st.tuples(amounts, amounts, amounts),
    offered=st.tuples(amounts, amounts, amounts),
    three=st.booleans(),
)
def test_balance_against_plain_arithmetic(
    used: tuple[int, int, int], asked: tuple[int, int, int], offered: tuple[int, int, int], three: bool
) -> None:
    """The score compares how evenly used the resources are with and without the pod."""
    made = cluster(node("a", cpu=offered[0], memory=offered[1] * GIB, resources={"example.com/gpu": offered[2]}))
    made.set(pod("there", node="a", cpu=used[0], memory=used[1] * GIB, requests={"example.com/gpu": used[2]}))
    plugin = make(NodeResourcesBalancedAllocation, made, THREE if three else None)
    each = pod(cpu=asked[0], memory=asked[1] * GIB, requests={"example.com/gpu": asked[2]})
    counted = [0, 1, 2] if three and asked[2] else [0, 1]
    before = balance([used[i] for i in counted], [offered[i] for i in counted])
    after = balance([used[i] + asked[i] for i in counted], [offered[i] for i in counted])
    if not any(asked[: 3 if three else 2]):
        assert scored(plugin, made, each) is None
    else:
        assert scored(plugin, made, each) == {"a": 50 + (50 + after - before) // 2}


def test_best_effort_pods_are_not_balanced() -> None:
    """A pod that asks for none of the scored resources changes no balance and is skipped."""
    made = cluster(node("a"))
    plugin = make(NodeResourcesBalancedAllocation, made)
    assert scored(plugin, made, pod()) is None
    assert scored(plugin, made, pod(requests={"example.com/gpu": 1})) is None
    assert scored(plugin, made, pod(cpu="1")) is not None


def test_balance_moves_around_75() -> None:
    """A pod that evens things out scores above 75, one that skews them below."""
    made = cluster(node("a", cpu="4", memory="4Gi"), pod("there", node="a", cpu="2"))
    plugin = make(NodeResourcesBalancedAllocation, made)
    even, skewed = scored(plugin, made, pod(memory="2Gi")), scored(plugin, made, pod(cpu="2"))
    assert even == {"a": 50 + (50 + 100 - 75) // 2}
    assert skewed == {"a": 50 + (50 + 50 - 75) // 2}


# --- hints ------------------------------------------------------------------------------------------------------------

WAITING = pod("waiting", cpu="2", requests={"example.com/gpu": 1})


def there(cpu: str = "2", **fields: Any) -> api.Pod:
    return pod("there", **{"node": "a", "cpu": cpu, **fields})


@pytest.mark.parametrize(
    ("gone", "expected"),
    [(there(), QUEUE), (there(node="", nominated="a"), QUEUE), (there(node=""), SKIPPED)],
)
def test_a_pod_that_leaves(gone: api.Pod, expected: Hint) -> None:
    """Any pod that leaves a node, or gives up one, may make room."""
    plugin = make(NodeResourcesFit, cluster())
    assert hint(plugin, Resource.ASSIGNED_POD, Action.DELETE, WAITING, gone) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (there("3"), there("2"), QUEUE),
        (there("2"), there("2"), SKIPPED),
        (there("2"), there("3"), SKIPPED),
        (there(memory="2Gi"), there(memory="1Gi"), SKIPPED),
        (there(requests={"example.com/gpu": 2}), there(requests={"example.com/gpu": 1}), QUEUE),
        (there("3", node=""), there("2", node=""), SKIPPED),
        (pod("waiting", cpu="2"), pod("waiting", cpu="1"), QUEUE),
    ],
)
def test_a_pod_that_shrinks(old: api.Pod, new: api.Pod, expected: Hint) -> None:
    """A pod on a node that now asks for less of what is wanted, or the waiting pod itself."""
    plugin = make(NodeResourcesFit, cluster())
    assert hint(plugin, Resource.POD, Action.UPDATE_POD_SCALE_DOWN, WAITING, old, new) is expected


def sized(cpu: str = "4", pods: int = 10, gpu: int = 1, memory: str = "8Gi") -> api.Node:
    return node("a", cpu=cpu, pods=pods, memory=memory, resources={"example.com/gpu": gpu})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, sized(), QUEUE),
        (None, sized(cpu="1"), SKIPPED),
        (None, sized(gpu=0), SKIPPED),
        (None, sized(pods=0), SKIPPED),
        (sized(cpu="1"), sized(), QUEUE),
        (sized(cpu="3"), sized(), QUEUE),
        (sized(), sized(), SKIPPED),
        (sized(cpu="8"), sized(), SKIPPED),
        (sized(memory="1Gi"), sized(), SKIPPED),
        (sized(gpu=0), sized(), QUEUE),
        (sized(pods=0), sized(), QUEUE),
        (sized(), sized(cpu="1"), SKIPPED),
    ],
)
def test_a_node_that_grows(old: api.Node | None, new: api.Node, expected: Hint) -> None:
    """A node large enough for the pod that has more of what it wants than before, or was not there."""
    plugin = make(NodeResourcesFit, cluster())
    action = Action.ADD if old is None else Action.UPDATE_NODE_ALLOCATABLE
    assert hint(plugin, Resource.NODE, action, WAITING, old, new) is expected


def test_what_does_not_interest_resources() -> None:
    """Labels and taints of nodes, labels of pods and new pods are skipped."""
    plugin = make(NodeResourcesFit, cluster())
    for action in (Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT, Action.DELETE):
        assert hint(plugin, Resource.NODE, action, WAITING, sized(), sized()) is None
    for action in (Action.ADD, Action.UPDATE_POD_LABEL):
        assert hint(plugin, Resource.ASSIGNED_POD, action, WAITING, there(), there()) is None


# --- Amounts that overflow --------------------------------------------------------------------------------------------

MAX = 2**63 - 1
STRATEGIES = {
    "LeastAllocated": ScoringStrategy(type="LeastAllocated"),
    "MostAllocated": ScoringStrategy(type="MostAllocated"),
    "RequestedToCapacityRatio": ScoringStrategy(
        type="RequestedToCapacityRatio",
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(
            shape=(UtilizationShapePoint(utilization=0, score=2), UtilizationShapePoint(utilization=100, score=10))
        ),
    ),
}


def _wrapped(value: int) -> int:
    """A whole number as Go's int64 holds it."""
    return (value + 2**63) % 2**64 - 2**63


def _cut(dividend: int, divisor: int) -> int:
    """Go's integer division."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


@pytest.mark.parametrize("memory", ["10E", "1e40", MAX, "5E", "300P", 2**62])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_an_absurdly_large_node_gets_a_valid_score(kind: str, memory: str | int) -> None:
    """One node that claims exabytes of memory is scored like upstream, and never outside 0 to 100."""
    world = cluster(node("huge", cpu=memory, memory=memory), node("plain"))
    plugin = make(NodeResourcesFit, world, NodeResourcesFitArgs(scoring_strategy=STRATEGIES[kind]))
    scores = scored(plugin, world, pod("p", cpu="1", memory="1Gi"))
    assert scores is not None
    assert all(0 <= score <= 100 for score in scores.values())


@given(st.integers(1, MAX), st.integers(0, MAX), st.integers(1, MAX))
def test_least_allocated_overflows_as_go_does(capacity: int, used: int, wanted: int) -> None:
    """The score of any 64-bit amounts is what Go's arithmetic gives, clipped to the valid range."""
    requested = _wrapped(used + wanted)
    expected = 0 if requested > capacity else _cut(_wrapped(_wrapped(capacity - requested) * 100), capacity)
    column = [np.array([[amount]], dtype=np.int64) for amount in (used, wanted, capacity, 1)]
    score = least_allocated(column[0] + column[1], column[2], column[3], huge=True)
    assert score.tolist() == [min(max(expected, 0), 100)]


@pytest.mark.parametrize("others", [(MAX, MAX), (MAX, GIB), (MAX,), (MAX, MAX, MAX)])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_pods_whose_requests_overflow_leave_valid_scores(kind: str, others: tuple[int, ...]) -> None:
    """Pods pinned to a node with requests beyond 64 bits spoil no score."""
    pinned = [pod(f"pinned-{number}", memory=amount, node="a") for number, amount in enumerate(others)]
    world = cluster(node("a"), node("b"), *pinned)
    wanted = pod("p", cpu="1", memory="1Gi")
    for plugin in (
        make(NodeResourcesFit, world, NodeResourcesFitArgs(scoring_strategy=STRATEGIES[kind])),
        make(NodeResourcesBalancedAllocation, world, NodeResourcesBalancedAllocationArgs()),
    ):
        scores = scored(plugin, world, wanted)
        assert scores is not None
        assert all(0 <= score <= 100 for score in scores.values())


@settings(max_examples=200, deadline=None)
@given(
    strategy=st.sampled_from(["LeastAllocated", "MostAllocated"]),
    cpu=st.integers(0, 2**62),
    memory=st.integers(0, 2**62),
    used=st.integers(0, 2**61),
    wanted=st.integers(0, 2**61),
)
def test_one_node_and_many_nodes_get_the_same_scores(
    strategy: Literal["LeastAllocated", "MostAllocated"], cpu: int, memory: int, used: int, wanted: int
) -> None:
    """The numbers of one node are computed without arrays; fit and scores are those that arrays give."""
    made = cluster(
        node("a", cpu=f"{cpu}m", memory=str(memory)), node("b"), pod("p", node="a", cpu=f"{used}m", memory=str(used))
    )
    info = made.classes.info(pod("q", cpu=f"{wanted}m", memory=str(wanted)))
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type=strategy))
    for plugin in (make(NodeResourcesFit, made, args), make(NodeResourcesBalancedAllocation, made)):
        state = CycleState(info.pod_class)
        one, all_nodes = Nodes(made.nodes, slice(0, 1)), Nodes(made.nodes)
        plugin.pre_score(state, info.pod, all_nodes)
        alone, together = plugin.score_all(state, info.pod, one), plugin.score_all(state, info.pod, all_nodes)
        first = together if isinstance(together, int) else int(together[0])
        assert (alone if isinstance(alone, int) else int(alone[0])) == first
        if isinstance(plugin, NodeResourcesFit):
            plugin.pre_filter(state, info.pod, all_nodes)
            by_one, by_all = plugin.filter_all(state, info.pod, one), plugin.filter_all(state, info.pod, all_nodes)
            code = 0 if by_all is None else int(by_all.codes[0])
            assert (0 if by_one is None else int(by_one.codes[0])) == code
