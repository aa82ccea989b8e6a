"""One run of the daemon, in this process."""

from __future__ import annotations

from pathlib import Path

from tests.client.server import serving
from tests.daemon.test_run import Cluster, free_port, kubeconfig

from kubesched.daemon.flags import parse
from kubesched.daemon.process import RESTART, Process
from kubesched.daemon.setup import prepare


async def test_a_run_that_ends_early_gives_its_port_back(tmp_path: Path) -> None:
    """A run that is stopped before its server is loaded closes the port, so that the next run can have it."""
    async with serving(Cluster()) as cluster:
        flags = ("--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={free_port()}")
        options = parse((*flags, f"--kubeconfig={kubeconfig(tmp_path, cluster.url)}")).options
        setup = prepare(options, options.logging().logger())
        process = Process(setup)
        process.restart()
        assert await process.run() == RESTART
        assert setup.socket is not None
        assert setup.socket.fileno() == -1
