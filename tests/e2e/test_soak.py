"""The short form of `make soak`."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.soak.soak import Soak

SECONDS = 10.0


def test_a_short_soak(folder: Path) -> None:
    """Real parts are killed, frozen and cut for a while; afterwards every pod has one node, as the audit log proves."""
    figures = Soak(folder, int(time.time())).run(SECONDS)
    assert figures.proof.problems == [], figures.report()
    assert figures.bound
    assert figures.faults
