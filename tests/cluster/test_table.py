"""The node table: rows, columns and the change log."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import HOSTNAME, ZONE, node, pod, taint
from tests.cluster.content import check_table

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClasses, PodInfo
from kubesched.cluster.table import CPU, MEMORY, NONZERO_CPU, NONZERO_MEMORY, PODS, NodeTable

MIB = 1024 * 1024


def table_of(*nodes: api.Node, capacity: int = 64) -> NodeTable:
    table = NodeTable(capacity)
    for each in nodes:
        table.set_node(each)
    return table


def info(name: str = "p", **fields: object) -> PodInfo:
    return PodClasses().info(pod(name, **fields))  # type: ignore[arg-type]  # the keywords of `pod`


def test_a_node_fills_its_row() -> None:
    """Amounts, cordon and taints of a node are in the columns of its row."""
    table = table_of(node("a", cpu="1500m", memory="1Mi", pods=5, unschedulable=True, taints=["k=v:NoSchedule"]))
    row = table.row_of["a"]
    assert table.allocatable[:, row].tolist() == [1500, MIB, 0, 5, 1500, MIB, 0]
    assert table.valid[row]
    assert table.unschedulable[row]
    assert table.taint_sets[table.taint_set[row]] == (taint("k=v:NoSchedule"),)
    assert table.node(row).name == "a"


def test_update_replaces_everything() -> None:
    """An update clears everything that the node no longer has, including extended resources."""
    table = table_of(
        node("a", zone="x", resources={"example.com/gpu": 4}, taints=["k:NoSchedule"], images={"web:1": 9})
    )
    table.label(ZONE)
    row = table.set_node(node("a", cpu="1"))
    assert table.allocatable[table.resource("example.com/gpu"), row] == 0
    assert table.allocatable[CPU, row] == 1000
    assert table.taint_set[row] == 0
    assert table.label(ZONE).ids[row] == -1
    assert table.images == {}


def test_rows_are_reused() -> None:
    """The row of a deleted node is reused, blank."""
    table = table_of(node("a", zone="x", resources={"example.com/gpu": 4}), node("b"))
    table.label(ZONE)
    freed = table.row_of["a"]
    table.remove_node("a")
    assert "a" not in table.row_of
    assert table.set_node(node("c")) == freed
    assert table.size == 2
    assert table.label(ZONE).ids[freed] == -1
    check_table(table)


def test_growth_keeps_columns() -> None:
    """A table that outgrows its capacity keeps its contents."""
    table = NodeTable(capacity=2)
    table.label(ZONE)
    for number in range(9):
        table.set_node(node(f"n{number}", zone=f"z{number % 3}", cpu=str(number + 1), taints=[f"t{number}:NoSchedule"]))
    assert table.capacity >= 9
    assert table.allocatable[CPU, :9].tolist() == [1000 * (number + 1) for number in range(9)]
    assert [table.label(ZONE).values[i] for i in table.label(ZONE).ids[:9]] == ["z0", "z1", "z2"] * 3
    assert [table.taint_sets[i][0].key for i in table.taint_set[:9]] == [f"t{number}" for number in range(9)]
    check_table(table)


def test_a_row_without_a_node_waits_for_its_pods() -> None:
    """A node deleted before its pods keeps its row, marked as invalid, until the last pod is removed."""
    table = table_of(node("a"))
    row = table.row_of["a"]
    guest = info(cpu="1")
    table.place(guest, row)
    table.remove_node("a")
    assert not table.valid[row]
    assert table.used[CPU, row] == 1000
    assert table.row_of["a"] == row
    with pytest.raises(LookupError, match="row 0 has no node"):
        table.node(row)
    table.take_off(guest, row)
    table.release_if_empty(row)
    assert "a" not in table.row_of
    check_table(table)


def test_a_pod_may_come_before_its_node() -> None:
    """A row created for a pod is invalid and has no capacity; the node then uses the same row."""
    table = NodeTable()
    row = table.row_for_pod("a")
    table.place(info(cpu="1"), row)
    assert table.valid_count == 0
    assert table.set_node(node("a")) == row
    assert table.valid_count == 1
    assert table.used[PODS, row] == 1


def test_release_leaves_a_node_alone() -> None:
    """Removing the last pod from a row with a node keeps the row."""
    table = table_of(node("a"))
    guest = info()
    table.place(guest, 0)
    table.take_off(guest, 0)
    table.release_if_empty(0)
    assert table.row_of == {"a": 0}


def test_removing_an_unknown_node_does_nothing() -> None:
    """Deleting a node twice, or a node never seen, does nothing."""
    table = table_of(node("a"))
    table.remove_node("a")
    version = table.node_version
    table.remove_node("a")
    table.remove_node("b")
    assert table.node_version == version


def test_removing_a_node_that_only_its_pods_know() -> None:
    """Deleting a node that only pods name keeps the row of the pods."""
    table = NodeTable()
    row = table.row_for_pod("a")
    table.place(info(), row)
    table.remove_node("a")
    assert table.row_of == {"a": row}


def test_used_counts_requests_and_scoring_defaults() -> None:
    """A container without requests counts as nothing for fitting and as the defaults for scoring."""
    table = table_of(node("a"))
    table.place(info("loud", cpu="2", memory="1Mi"), 0)
    table.place(info("silent"), 0)
    used = table.used[:, 0]
    assert (used[CPU], used[MEMORY], used[PODS]) == (2000, MIB, 2)
    assert (used[NONZERO_CPU], used[NONZERO_MEMORY]) == (2100, 201 * MIB)


def test_a_new_resource_is_a_new_column() -> None:
    """A resource first used by a pod gets a column, which is zero for earlier pods."""
    table = table_of(node("a"))
    early, late = info("early", cpu="1"), info("late", requests={"example.com/new": 2})
    table.place(early, 0)
    table.place(late, 0)
    column = table.resource("example.com/new")
    assert table.used[column, 0] == 2
    table.take_off(early, 0)
    table.take_off(late, 0)
    assert not table.used.any()


def test_several_pods_move_at_once() -> None:
    """Placing and removing pods on rows at once equals one at a time, including tags and new columns."""
    one, other = table_of(node("a"), node("b")), table_of(node("a"), node("b"))
    pods = [info("p", cpu="1", host_ports=[80]), info("q", requests={"example.com/new": 3})]
    moves = [(pods[0], 0), (pods[1], 1), (info("r", cpu="2"), 1)]
    one.place_each(moves)
    for each, row in moves:
        other.place(each, row)
    assert one.used.tolist() == other.used.tolist()
    assert one.tagged == other.tagged != {}
    one.take_off_each(moves)
    assert not one.used.any()
    assert one.tagged == {}
    assert one.pods == [{}, {}]


def test_restore_ends_a_what_if() -> None:
    """Rows get back their pods, amounts, tags and stamps, even if a column was added meanwhile."""
    table = table_of(node("a"))
    new = {"example.com/new": 2}
    stays, guest = info("stays", host_ports=[80], cpu="1", requests=new), info("guest", host_ports=[81], cpu="1")
    table.place(stays, 0)
    pods, used, stamps = {0: dict(table.pods[0])}, table.used[:, [0]], table.stamps[[0]]
    table.take_off(stays, 0)
    table.place(guest, 0)
    table.place(info("odd", requests={"example.com/new": 1}), 0)
    column = table.resource("example.com/new")
    assert table.used[column, 0] == 1
    assert table.stamps[0] != stamps[0]
    table.restore(pods, used, stamps)
    assert table.stamps[0] == stamps[0]
    assert list(table.pods[0]) == [stays.pod.uid]
    assert table.used[CPU, 0] == 1000
    assert table.used[column, 0] == 2
    assert {tag[2] for tag in table.tagged} == {80}


def test_a_heartbeat_changes_no_version() -> None:
    """An update of fields that are in no column changes no version."""
    table = table_of(node("a", annotations={"beat": "1"}))
    before = table.node_version, table.topology_version
    table.set_node(node("a", annotations={"beat": "2"}))
    assert (table.node_version, table.topology_version) == before
    assert table.node(0).annotations == {"beat": "2"}


@pytest.mark.parametrize(
    ("change", "topology"),
    [
        ({"labels": {"disk": "ssd"}}, True),
        ({"taints": ["k:NoSchedule"]}, True),
        ({"unschedulable": True}, True),
        ({"cpu": "9"}, False),
        ({"resources": {"example.com/gpu": 1}}, False),
        ({"images": {"web:1": 9}}, False),
    ],
)
def test_versions_tell_what_changed(change: dict[str, object], topology: bool) -> None:
    """Any change increments the node version; labels, taints and cordon also increment the topology version."""
    table = table_of(node("a"))
    nodes, topologies = table.node_version, table.topology_version
    table.set_node(node("a", **change))  # type: ignore[arg-type]  # the keywords of `node`
    assert table.node_version > nodes
    assert (table.topology_version > topologies) is topology


def test_pods_change_the_log_and_no_version() -> None:
    """A pod that is added or removed makes an entry for its row in the log and changes no version."""
    table = table_of(node("a"), node("b"))
    version, start = table.node_version, table.log_end
    guest = info()
    table.place(guest, 1)
    table.take_off(guest, 1)
    table.place(guest, 0)
    assert table.node_version == version
    assert table.changed_since(start) == [1, 1, 0]
    assert table.changed_since(table.log_end) == []


def test_the_log_forgets() -> None:
    """A long log is truncated; a reader at an older position is notified, and newer positions still work."""
    table = table_of(node("a"))
    start = table.log_end
    guest = info()
    for _ in range(40000):
        table.place(guest, 0)
        table.take_off(guest, 0)
    assert len(table.pod_log) <= 65536
    assert table.changed_since(start) is None
    assert table.log_end == start + 80000
    recent = table.log_end
    table.place(guest, 0)
    assert table.changed_since(recent) == [0]


def test_label_columns_are_made_on_demand() -> None:
    """A column created late has the values of existing nodes, and follows later changes."""
    table = table_of(node("a", zone="x"), node("b"))
    column = table.label(ZONE)
    assert column is table.label(ZONE)
    assert column.ids[:2].tolist() == [column.index["x"], -1]
    table.set_node(node("b", zone="y"))
    table.remove_node("a")
    assert column.ids[:2].tolist() == [-1, column.index["y"]]


def test_labels_that_no_node_has_share_a_column() -> None:
    """A key gets a column of its own with the first node that has it, and loses it with the last."""
    table = table_of(node("a"), node("b"))
    for number in range(100):
        assert (table.label(f"made-up-{number}").ids == -1).all()
    assert table.label_columns == {}
    table.set_node(node("b", labels={"made-up-7": "x"}))
    column = table.label("made-up-7")
    assert [column.values[each] if each >= 0 else None for each in column.ids[:2].tolist()] == [None, "x"]
    table.set_node(node("b"))
    assert (table.label("made-up-7").ids == -1).all()
    assert table.label_columns == {}
    table.set_node(node("a", labels={"made-up-8": "x"}))
    table.label("made-up-8")
    table.remove_node("a")
    assert table.label_columns == {}
    for number in range(100):
        table.set_node(node(f"many-{number}"))
    assert len(table.label("made-up-8").ids) == table.capacity


def test_resources_that_no_node_offers_have_no_column() -> None:
    """What pods use is counted from the moment at which a node offers it."""
    table = table_of(node("a"), node("b"))
    for number in range(100):
        table.place(info(f"p{number}", requests={f"example.com/made-up-{number}": 3}), number % 2)
    assert set(table.resource_columns) == {"cpu", "memory", "ephemeral-storage", "pods"}
    table.set_node(node("a", resources={"example.com/made-up-7": "5"}))
    column = table.resource_columns["example.com/made-up-7"]
    assert table.allocatable[column, :2].tolist() == [5, 0]
    assert table.used[column, :2].tolist() == [0, 3]
    table.place(info("another", requests={"example.com/made-up-7": 2}), 0)
    assert table.used[column, :2].tolist() == [2, 3]


def test_taint_sets_are_interned() -> None:
    """Nodes with the same taints in the same order share one entry; no taints is number 0."""
    table = table_of(
        node("a", taints=["k:NoSchedule", "l:NoExecute"]),
        node("b", taints=["k:NoSchedule", "l:NoExecute"]),
        node("c", taints=["l:NoExecute"]),
        node("d"),
    )
    ids = table.taint_set[:4].tolist()
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == 0
    assert len(table.taint_sets) == 3


def test_images_know_their_nodes() -> None:
    """An image lists the rows that have it under any of its names, and disappears with the last of them."""
    both = api.NodeStatus(images=(api.ContainerImage(("web:1", "web@sha256:1"), 10),))
    table = table_of(api.Node(metadata=api.ObjectMeta(name="a"), status=both), node("b", images={"web:1": 20}))
    assert table.images["web:1"].rows == {0, 1}
    assert table.images["web@sha256:1"].rows == {0}
    assert table.images["web:1"].size == 10
    table.remove_node("a")
    assert table.images["web:1"].rows == {1}
    assert table.images["web:1"].size == 10
    table.remove_node("b")
    assert table.images == {}


def test_an_image_named_twice_on_a_node_counts_once() -> None:
    """A node that lists an image twice counts once."""
    twice = api.NodeStatus(images=(api.ContainerImage(("web:1",), 10), api.ContainerImage(("web:1",), 20)))
    table = table_of(api.Node(metadata=api.ObjectMeta(name="a"), status=twice))
    assert (table.images["web:1"].size, table.images["web:1"].rows) == (10, {0})
    table.set_node(node("a"))
    assert table.images == {}


def test_a_malformed_amount_touches_nothing() -> None:
    """A node with an invalid amount is rejected, and its known version stays."""
    table = table_of(node("a", cpu="1", zone="x"))
    before = table.node_version
    with pytest.raises(ValueError, match=r'Node a: status.allocatable\["cpu"\]: quantity "1x"'):
        table.set_node(node("a", cpu="1x", zone="y"))
    with pytest.raises(ValueError, match="Node b"):
        table.set_node(node("b", memory="one"))
    assert table.node_version == before
    assert table.row_of == {"a": 0}
    assert table.node(0).labels[ZONE] == "x"


def test_negative_allocatable_is_taken_as_it_is() -> None:
    """As upstream, negative allocatable amounts are accepted."""
    table = table_of(node("a", cpu="-1"))
    assert table.allocatable[CPU, 0] == -1000


def test_huge_amounts_stay_within_64_bits() -> None:
    """A huge amount is capped and does not overflow."""
    table = table_of(node("a", memory="100E"))
    assert table.allocatable[MEMORY, 0] == np.iinfo(np.int64).max


class Forgetful(NodeTable):
    """Keeps little about former nodes."""

    SPARE = 4


def test_label_values_of_former_nodes_are_forgotten() -> None:
    """Label values of former nodes are dropped from the columns."""
    table = Forgetful()
    table.set_node(node("stays", zone="a"))
    table.label(HOSTNAME)
    for number in range(100):
        table.set_node(node(f"n{number}"))
        table.remove_node(f"n{number}")
    column = table.label(HOSTNAME)
    assert len(column.values) <= 2 * table.size + table.SPARE
    assert column.values[column.ids[table.row_of["stays"]]] == "stays"
    assert [column.index[value] for value in column.values] == list(range(len(column.values)))
    assert column.ids[1:].tolist() == [-1] * (table.capacity - 1)


def test_taints_of_former_times_are_forgotten() -> None:
    """Taints that no node has any more are dropped; those in use keep their number."""
    table = Forgetful()
    table.set_node(node("stays", taints=["k=v:NoSchedule"]))
    table.set_node(node("free"))
    for number in range(100):
        row = table.set_node(node("other", taints=[f"k={number}:NoSchedule"]))
        assert table.taint_sets[table.taint_set[row]] == (taint(f"k={number}:NoSchedule"),)
    assert len(table.taint_sets) <= 2 * table.size + table.SPARE + 1
    assert table.taint_sets[table.taint_set[0]] == (taint("k=v:NoSchedule"),)
    assert table.taint_sets[table.taint_set[1]] == ()


def test_when_a_taint_came_does_not_set_it_apart() -> None:
    """Taints that differ only in the time they were added are equal."""
    table = NodeTable()
    for number in range(3):
        taints = [{"key": "gone", "effect": "NoExecute", "timeAdded": f"2026-01-01T00:00:0{number}Z"}]
        raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "spec": {"taints": taints}}
        table.set_node(api.decode_as(api.Node, raw))
    assert len(table.taint_sets) == 2
