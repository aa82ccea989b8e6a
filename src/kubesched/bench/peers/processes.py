"""Child processes: started in a session of their own, their output in a file, their CPU time and memory from /proc."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

TICKS = os.sysconf("SC_CLK_TCK")
TAIL_LINES = 20
STOP_SECONDS = 20.0

T = TypeVar("T")


class ProcessEndedError(RuntimeError):
    """A program ended when it should have been running. The message has the end of its output."""


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """What a process has used so far."""

    cpu_seconds: float
    resident_mb: float
    peak_mb: float


class ChildProcess:
    """A program that runs."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - programs that the user of the benchmark chose; no shell
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise `ProcessEndedError` if it has ended."""
        code = self._process.poll()
        if code is not None:
            tail = "\n".join(self.output().splitlines()[-TAIL_LINES:])
            raise ProcessEndedError(f"{self.name} ended with exit code {code}:\n{tail}")

    def output(self) -> str:
        """All that it has written."""
        return self._log.read_text("utf-8", "replace")

    def usage(self) -> ProcessUsage:
        """CPU time and memory of the process, with all its threads. Raises `ProcessEndedError` if it has ended."""
        self.check()
        folder = Path(f"/proc/{self._process.pid}")
        # The name, in parentheses, may contain spaces.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        return ProcessUsage(
            cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
            resident_mb=int(status["VmRSS"].split()[0]) / 1024,
            peak_mb=int(status["VmHWM"].split()[0]) / 1024,
        )

    def stop(self) -> None:
        """Ask it to end and wait; kill it if it does not."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it at once, with everything it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


async def ending_with(work: Coroutine[Any, Any, T]) -> T:
    """Do work that SIGTERM cancels, as Ctrl-C does, so that no child process is left."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _environment() -> dict[str, str]:
    """This process's, with compiled modules kept: an installed Python program does not compile itself at each start."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    cache = Path(tempfile.gettempdir()) / f"kubesched-bench-{os.getuid()}-pycache"
    return {"PYTHONPYCACHEPREFIX": str(cache), **inherited}


def free_port() -> int:
    """A port on loopback that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
