"""What plugins see of the table: windows of columns, and single nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.builders import HOSTNAME, ZONE, cluster, node, pod, taint

from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import NodeInfo, Nodes


def three() -> ClusterState:
    return cluster(
        node("a", cpu="2", zone="x", unschedulable=True, resources={"example.com/gpu": 4, "ephemeral-storage": "1Ki"}),
        node("b", cpu="4", zone="y", taints=["k:NoSchedule"]),
        node("c", cpu="8"),
        pod("p", node="b", cpu="1", memory="1Mi", requests={"example.com/gpu": 1, "ephemeral-storage": 5}),
        pod("silent", node="b"),
    )


def test_the_whole_table() -> None:
    """A window without rows shows the whole table, as views without copying."""
    state = three()
    nodes = Nodes(state.nodes)
    assert len(nodes) == 3
    assert nodes.rows == slice(0, 3)
    assert nodes.names == ["a", "b", "c"]
    assert nodes.row_numbers() == [0, 1, 2]
    assert nodes.allocatable("cpu").tolist() == [2000, 4000, 8000]
    assert nodes.requested("cpu").tolist() == [0, 1000, 0]
    assert nodes.pod_count.tolist() == [0, 2, 0]
    assert nodes.unschedulable.tolist() == [True, False, False]
    assert nodes.valid.all()
    assert np.shares_memory(nodes.allocatable("cpu"), state.nodes.allocatable)


def test_some_rows_in_their_order() -> None:
    """A window of row numbers keeps its own order."""
    nodes = Nodes(three().nodes, np.array([2, 0]))
    assert len(nodes) == 2
    assert nodes.names == ["c", "a"]
    assert nodes.allocatable("cpu").tolist() == [8000, 2000]
    assert nodes.label_in(ZONE, "x").tolist() == [False, True]


def test_one_row() -> None:
    """A slice of one row is a window of one."""
    nodes = Nodes(three().nodes, slice(1, 2))
    assert len(nodes) == 1
    assert nodes.names == ["b"]
    assert nodes.requested("cpu").tolist() == [1000]


def test_a_mask_is_counted_before_it_is_unfolded() -> None:
    """A window from a mask knows its length, and is a slice if it contains all rows."""
    state = three()
    some = Nodes(state.nodes, mask=np.array([True, False, True]))
    assert len(some) == 2
    assert some.row_numbers() == [0, 2]
    assert len(some) == 2
    everything = Nodes(state.nodes, mask=np.ones(3, dtype=np.bool_))
    assert everything.rows == slice(0, 3)
    assert len(Nodes(state.nodes, mask=np.zeros(3, dtype=np.bool_))) == 0


def test_columns_refuse_to_be_written_to() -> None:
    """Computing in place on any column raises, on the whole table and on some rows; the table keeps its values."""
    table = three().nodes
    before = (table.allocatable.copy(), table.used.copy(), table.valid.copy(), table.unschedulable.copy())
    for nodes in (Nodes(table), Nodes(table, np.array([2, 0])), Nodes(table, slice(1, 2))):
        columns: list[Any] = [nodes.allocatable("cpu"), nodes.requested("cpu"), nodes.pod_count, nodes.label(ZONE)]
        for column in (*columns, nodes.valid, nodes.unschedulable, nodes.declares("x")):
            with pytest.raises(ValueError, match="read-only"):
                column[:] = 0
    after = (table.allocatable, table.used, table.valid, table.unschedulable)
    assert all(np.array_equal(was, now) for was, now in zip(before, after, strict=True))


def test_the_rows_of_a_mask_refuse_to_be_written_to() -> None:
    """A window of the rows that pass is kept for the next pod, so that no plugin may change which rows it shows."""
    rows: Any = Nodes(three().nodes, mask=np.array([True, False, True])).rows
    with pytest.raises(ValueError, match="read-only"):
        rows += 1


def test_labels() -> None:
    """A label is an id per node; presence and membership are computed on the ids."""
    nodes = Nodes(three().nodes)
    values = nodes.label_column(ZONE).values
    assert [values[i] if i >= 0 else None for i in nodes.label(ZONE)] == ["x", "y", None]
    assert nodes.has_label(ZONE).tolist() == [True, True, False]
    assert nodes.label_in(ZONE, "y", "nowhere").tolist() == [False, True, False]
    assert nodes.label_in("nobody-has-it", "v").tolist() == [False, False, False]


def test_an_unknown_resource_is_zero_everywhere() -> None:
    """An unknown resource is zero everywhere."""
    nodes = Nodes(three().nodes)
    assert nodes.allocatable("example.com/unknown").tolist() == [0, 0, 0]
    assert nodes.requested("example.com/unknown").tolist() == [0, 0, 0]


def test_iteration_leaves_out_rows_without_a_node() -> None:
    """Iteration skips rows without a node, although they are in the window."""
    state = three()
    state.set(pod("early", node="d"))
    state.remove(node("a"))
    nodes = Nodes(state.nodes)
    assert len(nodes) == 4
    assert [each.name for each in nodes] == ["b", "c"]
    assert nodes.valid.tolist() == [True, True, False, False] or nodes.valid.tolist() == [False, True, True, False]


def test_one_node_with_everything() -> None:
    """A single node has its object's fields and its row's amounts."""
    state = three()
    info = NodeInfo(state.nodes, state.nodes.row_of["b"])
    assert info.name == "b"
    assert info.node.name == "b"
    assert info.labels == {HOSTNAME: "b", ZONE: "y"}
    assert info.taints == (taint("k:NoSchedule"),)
    assert [each.pod.name for each in info.pods] == ["p", "silent"]
    assert (info.allocatable.milli_cpu, info.allocatable.pods) == (4000, 110)
    assert (info.requested.milli_cpu, info.requested.memory, info.requested.pods) == (1000, 2**20, 2)
    assert (info.requested["example.com/gpu"], info.requested.ephemeral_storage) == (1, 5)
    assert (info.nonzero_requested.milli_cpu, info.nonzero_requested.memory) == (1100, 201 * 2**20)
    assert repr(info) == "NodeInfo(b)"


def test_amounts_by_name() -> None:
    """Amounts can be read by resource name; an unknown resource is zero and creates no column."""
    state = three()
    info = NodeInfo(state.nodes, state.nodes.row_of["a"])
    columns = len(state.nodes.resource_columns)
    assert info.allocatable["cpu"] == 2000
    assert info.allocatable["example.com/gpu"] == 4
    assert info.allocatable["example.com/unknown"] == 0
    assert info.allocatable.ephemeral_storage == 1024
    assert info.allocatable.memory == 16 * 2**30
    assert len(state.nodes.resource_columns) == columns


def test_what_is_left() -> None:
    """Free is allocatable minus requested, and negative where pods request more."""
    state = three()
    state.set(pod("late", node="a", cpu="5"))
    assert Nodes(state.nodes).free("cpu").tolist() == [-3000, 3000, 8000]
    assert Nodes(state.nodes, np.array([2, 1])).free("cpu").tolist() == [8000, 3000]
    assert Nodes(state.nodes).free("example.com/unknown").tolist() == [0, 0, 0]


def test_label_values() -> None:
    """Label values are returned as text, with None where the label is missing, even on all nodes."""
    nodes = Nodes(three().nodes)
    assert nodes.label_values(ZONE).tolist() == ["x", "y", None]
    assert nodes.label_values("nobody-has-it").tolist() == [None, None, None]


def test_numbers_by_label_are_asked_for_once_per_value() -> None:
    """The function is called once for each distinct value in the window, and once for its absence."""
    state = cluster(*(node(f"n{i}", zone=("x", "y", None)[i % 3]) for i in range(9)))
    asked: list[str | None] = []

    def worth(value: str | None) -> float:
        asked.append(value)
        return {"x": 1.5, "y": 2.0, None: -1.0}[value]

    assert Nodes(state.nodes).by_label(ZONE, worth).tolist() == [1.5, 2.0, -1.0] * 3
    assert sorted(asked, key=str) == [None, "x", "y"]
    asked.clear()
    assert Nodes(state.nodes, np.array([0, 3])).by_label(ZONE, worth).tolist() == [1.5, 1.5]
    assert asked == ["x"]


def test_numbers_by_taints_are_asked_for_once_per_set() -> None:
    """The function is called once for nodes with the same taints."""
    state = cluster(*(node(f"n{i}", taints=["k:NoSchedule"] * (i % 2)) for i in range(6)))
    asked: list[int] = []

    def worth(taints: tuple[object, ...]) -> float:
        asked.append(len(taints))
        return len(taints) / 2

    assert Nodes(state.nodes).by_taints(worth).tolist() == [0.0, 0.5] * 3
    assert sorted(asked) == [0, 1]


def test_taints_by_name() -> None:
    """A taint is found by its key, and optionally by value and effect."""
    state = cluster(
        node("a", taints=["k=v:NoSchedule"]), node("b", taints=["k=w:NoExecute", "l:NoSchedule"]), node("c")
    )
    nodes = Nodes(state.nodes)
    assert nodes.has_taint("k").tolist() == [True, True, False]
    assert nodes.has_taint("k", "v").tolist() == [True, False, False]
    assert nodes.has_taint("k", effect="NoExecute").tolist() == [False, True, False]
    assert nodes.has_taint("l", "").tolist() == [False, True, False]
    assert nodes.has_taint("k", "v", "NoExecute").tolist() == [False, False, False]


def test_numbers_by_node_have_an_entry_for_every_row() -> None:
    """Unlike iteration, the result includes rows without a node, because it must be as long as the window."""
    state = three()
    state.set(pod("early", node="d"))
    window = Nodes(state.nodes)
    assert len(list(window)) == 3
    assert window.by_node(lambda each: len(each.pods)).tolist() == [0, 2, 0, 0]
    assert Nodes(state.nodes, np.array([1])).by_node(lambda each: each.name == "b").tolist() == [1]
