"""Runs jobs side by side, keeps what they bring, and says how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from itertools import islice

from kubesched.base.intervals import MeanInterval, mean_interval
from kubesched.sweep.jobs import METRICS, Job, RunOutcome, run_job
from kubesched.sweep.results import Run, SweepResults

AT_ONCE = 512
"""How many jobs an executor has at a time, so that a million of them need no memory."""


class Progress:
    """How far a sweep is."""

    def __init__(self, total: int, known: int) -> None:
        self.total = total
        self.known = known
        """Runs that were there already."""
        self.done = 0
        self.failed = 0
        self._began = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the runs so far; None before the first."""
        rest = self.total - self.known - self.done
        return (time.monotonic() - self._began) / self.done * rest if self.done else None


Shown = Callable[[Progress], None]


def run_jobs(
    jobs: Sequence[Job], results: SweepResults, executor: Executor, shown: Shown = lambda _: None
) -> list[Run]:
    """All runs, in the order of the jobs. Known ones are not repeated; new ones are stored at once."""
    outcomes = {run.job.key: run.outcome for run in results.known(jobs)}
    missing = [job for job in jobs if job.key not in outcomes]
    progress = Progress(len(jobs), len(jobs) - len(missing))
    shown(progress)
    for job, outcome in _completed(missing, executor):
        results.add(job, outcome)
        outcomes[job.key] = outcome
        progress.done += 1
        progress.failed += bool(outcome.error)
        shown(progress)
    return [Run(job, outcomes[job.key]) for job in jobs]


def _completed(jobs: Sequence[Job], executor: Executor) -> Iterator[Run]:
    """The runs as they end."""
    waiting = iter(jobs)
    running: dict[Future[RunOutcome], Job] = {}
    try:
        while True:
            for job in islice(waiting, AT_ONCE - len(running)):
                running[executor.submit(run_job, job)] = job
            if not running:
                return
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield Run(running.pop(future), future.result())
    finally:
        for future in running:
            with suppress(Exception):
                future.cancel()


def summary(runs: Sequence[Run]) -> dict[tuple[str, str], dict[str, MeanInterval]]:
    """By scenario and configuration, the mean of each metric over the seeds. Runs that failed do not count."""
    groups: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for job, outcome in runs:
        found = groups.setdefault((job.scenario, job.label), [])
        if not outcome.error:
            found.append(outcome.metrics)
    return {
        group: {name: mean_interval([each[name] for each in found]) for name in METRICS} if found else {}
        for group, found in groups.items()
    }
