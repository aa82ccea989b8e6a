"""Counting bind calls, so that less urgent calls can wait for them."""

from __future__ import annotations


class BindCalls:
    """How many bind calls have not been answered yet."""

    def __init__(self) -> None:
        self.pending = 0
