"""The contract's helpers: lifting per-node methods to windows, rejecting rows, normalising scores."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import cluster, node, pod

from kubesched.api import objects as api
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.framework.adapters import lift_filter, lift_score
from kubesched.framework.plugin import Plugin, Reads, default_normalize, reject
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.plugins.node_name import NodeName


class Alphabetical(Plugin):
    """Accepts names in the first half of the alphabet, and scores by the letter."""

    name = "Alphabetical"

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        if node.name == "b":
            return Status(Code.SUCCESS)
        return None if node.name < "n" else unschedulable(f"{node.name} is late in the alphabet")

    def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
        return ord(node.name)


def ask(names: str, rows: list[int] | None = None) -> tuple[CycleState, api.Pod, Nodes]:
    made = cluster(*(node(name) for name in names))
    info = made.classes.info(pod())
    window = Nodes(made.nodes, None if rows is None else np.array(rows, dtype=np.int64))
    return CycleState(info.pod_class), info.pod, window


def test_a_lifted_filter_answers_for_a_window() -> None:
    """A lifted filter is called for every node; success may be None or a status."""
    state, each, nodes = ask("abyz")
    verdicts = lift_filter(Alphabetical(None, None))(state, each, nodes)  # type: ignore[arg-type]  # what a test leaves out
    assert verdicts is not None
    assert (verdicts.codes != 0).tolist() == [False, False, True, True]
    statuses = [verdicts.status_of(int(code)).message for code in verdicts.codes if code]
    assert statuses == ["y is late in the alphabet", "z is late in the alphabet"]


def test_a_lifted_filter_that_rejects_nothing() -> None:
    """If every node passes, a lifted filter returns None."""
    assert lift_filter(Alphabetical(None, None))(*ask("ab")) is None  # type: ignore[arg-type]  # what a test leaves out


def test_a_lifted_plugin_answers_in_the_order_of_the_window() -> None:
    """Positions refer to the window and not to the table."""
    plugin = Alphabetical(None, None)  # type: ignore[arg-type]  # what a test leaves out
    state, each, nodes = ask("azb", [2, 1])
    assert np.asarray(lift_score(plugin)(state, each, nodes)).tolist() == [ord("b"), ord("z")]
    verdicts = lift_filter(plugin)(state, each, nodes)
    assert verdicts is not None
    assert (verdicts.codes != 0).tolist() == [False, True]


def test_a_lifted_plugin_is_not_asked_about_rows_without_a_node() -> None:
    """A row that only a pod names is skipped, and its result does not count."""
    made = cluster(node("a"), pod("early", node="z"))
    info = made.classes.info(pod())
    plugin = Alphabetical(None, None)  # type: ignore[arg-type]  # what a test leaves out
    state = CycleState(info.pod_class)
    assert lift_filter(plugin)(state, info.pod, Nodes(made.nodes)) is None
    assert np.asarray(lift_score(plugin)(state, info.pod, Nodes(made.nodes))).tolist() == [ord("a"), 0]


def test_a_vectorised_plugin_is_taken_as_it_is() -> None:
    """A vectorised plugin is not lifted."""
    plugin = NodeName(None, None)  # type: ignore[arg-type]  # what a test leaves out
    assert lift_filter(plugin) == plugin.filter_all


def test_reject_marks_rows() -> None:
    """One reason applies to all marked rows; without marked rows there is no verdict."""
    verdicts = reject(np.array([True, False]), unschedulable("full"))
    assert verdicts is not None
    assert verdicts.status_of(1) == unschedulable("full")
    assert reject(np.array([False, False]), unschedulable("full")) is None


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([0, 5, 10], False, [0, 50, 100]),
        ([0, 5, 10], True, [100, 50, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 3], False, [33, 100]),
        ([1, 3], True, [67, 0]),
        ([], False, []),
        ([], True, []),
    ],
)
def test_normalising_by_the_highest(scores: list[int], reverse: bool, expected: list[int]) -> None:
    """Scores are scaled to 100 by the highest, in integers; reversed, the lowest is the best."""
    assert default_normalize(np.array(scores, dtype=np.int64), reverse=reverse).tolist() == expected


def test_what_can_be_cached() -> None:
    """Results that depend only on the pod's class, the node and the pods on it can be cached for the class."""
    assert {reads for reads in Reads if reads.is_cacheable} == {Reads.NODE, Reads.PODS}
    assert Plugin.reads is Reads.CLUSTER


def test_a_plugin_registers_no_events_by_default() -> None:
    """By default a plugin registers no events."""
    assert list(Alphabetical(None, None).events_to_register()) == []  # type: ignore[arg-type]  # what a test leaves out
