"""Whether something that happened is a reason to try a waiting pod again."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from kubesched.api import objects as api
from kubesched.framework.events import ClusterEvent, Hint, HintFunction
from kubesched.queue.hooks import ERROR, Clock, Log, QueueMetrics
from kubesched.queue.inflight import Happened
from kubesched.queue.pods import QueuedPodInfo
from kubesched.queue.registrations import EventMap


class Strategy(IntEnum):
    """What to do with a pod after an event, numbered as upstream's logs have it."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class HintRunner:
    """Asks the hint functions of the plugins that rejected a pod."""

    def __init__(self, events: EventMap, clock: Clock, metrics: QueueMetrics, log: Log) -> None:
        self._events = events
        self._clock = clock
        self._metrics = metrics
        self._log = log

    def strategy(self, queued: QueuedPodInfo, happened: Happened) -> Strategy:
        """What an event means for a pod. A plugin that was only waiting has the pod tried without backoff."""
        unschedulable, pending = queued.unschedulable_plugins, queued.pending_plugins
        if not unschedulable and not pending:
            return Strategy.AFTER_BACKOFF
        if happened.event.is_wildcard:
            return _of_wildcard(queued, happened.new)
        found = Strategy.SKIP
        for plugin, hints in self._events.hints(queued.profile, happened.event).items():
            if plugin not in pending and (plugin not in unschedulable or found):
                continue
            if any(self._says_queue(plugin, hint, queued.pod, happened) for hint in hints):
                if plugin in pending:
                    return Strategy.IMMEDIATELY
                found = Strategy.AFTER_BACKOFF
                if not pending:
                    break
        return found

    def strategy_of_all(self, queued: QueuedPodInfo, events: Iterable[Happened]) -> Strategy:
        """What a series of events means for a pod: the best of what each does."""
        found = Strategy.SKIP
        for happened in events:
            found = max(found, self.strategy(queued, happened))
            if found is Strategy.IMMEDIATELY or (found and not queued.pending_plugins):
                break
        return found

    def _says_queue(self, plugin: str, hint: HintFunction | None, pod: api.Pod, happened: Happened) -> bool:
        started = self._clock.monotonic()
        answer = Hint.QUEUE
        outcome = ""
        if hint is not None:
            try:
                answer = hint(pod, happened.old, happened.new)
            except Exception as problem:
                # A pod tried in vain costs a moment; one that waits for an event that has passed may wait for good.
                outcome = "Error"
                self._complain(problem, plugin, pod, happened.event)
        seconds = self._clock.monotonic() - started
        self._metrics.hint(plugin, happened.event.label, outcome or answer.value, seconds)
        return answer is Hint.QUEUE

    def _complain(self, problem: Exception, plugin: str, pod: api.Pod, event: ClusterEvent) -> None:
        self._log(ERROR, "QueueingHintFn returns error", err=problem, event=event.label, plugin=plugin, pod=pod)


def _of_wildcard(queued: QueuedPodInfo, target: api.Object | None) -> Strategy:
    """An event that stands for anything helps everyone, unless it names the pod it is meant for."""
    meant = target is None or target.uid == queued.uid
    return Strategy.AFTER_BACKOFF if meant else Strategy.SKIP
