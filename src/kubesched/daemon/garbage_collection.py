"""Keeping Python's search for garbage short: while it searches, nothing is scheduled and no lease renewed."""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 5, 40)
"""Young objects are looked through often and quickly. All are when some two million have been added: rarely, but before
garbage could fill the memory."""


def begin() -> None:
    """The cluster is about to be taken in, which makes many objects and little garbage."""
    gc.unfreeze()  # of an earlier run in this process all is garbage by now
    gc.set_threshold(*THRESHOLDS)


def settle() -> None:
    """The cluster has been taken in. Most of what there is now will stay, so it is never looked through again.

    It is not looked through one last time either, which in a large cluster would take as long as what this avoids.
    """
    gc.freeze()
