"""Keeps the scheduler's view of the cluster constant during a scheduling cycle.

A scheduling cycle works on live state, without a copy. That is safe because nothing changes the state during a cycle:
cluster events and the outcomes of bindings all go through this inbox. Between cycles they are applied at once. During
a cycle they can only arrive while it waits for an extender, and they are applied when it ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVarTuple, Unpack

from kubesched.base.log import ERROR, Log

Ts = TypeVarTuple("Ts")


class Inbox:
    """Changes to the state, in order of arrival."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._held = False
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, act: Callable[[Unpack[Ts]], None], *args: *Ts) -> None:
        """Run a change as soon as no cycle is running, which is usually now. Exceptions are logged and not raised."""
        if self._held:
            self._waiting.append((act, args))
            return
        try:
            act(*args)
        except Exception as problem:
            self._failed(act, problem)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context in which the state does not change."""
        self._held = True
        try:
            yield
        finally:
            # Changes that arrive while these are applied must come after them.
            while self._waiting:
                self._do(*self._waiting.popleft())
            self._held = False

    def _do(self, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        try:
            act(*args)
        except Exception as problem:
            self._failed(act, problem)

    def _failed(self, act: Callable[..., None], problem: Exception) -> None:
        self._log(ERROR, "Unexpected error while applying a change", err=problem, handler=act.__qualname__)
