"""A daemon that restarts when a plugin's file changes."""

from __future__ import annotations

from pathlib import Path

from tests.builders import node, pod
from tests.client.server import serving
from tests.daemon.test_run import Cluster, daemon, node_of

SOURCE = """
import kubesched

@kubesched.filter
def picky(pod, node):
    return True if node.name == "{name}" else "not picky enough"
"""

BROKEN = """
import kubesched

class Picky(kubesched.Plugin):
    name = "picky"

    def __init__(self, args, handle):
        assert handle.clock.now() > 0
        raise RuntimeError("no licence")

    def filter(self, state, pod, node): ...
"""


async def test_a_change_takes_effect(tmp_path: Path) -> None:
    """The same process schedules the next pod with the changed plugin, and logs a broken change in between."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "picky.py").write_text(SOURCE.format(name="n1"))
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        for name in ("n1", "n2"):
            cluster.backend.create(node(name, cpu=4))
        cluster.backend.create(pod("a", cpu=1))
        flags = ("--plugin-dir", str(folder), "--enable", "picky", "--leader-elect=false")
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            await scheduler.until(lambda: node_of(cluster, "a") == "n1")
            (folder / "picky.py").write_text("import nowhere")
            await scheduler.until(lambda: "No module named 'nowhere'" in scheduler.log)
            (folder / "picky.py").write_text(BROKEN)
            await scheduler.until(lambda: "__init__ raised RuntimeError: no licence" in scheduler.log)
            (folder / "picky.py").write_text(SOURCE.format(name="n2"))
            await scheduler.until(lambda: "Plugins have changed, restarting" in scheduler.log)
            cluster.backend.create(pod("b", cpu=1))
            await scheduler.until(lambda: node_of(cluster, "b") == "n2")
            assert await scheduler.end() == 0
