"""The decision history of a daemon: what its flags ask for, and nothing if they ask for nothing."""

from __future__ import annotations

from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.daemon.flags.declarations import HistoryFlags
from kubesched.history.recorder import HistoryRecorder, Sink
from kubesched.history.store import History, Limits
from kubesched.scheduler.subscribers.publisher import Subscriber


class DaemonHistory:
    """Opens what the flags name; `close` writes the rest of it."""

    def __init__(self, flags: HistoryFlags, clock: Clock, log: Log) -> None:
        self.history: History | None = None
        if flags.decision_history:
            limits = Limits(flags.decision_history_per_pod, flags.decision_history, flags.decision_history_bytes)
            self.history = History(limits)
        sinks: list[Sink] = []
        self._recorder: HistoryRecorder | None = None
        if self.history is not None or sinks:
            self._recorder = HistoryRecorder(clock, self.history, sinks)

    @property
    def subscribers(self) -> list[Subscriber]:
        """What to give to the scheduler."""
        return [] if self._recorder is None else [self._recorder]
