"""The health of a scheduler's process, asked at its own HTTPS port as a kubelet's probes do.

The container has started when the path of its startup probe answers, and is ready while that of its readiness probe
does. A container without probes has started and is ready when its process serves ``/healthz``.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import aiohttp

from kubesched.daemon.flags.options import CURRENT
from kubesched.kubelet.timeline import ProgramHealth
from kubesched.reconcile.views import Container, Probe

HOST = "127.0.0.1"
DEFAULT_PATH = "/healthz"
START_PERIOD = 0.25
"""Seconds between questions until the process answers."""
TIMEOUT = 5.0
_HEADERS = {"User-Agent": f"kube-probe/{CURRENT}"}


def reserved_port() -> socket.socket:
    """Keep a free port for a process that is started with ``--permit-port-sharing``. This socket never listens."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((HOST, 0))
    return made


class ProcessHealth:
    """Follows the health of one process."""

    def __init__(self, container: Container, port: int, changed: Callable[[], None]) -> None:
        self.now = ProgramHealth(started=False, ready=False)
        self.problem = ""
        """Why a process that was ready is not ready any more."""
        self._startup = _path(container.startup_probe)
        self._readiness = _path(container.readiness_probe)
        self._timing = container.readiness_probe or Probe()
        self._url = f"https://{HOST}:{port}"
        self._changed = changed

    async def follow(self) -> None:
        """Ask until cancelled."""
        limit = aiohttp.ClientTimeout(total=TIMEOUT)
        # A kubelet does not verify the certificate either.
        unverified = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(connector=unverified, timeout=limit, headers=_HEADERS) as session:
            while await self._ask(session, self._startup):
                await asyncio.sleep(START_PERIOD)
            self._set(ProgramHealth(started=True, ready=False))
            await self._follow_readiness(session)

    async def _follow_readiness(self, session: aiohttp.ClientSession) -> None:
        failures = 0
        while True:
            problem = await self._ask(session, self._readiness)
            failures = failures + 1 if problem else 0
            if self.now.ready and failures >= self._timing.failure_threshold:
                self._set(ProgramHealth(started=True, ready=False), problem)
            elif not problem and not self.now.ready:
                self._set(ProgramHealth(started=True, ready=True))
            await asyncio.sleep(self._timing.period_seconds if self.now.ready else START_PERIOD)

    def _set(self, health: ProgramHealth, problem: str = "") -> None:
        self.now, self.problem = health, problem
        self._changed()

    async def _ask(self, session: aiohttp.ClientSession, path: str) -> str:
        """Return what is wrong, or an empty string."""
        try:
            async with session.get(f"{self._url}{path}") as response:
                await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f'Get "{self._url}{path}": {error or "timed out"}'
        return f"HTTP probe failed with statuscode: {response.status}" if response.status >= 400 else ""


def _path(probe: Probe | None) -> str:
    return DEFAULT_PATH if probe is None or probe.http_get is None else f"/{probe.http_get.path.lstrip('/')}"
