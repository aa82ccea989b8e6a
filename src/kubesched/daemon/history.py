"""The decision history of a daemon: what its flags ask for, and nothing if they ask for nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator

from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.client.protocol import Client
from kubesched.daemon.flags.declarations import HistoryFlags
from kubesched.history.annotator import Annotator
from kubesched.history.recorder import HistoryRecorder, Sink
from kubesched.history.store import History, HistoryLimits
from kubesched.history.writer import Database, HistoryOutput, HistoryWriter, JsonLines
from kubesched.scheduler.subscribers.publisher import Subscriber


class DaemonHistory:
    """Opens what the flags name; `close` writes the rest of it."""

    def __init__(self, flags: HistoryFlags, client: Client, clock: Clock, log: Log) -> None:
        self.history: History | None = None
        if flags.decision_history:
            limits = HistoryLimits(flags.decision_history_per_pod, flags.decision_history, flags.decision_history_bytes)
            self.history = History(limits)
        outputs = list(_outputs(flags))
        self.writer = HistoryWriter(outputs, log) if outputs else None
        sinks: list[Sink] = [] if self.writer is None else [self.writer.put]
        self.annotator = Annotator(client, log) if flags.annotate_results else None
        if self.annotator is not None:
            sinks.append(self.annotator.put)
        self._recorder: HistoryRecorder | None = None
        if self.history is not None or sinks or flags.explain_in_events:
            self._recorder = HistoryRecorder(clock, self.history, sinks)
        self.explain = self._recorder.runner_up if self._recorder is not None and flags.explain_in_events else None

    async def close(self) -> None:
        """Write what is left."""
        if self.annotator is not None:
            await self.annotator.close()
        if self.writer is not None:
            await asyncio.to_thread(self.writer.close)

    @property
    def subscribers(self) -> list[Subscriber]:
        """What to give to the scheduler."""
        return [] if self._recorder is None else [self._recorder]


def _outputs(flags: HistoryFlags) -> Iterator[HistoryOutput]:
    """The files that the flags name. Raises ValueError if one cannot be opened."""
    if flags.decision_log:
        try:
            yield JsonLines(flags.decision_log, flags.decision_log_max_size, flags.decision_log_backups)
        except OSError as error:
            raise ValueError(f"--decision-log: {flags.decision_log} cannot be written: {error.strerror}") from None
    if flags.decision_db:
        try:
            yield Database(flags.decision_db, flags.decision_db_attempts)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"--decision-db: {flags.decision_db} cannot be used: {error}") from None
