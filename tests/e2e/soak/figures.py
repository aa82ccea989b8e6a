"""The figures of a run, and whether memory kept growing."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.e2e.soak.proof import Proof

LONG_SECONDS = 600.0
"""Shorter runs show neither every kind of fault nor whether memory grows."""
GROWTH_MB = 6.0
GROWTH_FILES = 8


class Sample(NamedTuple):
    """What a process takes at a moment."""

    second: float
    megabytes: float
    files: int


def sample(pid: int, second: float) -> Sample | None:
    """A look at a process; None if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return Sample(second, pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), len(os.listdir(f"/proc/{pid}/fd")))
    except (OSError, ValueError, IndexError):
        return None


def growth(samples: list[Sample]) -> list[str]:
    """What grew from the second third of a run to its last third. The first third fills caches."""
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    if not before:
        return ["memory was not measured"]
    megabytes = median(each.megabytes for each in after) - median(each.megabytes for each in before)
    files = median(each.files for each in after) - median(each.files for each in before)
    found = [f"memory grew by {megabytes:.1f} MB from the second third to the last"] if megabytes > GROWTH_MB else []
    return found + ([f"{files:.0f} more files are open"] if files > GROWTH_FILES else [])


@dataclass(slots=True)
class Figures:
    """What happened in a run."""

    seconds: float = 0.0
    created: int = 0
    deleted: int = 0
    scaled: int = 0
    preempted: int = 0
    bound: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    highest_megabytes: float = 0.0
    """Of the schedulers that are killed."""
    steady: list[Sample] = field(default_factory=list)
    """Of the scheduler that is never killed."""
    settled: float = 0.0
    """Seconds from the last fault until every pod had a node."""
    proof: Proof = field(default_factory=Proof)

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.faults.items() if name.startswith("kill -9"))

    def report(self) -> str:
        """The figures in a few lines."""
        proof = self.proof
        lines = [
            f"{self.seconds:.0f} s: {self.created} pods created, {self.deleted} deleted, {self.preempted} preempted,"
            f" {self.scaled} scalings, {self.bound} bound at the end, {self.settled:.1f} s after the last fault",
            f"{self.kills} kill -9, {sum(self.faults.values())} faults: "
            + ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items())),
            f"audit log: {proof.bindings} bindings, {proof.refused_bindings} refused, {proof.unanswered} unanswered,"
            f" {sum(proof.requests.values())} requests of schedulers, {proof.intrusions} of intruders",
            f"memory: schedulers that are killed at most {self.highest_megabytes:.0f} MB; the one that is not,"
            f" in tenths of the run: {', '.join(f'{each:.1f}' for each in self.tenths())} MB",
            *(f"WRONG: {problem}" for problem in proof.problems),
        ]
        return "\n".join(lines)

    def tenths(self) -> list[float]:
        """The median memory of the scheduler that is never killed, in each tenth of the run."""
        count = len(self.steady)
        parts = [self.steady[count * part // 10 : count * (part + 1) // 10] for part in range(10)]
        return [median(each.megabytes for each in part) for part in parts if part]
