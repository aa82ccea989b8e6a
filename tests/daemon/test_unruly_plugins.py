"""Plugins that exit, ask for too much memory, change what they were given, or start threads."""

from __future__ import annotations

from pathlib import Path

from tests.builders import node, pod
from tests.client.server import serving
from tests.daemon.test_run import Cluster, daemon, node_of

PLUGIN = """
import os
import signal
import sys
import threading
import time
import kubesched

def work():
    while True:
        time.sleep(0.01)

class Unruly(kubesched.Plugin):
    name = "Unruly"

    def filter(self, state, pod, node):
        getattr(self, pod.name, lambda pod: None)(pod)

    def exits(self, pod):
        sys.exit(3)

    def greedy(self, pod):
        bytearray(1 << 50)

    def renames(self, pod):
        pod.metadata.name = "another"

    def threads(self, pod):
        threading.Thread(target=work, name="worker").start()
        threading.Thread(target=lambda: 1 / 0, name="broken").start()
"""
FAILED = {
    "exits": "SystemExit: 3",
    "greedy": "MemoryError",
    "renames": "AttributeError: immutable type",
}


async def test_unruly_plugins_fail_their_own_attempts_only(tmp_path: Path) -> None:
    """Each attempt names the plugin and what it did; other pods are bound; SIGTERM ends the process, threads or not."""
    (tmp_path / "unruly.py").write_text(PLUGIN)
    flags = ("--plugin=unruly.py:Unruly", "--enable=Unruly", "--leader-elect=false")
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        for name in (*FAILED, "threads", "other"):
            cluster.backend.create(pod(name))
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            said = [f'running Filter plugin \\"Unruly\\": {words}' for words in FAILED.values()]
            await scheduler.until(lambda: all(each in scheduler.log for each in said))
            await scheduler.until(lambda: all(node_of(cluster, each) == "n1" for each in ("threads", "other")))
            assert not any(node_of(cluster, each) for each in FAILED)
            assert await scheduler.ask("GET", "/healthz") == (200, "ok")
            assert await scheduler.end() == 0
            assert "these threads still run, and end with the process: worker" in scheduler.log
