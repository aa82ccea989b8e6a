"""Counting the calls that bring pods onto nodes, so that Events can wait for them."""

from __future__ import annotations


class UrgentCalls:
    """How many binds and deletions of victims have not been answered yet. A call is counted in a `with` block."""

    def __init__(self) -> None:
        self.pending = 0

    def __enter__(self) -> None:
        self.pending += 1

    def __exit__(self, *_: object) -> None:
        self.pending -= 1
