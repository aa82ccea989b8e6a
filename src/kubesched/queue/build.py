"""Builds the queue that all profiles share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubesched.base.clock import Clock
from kubesched.base.log import SILENT, Log
from kubesched.cluster.state import ClusterState
from kubesched.framework.runtime import Framework
from kubesched.queue.hooks import QueueMetrics
from kubesched.queue.ordering import queue_order
from kubesched.queue.registrations import event_map
from kubesched.queue.scheduling_queue import SchedulingQueue


def build_queue(
    frameworks: Mapping[str, Framework],
    cluster: ClusterState,
    clock: Clock,
    *,
    extenders: bool = False,
    initial_backoff: float = 1.0,
    max_backoff: float = 10.0,
    max_in_unschedulable: float = 300.0,
    metrics: QueueMetrics | None = None,
    log: Log = SILENT,
    on_ready: Callable[[], None] = lambda: None,
) -> SchedulingQueue:
    """A queue for these profiles. All have the same QueueSort plugin, so the first profile's is used."""
    (sort,) = next(iter(frameworks.values())).points["queueSort"]
    return SchedulingQueue(
        cluster,
        clock,
        queue_order(sort, log),
        event_map(frameworks.values(), extenders=extenders),
        {name: framework.run_pre_enqueue for name, framework in frameworks.items()},
        initial_backoff=initial_backoff,
        max_backoff=max_backoff,
        max_in_unschedulable=max_in_unschedulable,
        metrics=metrics,
        log=log,
        on_ready=on_ready,
    )
