"""What happened when: attempts, bindings, preemptions, wake-ups, pods and nodes that come and go."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from kubesched.web.columns import Interned, packed

MOST = 20_000
"""Moments that are kept."""
MOST_LATEST = 500
"""Of so many it is known in which order they came."""


class What(StrEnum):
    """The kinds of moments."""

    CREATED = "created"
    FAILED = "failed"
    """An attempt that found no node."""
    BOUND = "bound"
    PREEMPTED = "preempted"
    """A pod makes room for another one, which is named in the text."""
    WOKEN = "woken"
    """An event, named in the text, made the scheduler try the pod again."""
    ENDED = "ended"
    DELETED = "deleted"
    NODE_ADDED = "node added"
    NODE_REMOVED = "node removed"


class Moment(NamedTuple):
    """One thing that happened."""

    time: float
    what: What
    pod: str
    node: str = ""
    text: str = ""


class Moments:
    """The newest moments, in the order of their time."""

    def __init__(self) -> None:
        self._kept: deque[Moment] = deque(maxlen=MOST)
        self._late: list[Moment] = []
        self._latest: deque[Moment] = deque(maxlen=MOST_LATEST)
        self.count = 0
        """How many there have been."""

    def add(self, moment: Moment) -> None:
        """Keep a moment. Times may be out of order, as lists and attempts arrive late."""
        self.count += 1
        self._latest.append(moment)
        if self._kept and moment.time < self._kept[-1].time:
            insort(self._late, moment)
            if len(self._late) > MOST:
                self.all()  # nobody looks, so they would not be merged
        else:
            self._kept.append(moment)

    def all(self) -> list[Moment]:
        """All moments, the oldest first."""
        if self._late:
            merged = sorted((*self._kept, *self._late), key=lambda each: each.time)
            self._kept = deque(merged, maxlen=MOST)
            self._late.clear()
        return list(self._kept)

    def newest(self, number: int) -> list[Moment]:
        """The newest moments, the oldest of them first."""
        found = self.all()
        return list(islice(found, max(0, len(found) - number), None))

    def latest(self, number: int) -> list[Moment]:
        """Those that came last, whatever their times; at most MOST_LATEST."""
        return list(islice(self._latest, max(0, len(self._latest) - number), None))


def as_columns(moments: Iterable[Moment]) -> dict[str, Any]:
    """Moments in columns, with every text once."""
    kinds = list(What)
    texts = Interned([""])
    found = list(moments)
    return {
        "kinds": kinds,
        "time": packed([each.time for each in found], "f8"),
        "what": packed([kinds.index(each.what) for each in found], "u1"),
        **{
            name: packed([texts.number(getattr(each, name)) for each in found], "u4")
            for name in ("pod", "node", "text")
        },
    } | {"texts": texts.texts}


def seconds_of(timestamp: str | None) -> float:
    """A time of the API in seconds since 1970; 0 if there is none or it cannot be read."""
    if not timestamp:
        return 0.0
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
