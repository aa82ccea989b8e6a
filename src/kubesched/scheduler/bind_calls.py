"""Counting bind calls, so that less urgent calls can wait for them."""

from __future__ import annotations


class BindCalls:
    """How many bind calls have not been answered yet. A call is counted in a `with` block."""

    def __init__(self) -> None:
        self.pending = 0

    def __enter__(self) -> None:
        self.pending += 1

    def __exit__(self, *_: object) -> None:
        self.pending -= 1
