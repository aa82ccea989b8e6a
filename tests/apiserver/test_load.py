"""Many clients at once: no event is lost or repeated, and no watcher falls behind."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.apiserver.load import POD_WATCHERS, WATCHERS, measure

NODES, PODS = 150, 450
CPU = 7.5
MEMORY = 600


@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "on disk"])
def test_many_writers_and_watchers(tmp_path: Path, durable: bool) -> None:
    """32 clients create while 20 watch: each watcher sees each object once, and what was answered is on the disk.

    The server may compute ten times as long as it needs; ``python -m tests.apiserver.load`` measures in earnest.
    """
    result = measure(tmp_path, NODES, PODS, durable=durable)
    assert result.seen == [PODS] * POD_WATCHERS + [NODES] * (WATCHERS - POD_WATCHERS)
    assert result.cpu < CPU
    assert result.peak < MEMORY
    if durable:
        with sqlite3.connect(tmp_path / "data" / "cluster.db") as database:
            count = "SELECT count(*) FROM objects WHERE resource = ?"
            kept = [database.execute(count, (kind,)).fetchone()[0] for kind in ("/nodes", "/pods")]
        database.close()
        assert kept == [NODES, PODS]
