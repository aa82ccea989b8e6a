"""Plugins that never return: other pods go on, the plugin is named with its stack, SIGTERM works."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import node, pod
from tests.client.server import serving
from tests.daemon.test_run import Cluster, daemon, node_of

PLUGIN = """
import time
import kubesched

class Hangs(kubesched.Plugin):
    name = "Hangs"

    def filter(self, state, pod, node):
        if pod.name == "loops":
            self.loop()
        if pod.name == "sleeps":
            time.sleep(600)

    def loop(self):
        while True:
            try:
                sum(range(1000))
            except Exception:
                pass
"""


@pytest.mark.parametrize("kind", ["loops", "sleeps"])
async def test_a_plugin_that_hangs_is_interrupted(tmp_path: Path, kind: str) -> None:
    """The attempt fails and names the plugin, its stack is logged, readyz says so, and the next pod is bound."""
    (tmp_path / "hangs.py").write_text(PLUGIN)
    flags = ("--plugin=hangs.py:Hangs", "--enable=Hangs", "--leader-elect=false", "--plugin-time-limit=500ms")
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        cluster.backend.create(pod(kind))
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            await scheduler.until(lambda: "did not return for" in scheduler.log)
            assert "A plugin hangs and is interrupted" in scheduler.log
            assert 'plugin="Hangs"' in scheduler.log
            assert ("sum(range(1000))" if kind == "loops" else "time.sleep(600)") in scheduler.log
            status, text = await scheduler.ask("GET", "/readyz")
            assert (status, "[-]plugins failed: reason withheld" in text) == (500, True)
            assert await scheduler.ask("GET", "/readyz/plugins") == (
                500,
                "internal server error: plugin Hangs did not return for 0.5s and was interrupted\n",
            )
            assert await scheduler.ask("GET", "/healthz") == (200, "ok")
            cluster.backend.create(pod("other"))
            await scheduler.until(lambda: node_of(cluster, "other") == "n1")
            assert await scheduler.end() == 0


async def test_sigterm_reaches_a_scheduler_whose_plugin_hangs(tmp_path: Path) -> None:
    """SIGTERM does not wait for the time limit of a plugin that hangs."""
    (tmp_path / "hangs.py").write_text(PLUGIN.replace("def loop(self):", "def loop(self):\n        open('begun', 'w')"))
    flags = ("--plugin=hangs.py:Hangs", "--enable=Hangs", "--leader-elect=false", "--plugin-time-limit=10m")
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        cluster.backend.create(pod("loops"))
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            await scheduler.until((tmp_path / "begun").exists)
            assert await scheduler.end() == 0


async def test_a_new_file_that_never_finishes_being_imported(tmp_path: Path) -> None:
    """A file that appears in a plugin folder and loops is interrupted and named; scheduling and SIGTERM go on."""
    (tmp_path / "plugins").mkdir()
    flags = (f"--plugin-dir={tmp_path / 'plugins'}", "--leader-elect=false", "--plugin-time-limit=500ms")
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            await scheduler.until(lambda: "Serving securely" in scheduler.log)
            (tmp_path / "plugins/loops.py").write_text("while True:\n    pass\n")
            await scheduler.until(lambda: "keeping the old ones" in scheduler.log)
            assert "A plugin hangs and is interrupted" in scheduler.log
            assert "loops.py did not return" in scheduler.log
            cluster.backend.create(pod("other"))
            await scheduler.until(lambda: node_of(cluster, "other") == "n1")
            assert await scheduler.end() == 0
