"""What one plugin answers about every row, for one pod class."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kubesched.cluster.table import Ints
from kubesched.engine.decision import PluginScores
from kubesched.framework.adapters import FilterPlugin, ScorePlugin
from kubesched.framework.plugin import Codes, Reads, Verdicts, is_built_in

MOST_COMPARED = 8
"""How many codes of a plugin are searched for one by one."""


class CachedFilter:
    """One Filter plugin's codes for every row."""

    __slots__ = ("_is_sound", "codes", "plugin", "status_of")

    def __init__(self, plugin: FilterPlugin, size: int, verdicts: Verdicts | None) -> None:
        self.plugin = plugin
        self.status_of = verdicts.status_of if verdicts is not None else None
        # Codes that last as long as the nodes keep their small type; those that are updated may need a larger one.
        dtype = np.int64 if plugin.reads is Reads.PODS else None
        self.codes: Codes = np.zeros(size, dtype=dtype) if verdicts is None else np.array(verdicts.codes, dtype=dtype)
        self._is_sound: bool | None = None

    def changed_at(self, rows: Ints, verdicts: Verdicts | None) -> CachedFilter:
        """A copy with new verdicts on some rows."""
        copy = CachedFilter(self.plugin, len(self.codes), None)
        codes = self.codes[:0] if verdicts is None else verdicts.codes
        copy.codes = self.codes.astype(np.result_type(self.codes, codes))
        copy.codes[rows] = 0 if verdicts is None else codes
        copy.status_of = self.status_of if verdicts is None else verdicts.status_of
        return copy

    def is_sound(self) -> bool:
        """Whether it certainly has no error for any node. It is found out once, for codes that do not change; of those
        that do, none of our own plugins' is an error."""
        if self._is_sound is None:
            if self.plugin.reads is Reads.PODS:
                self._is_sound = is_built_in(type(self.plugin.plugin))
            elif self.status_of is None:
                self._is_sound = False
            else:
                self._is_sound = not has_errors(Verdicts(self.codes, self.status_of))
        return self._is_sound


class CachedScore:
    """One Score plugin's raw scores for every row, or the one number they all are."""

    __slots__ = ("fixed", "is_built_in", "plugin", "raw")

    def __init__(self, plugin: ScorePlugin, raw: Ints | int) -> None:
        self.plugin = plugin
        self.raw = raw
        self.is_built_in = is_built_in(type(plugin.plugin))
        """Whether its scores are certainly in range."""
        self.fixed: PluginScores | None = None
        """The one number, also normalised and weighted; None until it is known, and if there is more than one."""

    def fitting(self, scores: Ints) -> Ints:
        """New scores of some rows, after seeing to it that the column can hold them: fractions may follow whole
        numbers."""
        raw = self.raw
        if not isinstance(raw, int) and raw.dtype != scores.dtype:
            self.raw = raw.astype(np.result_type(raw, scores))
        return scores

    def changed_at(self, rows: Ints, raw: Ints | int, size: int) -> CachedScore:
        """A copy with new scores of some rows."""
        if isinstance(self.raw, int) and isinstance(raw, int) and raw == self.raw:
            return self
        copy = CachedScore(self.plugin, np.array(np.broadcast_to(self.raw, size)))
        copy.raw[rows] = raw  # type: ignore[index]  # an array
        return copy


def has_errors(verdicts: Verdicts) -> bool:
    """Whether a plugin failed for some node."""
    return any(code and not verdicts.status_of(code).is_rejected for code in _distinct(verdicts.codes))


def _distinct(codes: Codes) -> Iterable[int]:
    """The different codes. Usually there are few, close to each other: then comparing is faster than sorting."""
    lowest, highest = int(codes.min(initial=0)), int(codes.max(initial=0))
    if highest - lowest > MOST_COMPARED:
        return map(int, np.unique(codes))
    return (code for code in range(lowest, highest + 1) if (codes == code).any())
