"""The profiler of the benchmark."""

from __future__ import annotations

import time

from kubesched.bench.sampler import OTHER, PARTS, PartSampler
from kubesched.queue.heap import PodHeap


def test_samples_go_to_the_innermost_part() -> None:
    """CPU time in a module of the queue counts as the queue's, everything else as the event loop's."""
    sampler = PartSampler()
    heap = PodHeap(lambda queued: 0)
    with sampler.running():
        until = time.process_time() + 0.2
        while time.process_time() < until:
            for _ in range(1000):
                heap.get("nothing")
    seconds = sampler.seconds()
    assert "queue" in seconds
    assert set(seconds) <= {"queue", OTHER} <= set(PARTS)
    assert 0.02 < sum(seconds.values()) < 0.4
