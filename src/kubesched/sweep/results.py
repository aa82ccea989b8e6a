"""The results of a sweep in an SQLite file, so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from kubesched.sweep.jobs import METRICS, Job, RunOutcome

TABLE = """CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY, scenario TEXT NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL,
    error TEXT NOT NULL, seconds REAL NOT NULL, metrics TEXT NOT NULL)"""
INSERT = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)"


class ResultsFileError(Exception):
    """A file that is no file of results."""


class Run(NamedTuple):
    """A job with its outcome."""

    job: Job
    outcome: RunOutcome


class SweepResults:
    """Runs by key. Each is on disk as soon as it is known."""

    def __init__(self, path: Path | None) -> None:
        """Without a path, results live only in memory."""
        try:
            self._database = sqlite3.connect(":memory:" if path is None else path)
        except sqlite3.Error as error:
            raise ResultsFileError(f"{path}: {error}; give another --results") from None
        try:
            self._database.execute(TABLE)
            self._database.execute("SELECT key, scenario, config, seed, error, seconds, metrics FROM runs LIMIT 1")
        except sqlite3.Error as error:
            self._database.close()
            raise ResultsFileError(f"{path}: {error}; give another --results") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._database.close()

    def add(self, job: Job, outcome: RunOutcome) -> None:
        """Store the outcome of a run."""
        metrics = msgspec.json.encode(outcome.metrics).decode()
        values = (job.key, job.scenario, job.label, job.seed, outcome.error, outcome.seconds, metrics)
        with self._database:
            self._database.execute(INSERT, values)

    def find(self, job: Job) -> RunOutcome | None:
        """The outcome of a run that is known. One that failed is tried again, and so is one that lacks a metric."""
        query = "SELECT metrics, error, seconds FROM runs WHERE key = ? AND error = ''"
        row = self._database.execute(query, (job.key,)).fetchone()
        if row is None:
            return None
        metrics = msgspec.json.decode(row[0])
        return RunOutcome(metrics, row[1], row[2]) if METRICS.keys() <= metrics.keys() else None

    def known(self, jobs: Iterable[Job]) -> Iterator[Run]:
        """Those of these runs that need not be repeated."""
        return (Run(job, outcome) for job in jobs if (outcome := self.find(job)) is not None)
