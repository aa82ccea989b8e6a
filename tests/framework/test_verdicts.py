"""Combining the results of several Filter plugins."""

from __future__ import annotations

from collections import Counter

import numpy as np

from kubesched.framework.plugin import Verdicts
from kubesched.framework.status import unresolvable, unschedulable
from kubesched.framework.verdicts import Rejections, fit_message

FULL, BUSY, TAINTED = unschedulable("full"), unschedulable("busy"), unresolvable("tainted")


def three() -> Rejections:
    """Five rows: the first plugin rejects rows 1 and 2 for two reasons, the second rows 2, 3 and 4."""
    one = Verdicts(np.array([0, 1, 2, 0, 0]), {1: FULL, 2: BUSY}.__getitem__)
    other = Verdicts(np.array([False, False, True, True, True]), lambda _: TAINTED)
    return Rejections(5, [("One", one), ("Other", other)])


def test_the_first_to_reject_speaks() -> None:
    """A row's status is that of the first plugin that rejects it, with the plugin's name."""
    rejections = three()
    assert rejections.status(0) is None
    assert rejections.status(1) == FULL.by("One")
    assert rejections.status(2) == BUSY.by("One")
    assert rejections.status(3) == TAINTED.by("Other")


def test_overruling_a_row() -> None:
    """A status set for a single row replaces the plugins' verdicts."""
    rejections = three()
    rejections.overruled[1] = TAINTED.by("Nominated")
    assert rejections.status(1) == TAINTED.by("Nominated")
    groups = {status: rows.tolist() for status, rows in rejections.groups(np.ones(5, dtype=np.bool_))}
    assert groups == {TAINTED.by("Nominated"): [1], BUSY.by("One"): [2], TAINTED.by("Other"): [3, 4]}


def test_groups_are_of_the_marked_rows() -> None:
    """Distinct statuses are listed with their rows, each marked row once and unmarked rows never."""
    among = np.array([True, True, False, True, False])
    assert [(s.message, rows.tolist()) for s, rows in three().groups(among)] == [("full", [1]), ("tainted", [3])]


def test_the_fit_message() -> None:
    """As upstream, reasons are counted and sorted as text that starts with the count."""
    reasons = Counter({"b reason": 2, "a reason": 10, "c reason": 10})
    assert fit_message(12, reasons) == "0/12 nodes are available: 10 a reason, 10 c reason, 2 b reason."
    assert fit_message(3, Counter()) == "0/3 nodes are available:"
