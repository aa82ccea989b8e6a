"""Faults of real parts: kill -9, SIGSTOP, network cuts and silences of each, compaction, a slow disk."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random

from tests.e2e.control_plane import ControlPlane
from tests.e2e.processes import Child
from tests.e2e.relay import Relay

LATEST_SECONDS = 3.0
"""How long calls are under way at most: less than the time between the end of one leader and the next."""
FROZEN_SECONDS = 8.0
"""A frozen scheduler must lose its lease."""
SLOW_SECONDS = 3.0
STRACE = shutil.which("strace")
SYNCS = "fsync,fdatasync"
SYNC_MICROSECONDS = 150_000


class Faults:
    """Breaks one thing at a time, drawn from a shuffled deck, so that no kind of fault is left out."""

    def __init__(
        self,
        plane: ControlPlane,
        parts: Callable[[], Mapping[str, Child]],
        wires: Mapping[str, Relay],
        random: Random,
        done: Counter[str],
    ) -> None:
        """`parts` are the processes by name, `wires` the relays by the name of the part behind them."""
        self._plane = plane
        self._parts = parts
        self._wires = wires
        self._random = random
        self._done = done
        self._deck: list[tuple[str, Callable[[str], bool]]] = []

    def kinds(self) -> dict[str, tuple[Callable[[str], bool], int]]:
        """Every fault by name, and how many of it there are in a deck."""
        killed = {"kubesched-0": 5, "kubesched-1": 5, "extender": 2, "kube-apiserver": 2, "etcd": 2}
        frozen = {"kubesched-0": 2, "kubesched-1": 2, "steady": 1, "extender": 1, "kube-apiserver": 1, "etcd": 1}
        made: dict[str, tuple[Callable[[str], bool], int]] = {}
        made |= {f"kill -9 {part}": (self._kill, weight) for part, weight in killed.items()}
        made |= {f"SIGSTOP {part}": (self._freeze, weight) for part, weight in frozen.items()}
        made |= {f"cut {wire}": (self._cut, 1) for wire in self._wires}
        made |= {f"silence {wire}": (self._silence, 1) for wire in self._wires}
        made |= {"compact etcd": (self._compact, 2), "slow etcd": (self._slow, 1), "slow-disk etcd": (self._drag, 1)}
        return made

    def next(self) -> None:
        """Do the next fault of the deck."""
        if not self._deck:
            self._deck = [(name, act) for name, (act, count) in self.kinds().items() for _ in range(count)]
            self._random.shuffle(self._deck)
        name, act = self._deck.pop()
        if act(name.split()[-1]):
            self._done[name] += 1

    def _kill(self, part: str) -> bool:
        child = self._parts()[part]
        ran = child.code is None
        child.kill()
        return ran

    def _freeze(self, part: str) -> bool:
        child = self._parts()[part]
        longest = FROZEN_SECONDS if part.startswith("kubesched") else LATEST_SECONDS
        child.signal(signal.SIGSTOP)
        time.sleep(self._random.choice((0.3, 1.0, longest)))
        child.signal(signal.SIGCONT)
        return True

    def _slow(self, part: str) -> bool:
        """The process works for one part in five."""
        child = self._parts()[part]
        until = time.monotonic() + SLOW_SECONDS
        while time.monotonic() < until:
            child.signal(signal.SIGSTOP)
            time.sleep(0.12)
            child.signal(signal.SIGCONT)
            time.sleep(0.03)
        return True

    def _drag(self, part: str) -> bool:
        """Every write to the disk takes long, by strace."""
        if STRACE is None:
            return False
        inject = f"inject={SYNCS}:delay_enter={SYNC_MICROSECONDS}"
        pid = str(self._parts()[part].pid)
        command = [STRACE, "-f", "-q", "-o", "/dev/null", "-e", f"trace={SYNCS}", "-e", inject, "-p", pid]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
            with suppress(subprocess.TimeoutExpired):
                return tracer.wait(SLOW_SECONDS) == 0  # it may not trace here
            tracer.terminate()
        return True

    def _cut(self, wire: str) -> bool:
        return self._wires[wire].cut() > 0

    def _silence(self, wire: str) -> bool:
        self._wires[wire].silence(True)
        time.sleep(self._random.choice((0.5, 1.5, LATEST_SECONDS)))
        self._wires[wire].silence(False)
        return True

    def _compact(self, _part: str) -> bool:
        return self._plane.compact()
