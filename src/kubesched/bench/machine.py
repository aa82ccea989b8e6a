"""The machine that a measurement was made on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TypedDict


class BenchMachine(TypedDict):
    """What a reader needs to judge a measurement."""

    processor: str
    cores: int
    memory_gb: float
    system: str
    python: str
    load_average: list[float]
    """At the time of asking: a busy machine makes every number worse, and ratios less certain."""


def describe_machine() -> BenchMachine:
    """This machine, now."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "processor": model or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(each, 2) for each in os.getloadavg()],
    }
