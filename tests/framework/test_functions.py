"""Plugins written as one function: results, signatures, and functions that are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.builders import cluster, node, pod
from tests.harness import default_engine, engine_of, filtered, make, schedule, scored

import kubesched
from kubesched import NodeInfo, Pod, Status, unresolvable
from kubesched.config.load import load
from kubesched.config.types import API_VERSION, KIND
from kubesched.engine.profiles import build_framework
from kubesched.framework.functions import plugin_class, stretched
from kubesched.framework.plugin import Plugin, points_of
from kubesched.framework.registry import Registry


@kubesched.filter
def is_awake(pod: Pod, node: NodeInfo) -> str | bool:
    """Rejects marked nodes."""
    return "node(s) were resting" if node.labels.get("resting") == "true" else True


@kubesched.score(weight=2)
def prefer_ssd(pod: Pod, node: NodeInfo) -> int:
    return 100 if node.labels.get("disktype") == "ssd" else 0


class Tiers(msgspec.Struct):
    best: str = "gold"


@kubesched.score
def prefer_tier(pod: Pod, node: NodeInfo, args: Tiers) -> int:
    return 100 if node.labels.get("tier") == args.best else 0


def answering(answer: Any) -> type[Plugin]:
    """A filter that always returns the same result."""

    @kubesched.filter(name="Always")
    def always(pod: Pod, node: NodeInfo) -> Any:
        return answer

    return always.plugin


def test_a_decorated_function_stays_a_function() -> None:
    """A decorated function can be called and tested directly, and keeps its name and docstring."""
    made = cluster(node("n1", labels={"resting": "true"}))
    found = NodeInfo(made.nodes, 0)
    assert is_awake(pod(), found) == "node(s) were resting"
    assert prefer_ssd(pod(), found) == 0
    assert is_awake.__doc__ == "Rejects marked nodes."
    assert repr(is_awake).startswith("<plugin is_awake from ")


def test_it_is_a_plugin_of_its_name() -> None:
    """The generated class has the function's name, module and docstring, and one extension point."""
    assert plugin_class(is_awake) is is_awake.plugin
    assert is_awake.plugin.name == "is_awake"
    assert is_awake.plugin.__doc__ == "Rejects marked nodes."
    assert is_awake.plugin.__module__ == __name__
    assert points_of(is_awake.plugin) == {"filter"}
    assert points_of(prefer_ssd.plugin) == {"score"}


@pytest.mark.parametrize(
    ("answer", "spoken"),
    [
        (None, ()),
        (True, ()),
        (False, ("Unschedulable", "node(s) didn't satisfy plugin Always")),
        ("too warm", ("Unschedulable", "too warm")),
        (unresolvable("wrong continent"), ("UnschedulableAndUnresolvable", "wrong continent")),
    ],
)
def test_what_a_filter_may_return(answer: object, spoken: tuple[str, ...]) -> None:
    """True and None accept the pod; a text, False or a status reject it, with a reason."""
    made = cluster(node("n1"))
    assert filtered(make(answering(answer), made), made, pod()) == {"n1": spoken}


@pytest.mark.parametrize("answer", [1, "", [], 0.5])
def test_what_a_filter_may_not_return(answer: object) -> None:
    """Any other result fails the attempt, and the message says what to return and where the function is."""
    decision = schedule(engine_of(cluster(node("n1")), answering(answer)), pod())
    assert decision.plugin == "Always"
    assert "return True if the pod fits, else the reason as a text" in decision.message
    assert "test_functions.py:" in decision.message


def test_rejections_and_scores_reach_the_decision() -> None:
    """Filter and score functions run next to the default plugins, under their names."""
    made = cluster(
        node("n1", labels={"resting": "true", "disktype": "ssd"}), node("n2", labels={"disktype": "ssd"}), node("n3")
    )
    decision = schedule(default_engine(made, is_awake.plugin, prefer_ssd.plugin), pod())
    assert decision.node == "n2"
    assert decision.rejections["n1"] == Status(kubesched.Code.UNSCHEDULABLE, "node(s) were resting", plugin="is_awake")
    assert {name: plugins["prefer_ssd"] for name, plugins in decision.node_scores.items()} == {"n2": 200, "n3": 0}


def weights(entry: dict[str, object]) -> int:
    """The weight of `prefer_ssd` in a profile that enables it like this."""
    registry = Registry([prefer_ssd])
    profile = {"plugins": {"multiPoint": {"enabled": [entry], "disabled": [{"name": "*"}]}}}
    tree: dict[str, object] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    config = load(tree, known_plugins=registry).config  # no points: a profile without queue sort must do here
    made = build_framework(config.profiles[0], registry, cluster(), None)  # type: ignore[arg-type]  # nothing is random
    return made.scores[0].weight


def test_the_weight_of_the_decorator_is_the_default() -> None:
    """The decorator's weight applies only if the configuration sets none."""
    assert weights({"name": "prefer_ssd"}) == 2
    assert weights({"name": "prefer_ssd", "weight": 7}) == 7


