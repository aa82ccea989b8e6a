"""Counting bind calls, so that less urgent calls can wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BindCalls:
    """How many bind calls are waiting for a response."""

    def __init__(self) -> None:
        self.pending = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """A call is in progress."""
        self.pending += 1
        try:
            yield
        finally:
            self.pending -= 1
