"""The record of why a pod is unschedulable."""

from __future__ import annotations

import numpy as np
from tests.builders import cluster, node, pod

from kubesched.cluster.table import NodeTable
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.plugin import Verdicts
from kubesched.framework.status import Code, Status, unresolvable, unschedulable
from kubesched.framework.verdicts import Rejections


def table() -> NodeTable:
    """Nodes a, b, c and d, and a row that only a pod names."""
    return cluster(*(node(name) for name in "abcd"), pod("early", node="ghost")).nodes


def looked(*rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = np.zeros(5, dtype=np.bool_)
    mask[list(rows)] = True
    return mask


FULL, GONE = unschedulable("full", "and ugly"), unresolvable("gone")
REJECTIONS = Rejections(5, [("Fit", Verdicts(np.array([1, 1, 2, 0, 1]), {1: FULL, 2: GONE}.__getitem__))])


def test_statuses_of_nodes() -> None:
    """Evaluated nodes have their own status; the others share one."""
    others = unresolvable("narrowed away")
    diagnosis = Diagnosis(table(), looked_at=looked(0, 1, 2), rejections=REJECTIONS, others=others)
    assert diagnosis.status_of(0) == FULL.by("Fit")
    assert diagnosis.status_of(3) == others
    assert {status.message: rows.tolist() for status, rows in diagnosis.statuses()} == {
        "full, and ugly": [0, 1],
        "gone": [2],
    }


def test_the_message_counts_reasons() -> None:
    """Each reason of each node counts, and nodes that were not evaluated count with their shared status."""
    diagnosis = Diagnosis(
        table(), looked_at=looked(0, 1, 2), rejections=REJECTIONS, others=unresolvable("narrowed away")
    )
    assert diagnosis.message() == ("0/4 nodes are available: 1 gone, 1 narrowed away, 2 and ugly, 2 full.")
    assert diagnosis.message("preemption: no.").endswith("2 full. preemption: no.")


def test_a_prefilter_rejection_is_the_whole_message() -> None:
    """When PreFilter rejects the pod, its message stands for all nodes, once."""
    said = unresolvable("no such claim").by("VolumeBinding")
    diagnosis = Diagnosis(table(), others=said, pre_filter=said)
    assert diagnosis.message() == "0/4 nodes are available: no such claim."
    assert diagnosis.unschedulable_plugins == {"VolumeBinding"}
    assert list(diagnosis.statuses()) == []


def test_codes_by_name() -> None:
    """Preemption reads a node's code; a node that was not evaluated, or is unknown, is unresolvable."""
    diagnosis = Diagnosis(table(), looked_at=looked(0), rejections=REJECTIONS)
    assert diagnosis.code_of("a") is Code.UNSCHEDULABLE
    assert diagnosis.code_of("d") is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert diagnosis.code_of("unheard of") is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    resolvable = Diagnosis(table(), others=unschedulable("maybe later"))
    assert resolvable.code_of("a") is Code.UNSCHEDULABLE


def test_rows_by_code() -> None:
    """Rows that preemption could help are those with that code, plus all others if their shared status has it."""
    diagnosis = Diagnosis(table(), looked_at=looked(0, 1, 2), rejections=REJECTIONS, others=unschedulable("later"))
    assert diagnosis.rows_with(Code.UNSCHEDULABLE).tolist() == [0, 1, 3]
    assert diagnosis.rows_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist() == [2]
    assert diagnosis.rows_with(Code.ERROR).tolist() == []


def test_plugins_that_rejected() -> None:
    """Every plugin that rejected the pod on some node is listed, and so are those that excluded nodes in PreFilter."""
    waiting = Verdicts(np.array([0, 0, 0, 1, 0]), lambda _: Status(Code.PENDING, "wait"))
    rejections = Rejections(5, [*REJECTIONS.entries, ("Waits", waiting)])
    diagnosis = Diagnosis(
        table(), looked_at=looked(0, 3), rejections=rejections, plugins=frozenset(("NodeAffinity", ""))
    )
    assert diagnosis.unschedulable_plugins == {"Fit", "NodeAffinity"}
    assert diagnosis.pending_plugins == {"Waits"}
