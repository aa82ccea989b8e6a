"""Waiting for something to become so, with a deadline, and a word on what was seen when it did not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pprint import pformat
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 180.0
"""Seconds. Much more than anything should take, for machines that do other things as well."""
STEP = 0.05
SHOWN = 4000


def until(look: Callable[[], T], what: str, *, seconds: float = PATIENCE, enough: Callable[[T], bool] = bool) -> T:
    """Look again and again until what is seen is enough; by default, until it is true. Answers with it."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if enough(seen):
            return seen
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}. Last seen:\n{pformat(seen)[:SHOWN]}")
        time.sleep(STEP)


def stays(look: Callable[[], T], what: str, *, seconds: float, enough: Callable[[T], bool] = bool) -> None:
    """See that something is so for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = look()
        assert enough(seen), f"no longer so: {what}. Seen:\n{pformat(seen)[:SHOWN]}"
        time.sleep(STEP)
