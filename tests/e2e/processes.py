"""Child processes whose output goes to a file, and which never outlive the tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import SystemRandom

from tests.e2e.waiting import PATIENCE

TAIL = 60
PORTS = (20_000, 32_000)
_CHOICE = SystemRandom()


class Child:
    """A program that runs. Its group is its own, so that whatever it starts ends with it."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(each) for each in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def running(self) -> bool:
        """Whether it runs. A program that has ended when it should not have says why in the error."""
        if self.code is not None:
            raise AssertionError(f"{self.name} ended with {self.code}:\n{self.tail()}")
        return True

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, with everything it has started."""
        if self.code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def terminate(self, seconds: float = PATIENCE) -> int:
        """Ask it to end; answers with the exit code."""
        self._process.terminate()
        return self.wait(seconds)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for its end; answers with the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds:.0f} s:\n{self.tail()}") from None

    def is_busy(self) -> bool:
        """Whether it computes, or would if it had a processor."""
        for file in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with suppress(OSError):
                if file.read_text().rpartition(")")[2].split()[0] == "R":
                    return True
        return False

    def output(self) -> str:
        """All that it has said."""
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """The last lines that it has said."""
        return "\n".join(self.output().splitlines()[-TAIL:])


def free_port() -> int:
    """A port that nobody uses at the moment, of those that the kernel does not give to outgoing connections.

    A server that is started again must get its port back, although its clients keep trying to connect.
    """
    while True:
        port = _CHOICE.randrange(*PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