def test_arguments_come_as_the_third_parameter() -> None:
    """A parameter annotated with a struct makes the function configurable."""
    assert prefer_tier.plugin.args_type is Tiers
    made = cluster(node("n1", labels={"tier": "gold"}), node("n2", labels={"tier": "silver"}))
    assert scored(make(prefer_tier.plugin, made), made, pod()) == {"n1": 100, "n2": 0}
    assert scored(make(prefer_tier.plugin, made, Tiers("silver")), made, pod()) == {"n1": 0, "n2": 100}


@pytest.mark.parametrize(
    ("normalize", "scores"), [("highest", [0, 33, 100]), (True, [0, 33, 100]), ("lowest", [100, 67, 0])]
)
def test_any_number_will_do_when_normalised(normalize: Any, scores: list[int]) -> None:
    """The best node gets 100 and the worst 0, with fractions and negative numbers too."""
    prices = {"n1": -0.5, "n2": 0.5, "n3": 2.5}

    @kubesched.score(normalize=normalize)
    def price(pod: Pod, node: NodeInfo) -> float:
        return prices[node.name]

    made = cluster(*map(node, prices))
    assert scored(make(price.plugin, made), made, pod()) == dict(zip(prices, scores, strict=True))


def test_normalising_what_does_not_differ() -> None:
    """Equal scores, or none, can be normalised."""
    assert stretched(np.array([3, 3], dtype=np.int64)).tolist() == [0, 0]
    assert stretched(np.array([], dtype=np.int64)).tolist() == []


def test_fractions_are_rounded_when_not_normalised() -> None:
    """Fractional scores between 0 and 100 are rounded."""

    @kubesched.score
    def nearly(pod: Pod, node: NodeInfo) -> float:
        return 49.7

    made = cluster(node("n1"))
    assert scored(make(nearly.plugin, made), made, pod()) == {"n1": 50}


@pytest.mark.parametrize("answer", [101, -1, 1e9])
def test_a_score_out_of_range_says_what_to_do(answer: float) -> None:
    """An out-of-range score fails the attempt with upstream's message, what to change, and where."""

    @kubesched.score
    def wild(pod: Pod, node: NodeInfo) -> float:
        return answer

    decision = schedule(engine_of(cluster(node("n1"), node("n2")), wild.plugin), pod())
    assert 'plugin "wild" returns an invalid score' in decision.message
    assert "return a number from 0 to 100, or write @score(normalize=True) (" in decision.message
    assert "test_functions.py:" in decision.where


@pytest.mark.parametrize("answer", [None, "10", float("nan"), float("inf")])
def test_a_score_that_is_no_number(answer: Any) -> None:
    """A score that is not a number is rejected with what to return."""

    @kubesched.score
    def wordy(pod: Pod, node: NodeInfo) -> Any:
        return answer

    decision = schedule(engine_of(cluster(node("n1"), node("n2")), wordy.plugin), pod())
    assert "; return a number (" in decision.message


def no_node(pod: Pod) -> bool:
    return True


def too_many(pod: Pod, node: NodeInfo, args: Tiers, more: int) -> bool:
    return True


def untyped_args(pod: Pod, node: NodeInfo, args: Any) -> bool:
    return True


async def slow(pod: Pod, node: NodeInfo) -> bool:
    return True


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_node, r"no_node\(pod: .* cannot be a plugin; write no_node\(pod, node\), or .*test_functions.py:\d+\)"),
        (too_many, r"write too_many\(pod, node\)"),
        (untyped_args, r"annotate 'args' with the msgspec.Struct that its arguments are decoded into"),
        (slow, r"slow is async; filters and scores answer at once, so drop the async"),
    ],
)
def test_what_is_no_such_function(function: Callable[..., Any], said: str) -> None:
    """A wrong signature is rejected by the decorator, with what to write and where."""
    with pytest.raises(TypeError, match=said):
        kubesched.filter(function)


def test_a_weight_is_a_positive_integer() -> None:
    """A weight must be a positive integer."""
    with pytest.raises(TypeError, match=r"weight of <lambda> is 0; it must be a positive integer"):
        kubesched.score(weight=0)(lambda pod, node: 1)


def test_a_function_says_what_wakes_its_pods() -> None:
    """Given events are registered; without them the plugin gets all events."""
    node_added = kubesched.on(kubesched.Resource.NODE, kubesched.Action.ADD)

    @kubesched.filter(events=[node_added])
    def picky(pod: Pod, node: NodeInfo) -> bool:
        return False

    assert make(picky.plugin, cluster()).events_to_register() == (node_added,)
    assert is_awake.plugin.events_to_register is Plugin.events_to_register


def test_an_ordinary_function_is_no_plugin() -> None:
    """A function without a decorator is rejected, and the error says how to make it a plugin."""
    with pytest.raises(
        TypeError, match=r"is not a plugin; derive the class from kubesched.Plugin, or put @kubesched.filter"
    ):
        plugin_class(no_node)
