"""The short form of `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.soak.figures import GROWTH_MB, Sample, growth
from tests.e2e.soak.soak import Soak

SECONDS = 8.0
SEED = 2033
"""Begins with: a scheduler is killed, the extender is cut off, etcd is compacted, the API server is killed."""


def test_a_short_soak(folder: Path) -> None:
    """Real parts are killed, frozen and cut for a while; afterwards every pod has one node, as the audit log proves."""
    figures = Soak(folder, SEED).run(SECONDS)
    assert figures.proof.problems == [], figures.report()
    assert figures.bound
    assert figures.faults


def test_growing_memory_is_noticed() -> None:
    """A run whose memory grows in its last two thirds fails; one that fills its caches first does not."""
    filling = [Sample(second, min(80.0 + second, 100.0), 20) for second in range(90)]
    assert growth(filling) == []
    leaking = [Sample(second, 100.0 + 4 * GROWTH_MB * second / 90, 20 + second) for second in range(90)]
    assert [found.split()[0] for found in growth(leaking)] == ["memory", "30"]
    assert growth([]) == ["memory was not measured"]
