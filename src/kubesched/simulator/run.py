"""Runs a scenario on virtual time and returns its report."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from kubesched.base.clocks import START, VirtualClock, run_virtual
from kubesched.client.protocol import ApiError
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.decisions import DecisionReplay
from kubesched.simulator.following import FollowRecording, in_written_order
from kubesched.simulator.measures import measure
from kubesched.simulator.recorded_pods import recorded_pods
from kubesched.simulator.replay import Replayer
from kubesched.simulator.report import Report, make_report
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.scenario_client import ScenarioClient, ScenarioError
from kubesched.simulator.settings import ReplayMode
from kubesched.snapshots.restore import restore

COLLECT_AFTER = 200_000
"""New objects between two collections of garbage. The default, 700, takes a seventh of a large run."""
Started = Callable[[SimulatedCluster], None]


def run(scenario: Scenario, seed: int | None = None, started: Started | None = None) -> Report:
    """Run a scenario to its end. `started` is called with the cluster at the start, for progress display.

    Raises `ScenarioFileError` if it cannot start. Later errors are in the report.
    """
    config, registry = scenario.prepared()
    chosen = scenario.seed if seed is None else seed

    reports: list[Report] = []

    async def main(clock: VirtualClock) -> None:
        try:
            follow = None
            if scenario.replay is ReplayMode.ARRIVALS and scenario.follow_ties:
                scenario.contents = in_written_order(scenario.contents)
                pods = recorded_pods(scenario.contents)
                has_decisions = any(each.node and not each.was_bound for each in pods.values())
                follow = FollowRecording(pods, chosen) if has_decisions else None
            options = scenario.cluster
            cluster = SimulatedCluster(
                clock,
                chosen,
                options,
                config,
                registry,
                scenario.scheduler,
                replay=scenario.replay,
                follow=follow,
                workloads=scenario.replay is None or not scenario.contents.has_pods,
            )
            if follow is not None:
                follow.on_same_node = cluster.embedded.kubelets.nodes.has_reported
            decisions, replayer = None, None
            if scenario.replay is ReplayMode.RECORDED and scenario.contents.steps:
                decisions = DecisionReplay(scenario.contents, config, registry, clock)
            if scenario.replay is not None:
                replayer = Replayer(
                    scenario.contents,
                    scenario.replay,
                    cluster,
                    scenario.speed,
                    follow=follow is not None,
                    decisions=decisions,
                )
            refused: list[str] = []
            await cluster.start(lambda: refused.extend(_restore(scenario, cluster, replayer)))
        except Exception as problem:
            if scenario.scheduler is None:
                raise
            raise ScenarioFileError([_describe(problem, scenario, "the scheduler did not start: ")]) from problem
        if started is not None:
            started(cluster)
        try:
            client = ScenarioClient(cluster)
            error = "\n".join(refused) or await _act(scenario, client, replayer)
            await clock.settle()
            if (crash := cluster.crash) is not None:  # this may be the cause of the other error
                error = _describe(crash, scenario, "the scheduler ended: ")
            agreement = None if follow is None else follow.agreement()
            again = None if decisions is None else decisions.result()
            report = make_report(scenario.name, chosen, cluster, client.checked, error, agreement, again)
            reports.append(replace(report, measures=measure(report, cluster)))
        finally:
            if decisions is not None:
                await decisions.close()
            await cluster.stop()

    with _rare_collections():
        run_virtual(main, START if scenario.contents.started is None else scenario.contents.started)
    # Not returned from main: asyncio.Runner formats the return value, twice, and a report can have 100,000s of lines.
    return reports[0]


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: a large cluster is millions of objects that all live to the end."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _restore(scenario: Scenario, cluster: SimulatedCluster, replayer: Replayer | None) -> list[str]:
    """Store the initial objects. Returns why the scenario cannot go on: objects that were refused."""
    if replayer is not None:
        replayer.store_initial()
        return []
    restored = restore(cluster.api, scenario.contents.items)
    if restored.ignored:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(restored.ignored.items()))
        cluster.timeline.note("note", f"ignored: {kinds}")
    return [each if each.startswith(scenario.source) else f"{scenario.source}: {each}" for each in restored.refused]


async def _act(scenario: Scenario, client: ScenarioClient, replayer: Replayer | None) -> str:
    """Run the scenario function. Returns the error that ended it early, or an empty string."""
    try:
        if replayer is not None:
            await replayer.run(client)
        await scenario.act(client)
        if scenario.duration > client.now:
            await client.sleep_until(scenario.duration)
    except Exception as error:
        return _describe(error, scenario)
    return ""


def _describe(error: BaseException, scenario: Scenario, prefix: str = "") -> str:
    """Describe an error, with the last line of the scenario's own code in its traceback."""
    while isinstance(error, BaseExceptionGroup):  # from a task group; the first exception is the cause
        error = error.exceptions[0]
    own = str(Path(scenario.source).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    where = f"{scenario.source}:{lines[-1]}: {prefix}" if lines else f"{scenario.source}: {prefix}"
    if isinstance(error, ApiError | ScenarioError):
        return f"{where}{error}"
    if isinstance(error, AssertionError):
        return f"{where}{error or 'an assertion does not hold'}"
    return f"{where}{type(error).__name__}: {error}"
