"""Keeping the scheduler's picture of the cluster still while it thinks.

A scheduling cycle works on live state, without a copy. That is sound because nothing changes the state during a cycle:
whoever has news of the cluster, or the outcome of a binding, hands it in here. Between cycles it is applied at once;
during one, which can only happen while an extender is being asked, it waits for the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVarTuple, Unpack

from kubesched.base.log import ERROR, Log

Ts = TypeVarTuple("Ts")


class Inbox:
    """Changes to the state, in the order in which they were handed in."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._held = False
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, act: Callable[[Unpack[Ts]], None], *args: *Ts) -> None:
        """Do this when no cycle is under way: mostly now. What it raises is logged and goes no further."""
        if self._held:
            self._waiting.append((act, args))
        else:
            self._do(act, args)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A time in which nothing changes."""
        self._held = True
        try:
            yield
        finally:
            # Who hands in more while these are done must still come after them.
            while self._waiting:
                self._do(*self._waiting.popleft())
            self._held = False

    def _do(self, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        try:
            act(*args)
        except Exception as problem:
            self._log(ERROR, "Unexpected error while taking in news", err=problem, handler=act.__qualname__)
