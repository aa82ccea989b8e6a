"""A guard against slower code: counts the bytecode instructions that the scheduler executes for each pod.

The count needs no quiet machine. A workload runs in process on virtual time, with every random source seeded, so that
the same code executes the same instructions, whatever else the machine does. Only the scheduler's own modules are
counted. What NumPy does inside of one call is not seen; `make bench` and `make bench-peer` are for that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.bench.perf.executor import Executor
from kubesched.bench.perf.format import PerfRun, is_selected, load_runs
from kubesched.bench.perf.in_process import in_process_cluster

TOLERANCE = 0.1
NOT_COUNTED = ("kubesched.bench", "kubesched.apiserver", "kubesched.base.clocks")
"""The measurement itself, and the API server that it needs."""
SETTLE = 5.0
"""Seconds, of virtual time."""
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Each minor version of Python has its own bytecode, and so its own counts."""


class InstructionCounter:
    """Counts the instructions of the scheduler's modules while it is switched on."""

    def __init__(self) -> None:
        self.count = 0
        self._counted: dict[CodeType, bool] = {}

    def switch(self) -> None:
        """Switch it on, or off if it is on."""
        sys.settrace(None if sys.gettrace() is not None else self._enter)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        counted = self._counted.get(frame.f_code)
        if counted is None:
            module = frame.f_globals.get("__name__", "")
            counted = module.startswith("kubesched.") and not module.startswith(NOT_COUNTED)
            self._counted[frame.f_code] = counted
        if not counted:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._instruction

    def _instruction(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.count += event == "opcode"
        return self._instruction


def count_instructions(run: PerfRun) -> int:
    """The instructions per measured pod of a workload."""
    counter = InstructionCounter()

    async def main(clock: VirtualClock) -> int:
        async with in_process_cluster(run, clock) as client, Executor(client, run, settle=SETTLE) as executor:
            executor.on_measuring = counter.switch
            collected = await executor.run()
        return round(counter.count / collected[-1].throughput["pods"])

    return run_virtual(main)


def count_apart(place: Path, label_filter: str) -> dict[str, int]:
    """Count all workloads with some labels, in a process with a fixed hash seed: the order of sets is code, too."""
    command = [sys.executable, "-m", __name__, str(place), label_filter]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(  # noqa: S603 - this module, with arguments of our own command line; no shell
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def too_many(counts: Mapping[str, int], committed: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The workloads that execute a tenth more instructions than committed, with both numbers."""
    return {
        name: (committed[name], count)
        for name, count in counts.items()
        if name in committed and count > committed[name] * (1 + TOLERANCE)
    }


def read_counts(path: Path) -> dict[str, int]:
    """The committed counts for this version of Python; none if there are none."""
    with suppress(FileNotFoundError):
        found: dict[str, dict[str, int]] = json.loads(path.read_text("utf-8"))
        return found.get(VERSION, {})
    return {}


def write_counts(path: Path, counts: Mapping[str, int]) -> None:
    """Replace the counts for this version of Python."""
    every: dict[str, Mapping[str, int]] = {}
    with suppress(FileNotFoundError):
        every = json.loads(path.read_text("utf-8"))
    every[VERSION] = {**every.get(VERSION, {}), **counts}
    path.write_text(json.dumps(every, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    chosen = [run for run in load_runs(Path(sys.argv[1])) if is_selected(sys.argv[2], run.labels)]
    print(json.dumps({run.name: count_instructions(run) for run in chosen}))
