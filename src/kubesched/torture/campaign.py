"""Many stories: which failed, what they had in common, and which faults met which code."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

from kubesched.torture.network import Met
from kubesched.torture.reduction import reduce
from kubesched.torture.run import StoryOutcome, run_story

ENOUGH = 1000
"""Stories after which every kind of fault must have happened. Of five hundred, one run in ten lacks the rarest."""
REDUCING_SECONDS = 120.0
EVERY = 25
EXPECTED = frozenset(
    (
        "API server away",
        "API server restarted",
        "clock drifts",
        "clock jumps",
        "extender is slow",
        "extender raises",
        "extender refuses",
        "failed after: 500",
        "failed after: 503",
        "failed after: 504",
        "failed after: ConnectionResetError",
        "failed after: LostError",
        "failed after: TimeoutError",
        "failed before: 409",
        "failed before: 410",
        "failed before: 429",
        "failed before: 500",
        "failed before: 503",
        "failed before: 504",
        "failed before: ConnectionResetError",
        "failed before: LostError",
        "failed before: TimeoutError",
        "bookmark",
        "edited by others: bind the pod elsewhere",
        "edited by others: delete the node",
        "edited by others: delete the pod",
        "edited by others: recreate",
        "edited by others: relabel the pod",
        "edited by others: taint the node",
        "frozen",
        "frozen past the lease",
        "history forgotten",
        "killed",
        "kinds reordered",
        "late",
        "lease lost",
        "node back",
        "node changed",
        "node deleted",
        "old list",
        "plugin is slow",
        "plugin lies",
        "plugin raises",
        "plugin refuses",
        "pod recreated",
        "sent twice",
        "stale watch",
        "store rolled back",
        "watch cut: 410",
        "watch cut: 429",
        "watch cut: 500",
        "watch cut: ConnectionResetError",
        "watch cut: its end",
        "watch that shows nothing",
        "write after the lease was lost",
    )
)
"""Kinds of faults that must happen in a campaign; one that never does is not tested."""


def replay_command(outcome: StoryOutcome) -> str:
    """The command that runs these steps of a story again."""
    steps = ",".join(str(step.number) for step in outcome.steps[: outcome.reached])
    return f"kubesched torture --seed {outcome.seed} --steps {steps}"


class Campaign:
    """Runs stories one after the other."""

    def __init__(self, progress: Callable[[str], None] | None = None, reducing: float = REDUCING_SECONDS) -> None:
        self.met = Met()
        self.failed: list[StoryOutcome] = []
        self.stories = 0
        self._progress = progress
        self._reducing = reducing
        self._totals: Counter[str] = Counter()

    def run(self, seed: int) -> StoryOutcome | None:
        """Run a story. If it fails, return it reduced."""
        outcome = run_story(seed, met=self.met)
        self.stories += 1
        gc.collect()  # what is left of the story; everything that is imported by now stays for good
        if self.stories == 1:
            gc.freeze()
        self._totals.update(
            bound=outcome.bound, decisions=outcome.decisions, steps=len(outcome.steps), seconds=int(outcome.seconds)
        )
        if self._progress is not None and self.stories % EVERY == 0:
            self._progress(f"{self.stories} stories, {len(self.failed)} failed")
        if outcome.violation is None:
            return None
        reduced = reduce(outcome, self._reducing)
        self.failed.append(reduced)
        return reduced

    def never_happened(self) -> list[str]:
        """Kinds of faults that a campaign of this size must have seen and has not."""
        return sorted(EXPECTED - self.met.faults) if self.stories >= ENOUGH else []

    def summary(self, seconds: float) -> str:
        """What was done, in a few lines."""
        totals = self._totals
        lines = [
            f"{self.stories} stories in {seconds:.0f}s: {totals['steps']} steps, {totals['seconds'] / 3600:.1f} virtual"
            f" hours, {totals['decisions']} decisions, {totals['bound']} pods bound, {len(self.failed)} failed",
            f"{sum(self.met.counts.values())} faults of {len(self.met.faults)} kinds met"
            f" {len({where for _, where in self.met.counts})} places",
        ]
        if missing := self.never_happened():
            lines.append(f"FAILED: never happened: {', '.join(missing)}")
        return "\n".join(lines)

    def coverage(self) -> str:
        """Which fault met which code, and how often."""
        rows = sorted(self.met.counts.items())
        return "\n".join(f"{count:7}  {fault}: {where}" for (fault, where), count in rows)
