"""Simulations from Python: a file, a recording or an async function in, a report with data frames out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubesched.config.decode import decode
from kubesched.config.errors import Problem
from kubesched.framework.registry import PluginSource
from kubesched.simulator.loading import load
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Act, Scenario, ScenarioFileError
from kubesched.simulator.scenario_client import seconds_of
from kubesched.simulator.settings import ClusterOptions, ReplayMode

ScenarioSource = str | Path | Act
"""A scenario, a recording or a snapshot, or an ``async def scenario(client)``."""


def simulate(
    source: ScenarioSource,
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    plugins: Sequence[str | PluginSource] = (),
    seed: int | None = None,
    arrivals: bool = False,
    speed: float | None = None,
    cluster: Mapping[str, Any] | None = None,
    duration: str | float = 0,
) -> Report:
    """Run a scenario on virtual time, as `kubesched simulate` does.

    `config` is a KubeSchedulerConfiguration: a file, or a dict. Of a recording, everything is replayed as it was; with
    `arrivals`, pods arrive as they did and are scheduled here. `speed` 1 is real time; without it a replay runs as fast
    as it can. `cluster` has the options of a scenario's cluster, such as ``{"nodeGroups": […]}``, and `duration` is how
    long the scenario lasts at least. Raises `ScenarioFileError` for what cannot run; later errors are in the report.
    """
    scenario = scenario_from(source, cluster, duration)
    if arrivals and scenario.contents.is_recording:
        scenario.replay = ReplayMode.ARRIVALS
    scenario.speed = speed
    scenario.vary(config, plugins, ())
    return run(scenario, seed)


def scenario_from(
    source: ScenarioSource, cluster: Mapping[str, Any] | None = None, duration: str | float = 0
) -> Scenario:
    """The scenario in a file, or the one that a function is. Options of the cluster replace the scenario's own."""
    if isinstance(source, str | Path):
        scenario = load(Path(source))
    elif inspect.iscoroutinefunction(source):
        scenario = Scenario(source.__name__, str(Path.cwd() / "<function>"), source)
    else:
        raise TypeError(f"expected a file or an async function, got {type(source).__name__}")
    if cluster is not None:
        scenario.cluster = _options(cluster)
    scenario.duration = max(scenario.duration, seconds_of(duration))
    return scenario


def _options(given: Mapping[str, Any]) -> ClusterOptions:
    problems: list[Problem] = []
    options = decode(ClusterOptions, dict(given), "cluster", problems)
    problems += options.problems("cluster") if options is not None else ()
    if problems or options is None:
        raise ScenarioFileError([str(each) for each in problems])
    return options
