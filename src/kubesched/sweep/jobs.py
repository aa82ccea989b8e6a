"""One run of a sweep: a scenario with a configuration and a seed, and the numbers that come out of it."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from statistics import pstdev
from typing import Any

import msgspec

from kubesched.framework.errors import PluginStartError
from kubesched.simulator.loading import load
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.scenario import ScenarioFileError
from kubesched.simulator.settings import ReplayMode
from kubesched.simulator.trace_file import SUFFIX

METRICS: Mapping[str, str] = {
    "bound": "pods that were bound",
    "pending": "pods without a node at the end",
    "bindMean": "mean seconds from creation to binding",
    "bindP99": "the same, 99th percentile",
    "attempts": "mean attempts per pod",
    "nodesUsed": "nodes that had a pod at any time",
    "cpu": "requested share of all CPUs, mean over time",
    "memory": "the same of memory",
    "cpuSpread": "standard deviation of that share between nodes: 0 if all are equally full",
    "fragmentation": "share of the free CPUs at the end that an average pod cannot use",
    "evictions": "pods that were preempted",
    "nodeHours": "hours of all nodes together",
    "cost": "price of the nodes of node groups",
}
"""What is measured in each run."""

_FILE = re.compile(rb"[\w./-]+\.(?:ya?ml|jsonl?|py|csv|gz)\b")
MOST_TEXT = 1 << 20
"""Larger scenarios are snapshots, which name no files."""


class Job(msgspec.Struct, frozen=True):
    """What a worker needs for one run. Files are named by absolute paths, which must be the same on all machines."""

    scenario: str
    config: Mapping[str, Any] | str | None
    """A file, a tree, or None for the scenario's own."""
    label: str
    """A short name for the configuration."""
    seed: int
    plugins: Sequence[str] = ()

    @property
    def key(self) -> str:
        """A hash of everything that decides the result. A run with the same key need not be repeated."""
        digest = hashlib.sha256()
        config = self.config if isinstance(self.config, str) else None
        files = [self.scenario, config, *(each.partition(":")[0] for each in self.plugins)]
        files += map(str, _named_in(Path(self.scenario)))
        digest.update(metadata.version("kubesched").encode())
        for path in (Path(each) for each in files if each):
            digest.update(msgspec.json.encode([str(path), _hash_of(path)]))
        arrivals = Path(self.scenario).with_suffix(SUFFIX)
        if arrivals.is_file():  # an imported trace has them in a file of their own
            digest.update(_hash_of(arrivals).encode())
        tree = None if isinstance(self.config, str) else self.config
        digest.update(msgspec.json.encode([tree, self.seed, list(self.plugins)], order="deterministic"))
        return digest.hexdigest()


def _named_in(scenario: Path) -> list[Path]:
    """The files that a scenario names: manifests, a configuration, plugins, data."""
    if not scenario.is_file() or scenario.stat().st_size > MOST_TEXT:
        return []
    words = sorted({each.decode() for each in _FILE.findall(scenario.read_bytes())})
    return [path for word in words if (path := scenario.parent / word).is_file() and path != scenario]


def _hash_of(path: Path) -> str:
    """A hash of a file's content. A large file is read once, not for every run."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return _content_hash(path, found.st_size, found.st_mtime_ns) if path.is_file() else ""


@lru_cache(maxsize=256)
def _content_hash(path: Path, _size: int, _changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class RunOutcome(msgspec.Struct, frozen=True):
    """The result of a run."""

    metrics: Mapping[str, float] = {}
    error: str = ""
    seconds: float = 0.0
    """How long it took."""


def run_job(job: Job) -> RunOutcome:
    """Run it, here or in a worker. Whatever is wrong with it is in the outcome."""
    began = time.perf_counter()
    try:
        scenario = load(Path(job.scenario))
        scenario.vary(Path(job.config) if isinstance(job.config, str) else None, job.plugins, ())
        if isinstance(job.config, Mapping):
            scenario.config = job.config
        if scenario.contents.is_recording:
            scenario.replay = ReplayMode.ARRIVALS
        report = run(scenario, job.seed)
    except (ScenarioFileError, PluginStartError) as error:
        return RunOutcome(error=str(error), seconds=time.perf_counter() - began)
    return RunOutcome(measured(report), report.error, time.perf_counter() - began)


def measured(report: Report) -> dict[str, float]:
    """The metrics of a run."""
    nodes, measures = report.utilisation, report.measures
    found = {
        "bound": float(report.bindings),
        "pending": float(len(report.pending)),
        "bindMean": measures["bind_mean"],
        "bindP99": measures["bind_p99"],
        "attempts": measures["attempts"],
        "nodesUsed": measures["nodes_used"],
        "cpu": measures["cpu"],
        "memory": measures["memory"],
        "cpuSpread": pstdev([each.cpu.mean for each in nodes] or [0.0]),
        "fragmentation": measures["fragmentation"],
        "evictions": measures["evictions"],
        "nodeHours": measures["node_hours"],
        "cost": measures["cost"],
    }
    return {name: round(value, 6) for name, value in found.items()}
