"""From a scenario to its report, on virtual time."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from kubesched.client.clock import VirtualClock, run_virtual
from kubesched.client.protocol import ApiError
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.report import Report, make_report
from kubesched.simulator.scenario import Scenario
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
        cluster = SimulatedCluster(clock, chosen, scenario.cluster, config, registry, scenario.scheduler)
        await cluster.start()
        if started is not None:
            started(cluster)
        try:
            client = ScenarioClient(cluster)
            error = await _act(scenario, client)
            await clock.settle()
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
    except (ApiError, ScenarioError) as error:
        return f"{_place(error, scenario.source)}: {error}"
    except AssertionError as error:
        return f"{_place(error, scenario.source)}: {error or 'an assertion does not hold'}"
    except Exception as error:
        return f"{_place(error, scenario.source)}: {type(error).__name__}: {error}"
    return ""


def _place(error: BaseException, source: str) -> str:
    """File and line of the scenario's own code in which something went wrong."""
    wanted = str(Path(source).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == wanted]
    return f"{source}:{lines[-1]}" if lines else source
