"""The Filter results of several plugins combined: which plugin rejected which row, and why.

A row's status is that of the first plugin that rejects it. Codes stay small integers until a message is needed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from kubesched.cluster.table import Ints, Mask
from kubesched.framework.plugin import Verdicts
from kubesched.framework.status import Status


class Rejections:
    """Verdicts of plugins over one window, in the plugins' order; single rows may be overruled."""

    __slots__ = ("entries", "overruled", "size")

    def __init__(self, size: int, entries: list[tuple[str, Verdicts]]) -> None:
        self.size = size
        self.entries = entries
        self.overruled: dict[int, Status] = {}

    def copy(self) -> Rejections:
        """A copy that does not change when the engine updates its cached answers."""
        copy = Rejections(self.size, [(name, Verdicts(v.codes.copy(), v.status_of)) for name, v in self.entries])
        copy.overruled = dict(self.overruled)
        return copy

    def status(self, position: int) -> Status | None:
        """The status of one row; None if it passed."""
        if position in self.overruled:
            return self.overruled[position]
        for plugin, verdicts in self.entries:
            code = int(verdicts.codes[position])
            if code:
                return verdicts.status_of(code).by(plugin)
        return None

    def groups(self, among: Mask) -> Iterator[tuple[Status, Ints]]:
        """The distinct statuses of the marked rows, each with the rows that have it."""
        left = among.copy()
        yield from self._overruled_groups(left)
        for plugin, verdicts in self.entries:
            rows = np.flatnonzero(left & (verdicts.codes != 0))
            if not len(rows):
                continue
            codes = verdicts.codes[rows]
            first = int(codes[0])
            if (codes == first).all():  # as is usual, and quicker to find out than by sorting
                yield verdicts.status_of(first).by(plugin), rows
            else:
                for code in np.unique(codes).tolist():
                    yield verdicts.status_of(int(code)).by(plugin), rows[codes == code]
            left[rows] = False

    def _overruled_groups(self, left: Mask) -> Iterator[tuple[Status, Ints]]:
        """The groups of the rows that are overruled, which are unmarked."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for position, status in self.overruled.items():
            groups[id(status)].append(position)  # hashing a status for every row takes longer than some more groups
        for positions in groups.values():
            rows = np.array(positions)
            marked = rows[left[rows]]
            left[rows] = False
            if len(marked):
                yield self.overruled[positions[0]], marked


def fit_message(nodes: int, reasons: Counter[str]) -> str:
    """Upstream's "0/N nodes are available" with the reasons counted and sorted as text."""
    words = sorted(f"{count} {reason}" for reason, count in reasons.items())
    message = f"0/{nodes} nodes are available:"
    return f"{message} {', '.join(words)}." if words else message
