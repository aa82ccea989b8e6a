"""Queueing hints: whether an event is a reason to retry a waiting pod."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import ERROR, Log
from kubesched.cluster.pods import PodClass, SharedSpec
from kubesched.framework.events import EventHint, Hint, HintFunction, TargetsFunction
from kubesched.queue.hooks import QueueMetrics
from kubesched.queue.inflight import ObservedEvent
from kubesched.queue.pods import QueuedPodInfo
from kubesched.queue.registrations import EventMap
from kubesched.queue.unschedulable import File

EXPLAINS = 5
"""The verbosity from which on hints log what they say."""


class Strategy(IntEnum):
    """What to do with a pod after an event, numbered as upstream's logs have it."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class HintRunner:
    """Calls the hint functions of the plugins that rejected a pod."""

    def __init__(self, events: EventMap, clock: Clock, metrics: QueueMetrics, log: Log) -> None:
        self.events = events
        self._clock = clock
        self._metrics = metrics
        self.log = log

    @property
    def explains(self) -> bool:
        """Whether hints log what they say."""
        return self.log.verbosity >= EXPLAINS

    def strategy(self, queued: QueuedPodInfo, *events: ObservedEvent, in_flight: bool = False) -> Strategy:
        """What a series of events means for a pod: the best of what each does."""
        found = Strategy.SKIP
        for observed in events:
            if in_flight and self.explains:
                self.log(EXPLAINS, "Checking event for in-flight pod", pod=queued.pod, event=observed.event.label)
            found = max(found, EventEvaluation(self, observed).strategy(queued))
            if found is Strategy.IMMEDIATELY or (found and not queued.pending_plugins):
                break
        return found

    def ask(self, plugin: str, hint: HintFunction, pod: api.Pod, observed: ObservedEvent) -> bool:
        """Whether a hint function says that an event helps a pod."""
        started = self._clock.monotonic()
        answer = Hint.QUEUE
        outcome = ""
        try:
            answer = hint(pod, observed.old, observed.new)
            if not isinstance(answer, Hint):
                said, answer = repr(answer), Hint.QUEUE
                raise TypeError(f"a hint answered with {said}; return Hint.QUEUE or Hint.SKIP")
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            # A needless attempt is cheap, but a pod that missed its event may wait forever.
            outcome = "Error"
            message = "QueueingHintFn returns error"
            self.log(ERROR, message, err=problem, event=observed.event.label, plugin=plugin, pod=pod)
        seconds = self._clock.monotonic() - started
        self._metrics.hint(plugin, observed.event.label, outcome or answer.value, seconds)
        return answer is Hint.QUEUE

    def targets(self, plugin: str, only: TargetsFunction, observed: ObservedEvent) -> Collection[str] | None:
        """The pods that a plugin says are the only ones an event can help; None if it says nothing or fails."""
        try:
            answer = only(observed.old, observed.new)
            if answer is not None and (isinstance(answer, str) or not isinstance(answer, Collection)):
                raise TypeError(f"`only` answered with {answer!r}; return UIDs, or None for any pod")
            return answer if answer is None else frozenset(answer)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            message = "A plugin failed to name the pods that an event can help; all of its pods are checked"
            self.log(ERROR, message, err=problem, event=observed.event.label, plugin=plugin)
            return None


class EventEvaluation:
    """What one event means for any number of pods. Hints by class or by spec are called once for each of those."""

    def __init__(self, runner: HintRunner, observed: ObservedEvent) -> None:
        self._runner = runner
        self.observed = observed
        self._wildcard = observed.event.is_wildcard
        self._answers: dict[tuple[int, PodClass | SharedSpec], bool] = {}
        self._for_each = runner.explains
        """Whether to call hints for every pod: each logs why."""

    def strategy(self, queued: QueuedPodInfo) -> Strategy:
        """What the event means for a pod. If a plugin was only waiting for it, the pod skips its backoff."""
        unschedulable, pending = queued.unschedulable_plugins, queued.pending_plugins
        if not unschedulable and not pending:
            self._runner.log(6, "Worth requeuing because no failed plugins", pod=queued.pod)
            return Strategy.AFTER_BACKOFF
        if self._wildcard:
            return self._of_wildcard(queued.pod)
        found = Strategy.SKIP
        for plugin, hints in self._runner.events.hints(queued.profile, self.observed.event).items():
            if plugin not in pending and (plugin not in unschedulable or found):
                continue
            if any(self._helps(plugin, hint, queued.pod, queued.info.pod_class) for hint in hints):
                if plugin in pending:
                    return Strategy.IMMEDIATELY
                found = Strategy.AFTER_BACKOFF
                if not pending:
                    break
        return found

    def could_help_spec(self, file: File, sample: api.Pod, pod_class: PodClass) -> bool:
        """Whether the event may help pods with a spec, according to one plugin. False is certain, True is not."""
        profile, plugin, _ = file
        hints = self._runner.events.hints(profile, self.observed.event)[plugin]
        if self._for_each:
            return True
        return any(not hint.by_spec or self._helps(plugin, hint, sample, pod_class) for hint in hints)

    def could_help(self, file: File, sample: api.Pod, pod_class: PodClass) -> bool:
        """Whether the event may help pods of a class, according to one plugin. False is certain, True is not."""
        profile, plugin, _ = file
        hints = self._runner.events.hints(profile, self.observed.event)[plugin]
        if self._for_each:
            return True
        return any(not hint.by_class or self._helps(plugin, hint, sample, pod_class) for hint in hints)

    def only(self, file: File) -> Collection[str] | None:
        """UIDs of the only pods that the event can help, according to one plugin; None if it can help any."""
        if self._for_each:
            return None
        profile, plugin, _ = file
        found: set[str] = set()
        for hint in self._runner.events.hints(profile, self.observed.event)[plugin]:
            targets = None if hint.only is None else self._runner.targets(plugin, hint.only, self.observed)
            if targets is None:
                return None
            found.update(targets)
        return found

    def _helps(self, plugin: str, registered: EventHint, pod: api.Pod, pod_class: PodClass) -> bool:
        hint = registered.hint
        if hint is None:
            return True
        if not registered.by_class or self._for_each:
            return self._runner.ask(plugin, hint, pod, self.observed)
        key = (id(registered), pod_class.shared_spec if registered.by_spec else pod_class)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._runner.ask(plugin, hint, pod, self.observed)
        return answer

    def _of_wildcard(self, pod: api.Pod) -> Strategy:
        """An event that stands for anything helps everyone, unless it names the pod it is meant for."""
        target, label, log = self.observed.new, self.observed.event.label, self._runner.log
        if target is None or target.uid == pod.uid:
            log(6, "Worth requeuing because the event is wildcard", pod=pod, event=label)
            return Strategy.AFTER_BACKOFF
        message = "Not worth requeuing because the event is wildcard, but for another pod"
        log(6, message, pod=pod, event=label, newObj=target)
        return Strategy.SKIP
