"""From a scenario to its report, on virtual time."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.client.protocol import ApiError
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.report import Report, make_report
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.scenario_client import ScenarioClient, ScenarioError

Started = Callable[[SimulatedCluster], None]


def run(scenario: Scenario, seed: int | None = None, started: Started | None = None) -> Report:
    """Run a scenario to its end. `started` is given the cluster at its beginning, to show how it gets on.

    Raises `ScenarioFileError` if it cannot even begin. What goes wrong later is in the report.
    """
    config, registry = scenario.prepared()
    chosen = scenario.seed if seed is None else seed

    reports: list[Report] = []

    async def main(clock: VirtualClock) -> None:
        try:
            cluster = SimulatedCluster(clock, chosen, scenario.cluster, config, registry, scenario.scheduler)
            await cluster.start()
        except Exception as problem:
            if scenario.scheduler is None:
                raise
            raise ScenarioFileError([_said(problem, scenario, "the scheduler did not start: ")]) from problem
        if started is not None:
            started(cluster)
        try:
            client = ScenarioClient(cluster)
            error = await _act(scenario, client)
            await clock.settle()
            if (crash := cluster.crash) is not None:  # whatever else went wrong may be for this
                error = _said(crash, scenario, "the scheduler ended: ")
            reports.append(make_report(scenario.name, chosen, cluster, client.checked, error))
        finally:
            await cluster.stop()

    run_virtual(main)
    # Not as what main returns: asyncio.Runner makes text of that, twice, and a day has hundreds of thousands of lines.
    return reports[0]


async def _act(scenario: Scenario, client: ScenarioClient) -> str:
    """Let it happen; answers with what ended it before its end."""
    try:
        await scenario.act(client)
        if scenario.duration > client.now:
            await client.sleep_until(scenario.duration)
    except Exception as error:
        return _said(error, scenario)
    return ""


def _said(error: BaseException, scenario: Scenario, whose: str = "") -> str:
    """What went wrong, with the last line of the scenario's own code that it came through."""
    while isinstance(error, BaseExceptionGroup):  # of a task group, which the first to fail brings down
        error = error.exceptions[0]
    own = str(Path(scenario.source).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    where = f"{scenario.source}:{lines[-1]}: {whose}" if lines else f"{scenario.source}: {whose}"
    if isinstance(error, ApiError | ScenarioError):
        return f"{where}{error}"
    if isinstance(error, AssertionError):
        return f"{where}{error or 'an assertion does not hold'}"
    return f"{where}{type(error).__name__}: {error}"
