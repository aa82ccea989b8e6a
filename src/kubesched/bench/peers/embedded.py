"""The embedded API server in a process of its own, reached over HTTPS as a real one is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kubesched.bench.peers.processes import ChildProcess
from kubesched.client.connection import resolve
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import load_file


class EmbeddedPlane:
    """The embedded API server. Everything it writes is in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: ChildProcess | None = None

    async def start(self) -> None:
        """Start it and wait until it serves."""
        command = [sys.executable, "-m", "kubesched.bench.perf.embedded_server", str(self.kubeconfig())]
        self._process = ChildProcess("embedded API server", command, self.folder / "api-server.log")
        while not self.kubeconfig().exists():
            self._process.check()
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()

    def kubeconfig(self) -> Path:
        """The kubeconfig file of the administrator."""
        return self.folder / "kubeconfig"

    def client(self) -> HttpClient:
        """A client without a rate limit."""
        return HttpClient(resolve(load_file(str(self.kubeconfig()))), qps=1e6, burst=10**6)
