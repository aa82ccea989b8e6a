"""PreEnqueue: whether a pod may be tried at all yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubesched.api import objects as api
from kubesched.base.log import ERROR, Log
from kubesched.framework.errors import PluginError
from kubesched.framework.status import Code, Status
from kubesched.queue.hooks import QueueMetrics
from kubesched.queue.pods import QueuedPodInfo

PreEnqueue = Callable[[api.Pod], Status | None]
"""Runs a profile's PreEnqueue plugins; returns None, or the status of the first plugin that rejects the pod."""

UNKNOWN = "PreEnqueue"
"""The plugin name used for a rejection that names no plugin."""


class Gates:
    """Runs PreEnqueue and records on the pod which plugin gates it."""

    def __init__(self, pre_enqueue: Mapping[str, PreEnqueue], metrics: QueueMetrics, log: Log) -> None:
        self._pre_enqueue = pre_enqueue
        self._metrics = metrics
        self._log = log

    def let_through(self, queued: QueuedPodInfo) -> bool:
        """Whether the plugins of its profile let a pod through."""
        pod = queued.info.pod
        ask = self._pre_enqueue.get(pod.scheduler_name)
        status = None if ask is None else self._ask(ask, pod)
        if status is None or status.is_success:
            queued.gating_plugin = ""
            return True
        self._note(queued, status)
        return False

    def _ask(self, ask: PreEnqueue, pod: api.Pod) -> Status | None:
        try:
            return ask(pod)
        except PluginError as problem:
            return Status(Code.ERROR, str(problem), plugin=problem.plugin)
        except Exception as problem:
            return Status(Code.ERROR, f"{type(problem).__name__}: {problem}")

    def _note(self, queued: QueuedPodInfo, status: Status) -> None:
        plugin = status.plugin or UNKNOWN
        if plugin not in queued.rejectors:
            self._metrics.unschedulable(plugin, queued.profile, 1)
        queued.unschedulable_plugins.add(plugin)
        queued.gating_plugin = plugin
        # The flush did not lead to an attempt, so a later attempt must not be attributed to it.
        queued.was_flushed = False
        if status.code is Code.ERROR:
            message = "Unexpected error running PreEnqueue plugin"
            self._log(ERROR, message, pod=queued.pod, plugin=plugin, err=status.message)
        else:
            self._log(4, "Status after running PreEnqueue plugin", pod=queued.pod, plugin=plugin, status=status)
