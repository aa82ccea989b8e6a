"""`check_plugin` finds what a plugin must not do, says what to change, and leaves good plugins alone."""

from __future__ import annotations

import builtins
import itertools
import random
import traceback
from typing import Any

import numpy as np
import pytest

import kubesched
from kubesched import (
    CycleState,
    EventHint,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    Pod,
    Reads,
    Status,
    Verdicts,
    reject,
    unschedulable,
)
from kubesched.plugins import IN_TREE
from kubesched.testing import PluginCheckError, check_plugin, node, pod

RESTING = {"resting": ["true", "false"]}
NO = unschedulable("no")


def resting(nodes: Nodes) -> Any:
    return reject(nodes.label_in("resting", "true"), NO)


class Good(Plugin):
    """Does everything right."""

    name = "Good"
    reads = Reads.PODS

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return resting(nodes)

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return np.maximum(0, 100 - nodes.pod_count)


def variant(**members: Any) -> type[Plugin]:
    """`Good` with something changed."""
    return type("Bad", (Good,), {"name": "Bad", **members})


def skips(pod: object, old: object, new: object) -> Hint:
    return Hint.SKIP


counter = itertools.count()


def mutate(self: Any, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
    nodes.allocatable("cpu")[:] += 1


def mutate_the_table(self: Any, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
    nodes.table.allocatable[:] += 1


def relabel(self: Any, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
    node.node.metadata.labels["seen"] = str(next(counter))


def only(*registered: object) -> Any:
    return lambda self: list(registered)


ADDED = kubesched.on(kubesched.Resource.NODE, kubesched.Action.ADD, skips)
DELETED = kubesched.on(kubesched.Resource.NODE, kubesched.Action.DELETE)
WORDY = EventHint(ADDED.event, lambda pod, old, new: "yes")  # type: ignore[arg-type, return-value]

NODE, POD = kubesched.Resource.NODE, kubesched.Resource.ASSIGNED_POD
ADD, LABEL, DELETE = kubesched.Action.ADD, kubesched.Action.UPDATE_NODE_LABEL, kubesched.Action.DELETE


def hinted(hint: Any, **more: Any) -> Any:
    """Hears of everything about nodes, with this hint."""
    return only(kubesched.on(NODE, ADD | LABEL, hint, **more))


def full(self: Any, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
    return NO if len(node.pods) > 1 else None


def of_app(self: Any, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
    return NO if pod.labels.get("app") != "new" else None


def relabelled(pod: Any, old: Any, new: Any) -> Hint:
    new.metadata.labels["seen"] = "yes"
    return Hint.QUEUE


def by_name(pod: Pod, old: object, new: object) -> Hint:
    return Hint.QUEUE if pod.name != "twin" else Hint.SKIP


def by_label(pod: Pod, old: object, new: object) -> Hint:
    return Hint.QUEUE if "own" not in pod.metadata.labels else Hint.SKIP


def every_other(pod: object, old: object, new: object) -> Hint:
    return (Hint.QUEUE, Hint.SKIP)[next(counter) % 2]


BAD = {
    "a score out of range": (variant(score_all=lambda *_: 200), "gets 200; scores must be from 0 to 100"),
    "different answers": (variant(score_all=lambda *_: next(counter) % 100), "different results when called twice"),
    "the window mutated": (variant(filter_all=mutate), "raised ValueError: output array is read-only"),
    "the table mutated": (
        variant(filter_all=mutate_the_table),
        "changed the column of allocatable amounts; plugins only read",
    ),
    "a node mutated": (variant(filter_all=None, filter=relabel), "changed a node"),
    "scores relative to the window": (
        variant(reads=Reads.CLUSTER, score_all=lambda s, t, p, nodes: np.arange(len(nodes))),
        "compare nodes in normalize, not in score_all",
    ),
    "verdicts relative to the window": (
        variant(filter_all=lambda s, t, p, nodes: reject(np.arange(len(nodes)) > 0, NO)),
        "judge each row by that row",
    ),
    "two forms of Filter": (variant(filter=lambda *_: None), "only filter_all would be called"),
    "two forms of Score": (variant(score=lambda *_: 5), "only score_all would be called"),
    "reads too narrow for names": (
        variant(reads=Reads.PODS, score_all=lambda s, t, pod, n: len(pod.name)),
        "set reads = Reads.ROW",
    ),
    "reads too narrow for pods": (variant(reads=Reads.NODE), "depend on the pods that run there"),
    "reads too narrow for other nodes": (
        variant(
            reads=Reads.ROW,
            filter_all=lambda self, s, p, n: reject(np.full(len(n), len(self.handle.cluster.pods) > 1), NO),
        ),
        "its results depend on other nodes: Filter says ('Unschedulable', 'no') for",
    ),
    "moods": (variant(filter_all=lambda s, t, p, n: reject(np.full(len(n), random.random() < 0.5), NO)), "Bad ("),
    "an exception": (variant(filter_all=lambda *_: 1 // 0), "raised ZeroDivisionError"),
    "a wrong answer": (variant(filter_all=lambda *_: True), "return None, reject(mask, status) or Verdicts"),
    "deaf to new nodes": (variant(events_to_register=only(DELETED)), "does not have it retried then"),
    "a hint that always skips": (variant(events_to_register=only(ADDED)), "does not have it retried"),
    "a hint of another kind": (variant(events_to_register=only(WORDY)), "return Hint.QUEUE or Hint.SKIP"),
    "deaf to changed labels": (
        variant(events_to_register=only(kubesched.on(NODE, ADD))),
        "add on(Resource.NODE, Action.UPDATE_NODE_LABEL) to events_to_register",
    ),
    "deaf to pods that go": (
        variant(filter_all=None, filter=full, events_to_register=only(kubesched.on(NODE, ADD))),
        "add on(Resource.ASSIGNED_POD, Action.DELETE) to events_to_register",
    ),
    "deaf to the pod's own labels": (
        variant(filter_all=None, filter=of_app, events_to_register=only(kubesched.on(NODE, ADD | LABEL))),
        "add on(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL) to events_to_register",
    ),
    "a hint that raises": (variant(events_to_register=hinted(lambda *_: 1 // 0)), "raised ZeroDivisionError"),
    "a hint that changes things": (variant(events_to_register=hinted(relabelled)), "hints only read"),
    "a hint of moods": (variant(events_to_register=hinted(every_other)), "a hint returned different results"),
    "a hint not by class": (variant(events_to_register=hinted(by_name, by_class=True)), "drop by_class"),
    "a hint not by spec": (variant(events_to_register=hinted(by_label, by_spec=True)), "use by_class"),
    "a hint about volumes that raises": (
        variant(
            events_to_register=only(
                kubesched.on(NODE, ADD | LABEL),
                kubesched.on(kubesched.Resource.PERSISTENT_VOLUME, ADD, lambda pod, old, new: old.name),  # type: ignore[arg-type, union-attr, return-value]
            )
        ),
        "raised AttributeError",
    ),
    "events that cannot be listed": (variant(events_to_register=lambda _: 1 // 0), "raised ZeroDivisionError"),
    "no node names": (variant(pre_filter=lambda *_: "node-1"), "return None, a Status, or a set of node names"),
    "no status": (variant(pre_score=lambda *_: True), "return None if all is well, else a Status"),
    "no number": (variant(score_all=lambda s, t, p, n: np.full(len(n), np.nan), normalize=lambda *_: 1), "is no score"),
    "no score": (variant(score_all=lambda *_: None), "return a NumPy array of numbers"),
    "one score for many": (variant(score_all=lambda *_: np.zeros(1, dtype=np.int64)), "an array of shape (1,)"),
    "no meaning": (
        variant(filter_all=lambda s, t, p, n: Verdicts(np.ones(len(n), dtype=np.bool_), lambda code: "no")),  # type: ignore[arg-type, return-value]
        "let status_of(1) return a Status",
    ),
    "an event of another kind": (
        variant(events_to_register=only("Node/Add")),
        "return a list of on(Resource.NODE, Action.ADD)",
    ),
}


def bad(plugin: type[Plugin]) -> type[Plugin]:
    """The variant, without the whole-table Filter where that was taken away."""
    if plugin.__dict__.get("filter_all", True) is None:
        return type("Bad", (Plugin,), {key: value for key, value in vars(plugin).items() if key != "filter_all"})
    return plugin


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_is_found(mistake: str) -> None:
    """With the plugin's name, what to change, and an example."""
    plugin, said = BAD[mistake]
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(bad(plugin), labels=RESTING, examples=200)
    assert said in str(caught.value)
    assert "plugin Bad (" in str(caught.value)
    assert "\nexample: pod " in str(caught.value)


def test_a_good_plugin_passes() -> None:
    """In every form."""
    check_plugin(Good, labels=RESTING)

    @kubesched.filter
    def is_awake(pod: Pod, node: NodeInfo) -> bool:
        return node.labels.get("resting") != "true"

    @kubesched.score(normalize="lowest")
    def few_pods(pod: Pod, node: NodeInfo) -> float:
        return len(node.pods) / 3

    check_plugin(is_awake, labels=RESTING)
    check_plugin(few_pods)


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda each: each.name)
def test_the_built_in_plugins_pass(plugin: type[Plugin]) -> None:
    """What we ask of others holds for ours."""
    check_plugin(plugin, examples=25)


@pytest.mark.parametrize("mistake", ["a score out of range", "two forms of Score", "deaf to new nodes"])
def test_hypothesis_is_not_needed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a generator of our own finds the same mistakes."""
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "hypothesis":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    plugin, said = BAD[mistake]
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(plugin, labels=RESTING, examples=200)
    assert said in str(caught.value)
    check_plugin(Good, labels=RESTING)


def test_given_nodes_and_pods_are_used() -> None:
    """A plugin that only errs on what its author has in mind is caught with it."""

    @kubesched.filter
    def fragile(pod: Pod, node: NodeInfo) -> bool:
        if pod.annotations.get("team") == "x" and node.labels.get("rack") == "7":
            raise RuntimeError("never thought of that")
        return True

    check_plugin(fragile)
    with pytest.raises(PluginCheckError, match="never thought of that"):
        check_plugin(
            fragile, nodes=[node("n", labels={"rack": "7"})], pods=[pod("p", annotations={"team": "x"})], examples=200
        )


def test_labels_of_given_pods_may_be_those_that_a_pod_gets() -> None:
    """A plugin that turns pods down by a label of their own has to hear when it changes."""

    class Labelled(Plugin):
        name = "Labelled"

        def events_to_register(self) -> list[EventHint]:
            return [kubesched.on(NODE, ADD)]

        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
            return None if pod.labels.get("team") == "x" else NO

    check_plugin(Labelled)
    with pytest.raises(PluginCheckError, match="would accept it after a change of the pod's own labels"):
        check_plugin(Labelled, pods=[pod("p", labels={"team": "x"}), pod("q")])


def test_arguments_are_as_in_a_file() -> None:
    """Wrong ones are reported in the same way."""
    from kubesched.plugins.node_resources import NodeResourcesBalancedAllocation

    check_plugin(NodeResourcesBalancedAllocation, args={"resources": [{"name": "memory"}]}, examples=5)
    with pytest.raises(PluginCheckError, match=r"args.resurces: unknown field; did you mean resources\?"):
        check_plugin(NodeResourcesBalancedAllocation, args={"resurces": []}, examples=5)


def test_a_failure_ends_with_the_example() -> None:
    """What the search drew, and the way through it, say nothing to an author; what the plugin raised does."""
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(variant(score_all=lambda *_: 1 // 0))
    said = "".join(traceback.format_exception(caught.value)).splitlines()
    assert said[-1].startswith("example: pod ")
    assert "ZeroDivisionError: integer division or modulo by zero" in said
    assert [frame.name for frame in caught.traceback] == ["test_a_failure_ends_with_the_example", "check_plugin"]
