"""Keeps Python's garbage collections short: during one, nothing is scheduled and no lease is renewed."""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 5, 40)
"""Young objects are collected often, which is quick. A full collection comes after about two million new objects:
rarely, but before garbage can fill the memory."""


def begin() -> None:
    """Call this before the initial lists, which create many objects and little garbage."""
    gc.unfreeze()  # objects of an earlier run in this process are garbage by now
    gc.set_threshold(*THRESHOLDS)


def settle() -> None:
    """Call this after the initial lists. Most objects are long-lived now, so they are excluded from collections.

    There is no collection before that: in a large cluster it would take as long as the pauses that this avoids.
    """
    gc.freeze()
