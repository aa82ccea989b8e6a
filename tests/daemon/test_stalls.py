"""Stalls of the event loop in the metrics."""

from __future__ import annotations

import asyncio
import time

from kubesched.daemon.stalls import WINDOW, StallWatch
from kubesched.scheduler.metrics import Metrics

LONGEST = "kubesched_event_loop_longest_stall_seconds"
COUNT = "kubesched_event_loop_stall_seconds_count"


async def test_a_blocked_loop_shows() -> None:
    """Code that blocks the event loop is measured to within the period of the timer."""
    metrics = Metrics()
    watch = StallWatch(metrics)
    watch.start()
    await asyncio.sleep(0)
    time.sleep(0.2)
    await asyncio.sleep(0.03)
    watch.stop()
    assert (metrics.registry.get_sample_value(LONGEST) or 0) > 0.15
    assert (metrics.registry.get_sample_value(COUNT) or 0) >= 1


async def test_the_longest_is_forgotten_after_two_windows() -> None:
    """The gauge shows the longest stall of this window and of the one before."""
    metrics = Metrics()
    watch = StallWatch(metrics)
    now, shown = time.monotonic(), []
    for stall, passed in ((0.5, 0.0), (0.3, 0.0), (0.1, WINDOW + 1), (0.0, WINDOW + 1), (0.001, WINDOW + 1)):
        now += passed
        watch.observe(stall, now)
        shown.append(metrics.registry.get_sample_value(LONGEST))
    assert shown == [0.5, 0.5, 0.5, 0.1, 0.0]
    assert metrics.registry.get_sample_value(COUNT) == 3
