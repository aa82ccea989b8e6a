"""The QueueSort plugin's order, as keys that a heap can compare."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from kubesched.base.log import ERROR, SILENT, Log
from kubesched.framework.plugin import is_built_in
from kubesched.queue.pods import QueuedPodInfo

OrderKey = tuple[Any, float]
"""A plugin's key, of a kind only it knows, and the time that breaks ties."""
Order = Callable[[QueuedPodInfo], OrderKey]
Report = Callable[[BaseException, QueuedPodInfo], None]


def queue_order(plugin: Any, log: Log = SILENT) -> Order:
    """The order of a QueueSort plugin, made from `sort_key(pod)` or else from `less(a, b)` of queued pods.

    Pods that the plugin sees as equal are ordered by the time they entered the queue, as are pods for which it raises.
    """
    name = getattr(plugin, "name", type(plugin).__name__)

    def report(problem: BaseException, queued: QueuedPodInfo) -> None:
        log(ERROR, "QueueSort plugin failed", plugin=name, pod=queued.pod, err=problem)

    if hasattr(plugin, "sort_key"):
        return _by_key(plugin.sort_key, report, guard=not is_built_in(type(plugin)))
    return _by_less(plugin.less, report)


def _by_key(sort_key: Callable[[Any], Any], report: Report, *, guard: bool) -> Order:
    def key(queued: QueuedPodInfo) -> OrderKey:
        try:
            found = sort_key(queued.info.pod)
            return _Key(found, queued, report) if guard else found, queued.timestamp
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            report(problem, queued)
            return LAST, queued.timestamp

    return key


def _by_less(less: Callable[[QueuedPodInfo, QueuedPodInfo], bool], report: Report) -> Order:
    def is_less(a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        try:
            return bool(less(a, b))
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            report(problem, a)
            return False

    # The heap may still hold an old key of a pod, so a key must not change with the pod: hence the copy.
    return lambda queued: (_Less(copy(queued), is_less), queued.timestamp)


class _Key:
    """A key that may not be comparable with that of another pod."""

    __slots__ = ("queued", "report", "value")

    def __init__(self, value: Any, queued: QueuedPodInfo, report: Report) -> None:
        self.value = value
        self.queued = queued
        self.report = report

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return NotImplemented
        try:
            return bool(self.value < other.value)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            self.report(problem, self.queued)
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return False
        try:
            return bool(self.value == other.value)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            self.report(problem, self.queued)
            return True

    __hash__ = None  # type: ignore[assignment]  # a plugin's value need not have one


class _Less:
    """A queued pod that compares as its plugin says."""

    __slots__ = ("is_less", "queued")

    def __init__(self, queued: QueuedPodInfo, is_less: Callable[[QueuedPodInfo, QueuedPodInfo], bool]) -> None:
        self.queued = queued
        self.is_less = is_less

    def __lt__(self, other: _Less) -> bool:
        return self.is_less(self.queued, other.queued)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Less) and not (self < other or other < self)

    __hash__ = None  # type: ignore[assignment]  # pods that a plugin calls equal need not have equal hashes


class _Last:
    """Comes after every other key, of whatever kind."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return other is not self


LAST = _Last()
