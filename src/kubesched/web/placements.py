"""Which pod was on which node, from when to when, so that the page can show the cluster at an earlier time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.web.columns import packed

MOST = 100_000
"""PlacementLog that are kept; of those that have ended, the older half goes first."""


class PlacementLog:
    """Pods on nodes over time."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._classes: list[int] = []
        self._from: list[float] = []
        self._until: list[float] = []
        self._numbers: dict[tuple[tuple[str, int], ...], int] = {}
        """The different requests."""
        self._current: dict[str, int] = {}

    def placed(self, uid: str, row: int, requests: Mapping[str, int], when: float) -> None:
        """A pod got its node."""
        if len(self._rows) >= MOST:
            self._drop_ended()
        self._current[uid] = len(self._rows)
        self._rows.append(row)
        self._classes.append(self._numbers.setdefault(tuple(sorted(requests.items())), len(self._numbers)))
        self._from.append(when)
        self._until.append(0.0)

    def ended(self, uid: str, when: float) -> None:
        """A pod has left its node."""
        index = self._current.pop(uid, None)
        if index is not None:
            self._until[index] = when

    def columns(self, resources: tuple[str, ...]) -> dict[str, Any]:
        """All placements: a node, the number of its requests, and a time span each; and the different requests."""
        requests = [[float(dict(each).get(name, 0)) for name in resources] for each in self._numbers]
        return {
            "rows": packed(self._rows, "u4"),
            "classes": packed(self._classes, "u4"),
            "from": packed(self._from, "f8"),
            "until": packed(self._until, "f8"),
            "requests": requests,
        }

    def _drop_ended(self) -> None:
        ended = sorted((until, index) for index, until in enumerate(self._until) if until)
        dropped = {index for _, index in ended[: len(ended) // 2 + 1]}
        kept = [index for index in range(len(self._rows)) if index not in dropped]
        place = {old: new for new, old in enumerate(kept)}
        self._rows = [self._rows[index] for index in kept]
        self._classes = [self._classes[index] for index in kept]
        self._from = [self._from[index] for index in kept]
        self._until = [self._until[index] for index in kept]
        self._current = {uid: place[index] for uid, index in self._current.items()}
        requests = list(self._numbers)
        self._numbers = {requests[number]: at for at, number in enumerate(dict.fromkeys(self._classes))}
        self._classes = [self._numbers[requests[number]] for number in self._classes]
