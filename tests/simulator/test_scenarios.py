"""Whole runs: the shipped scenarios, failures and their messages, and long virtual times."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.measuring import seconds_of_encoding

from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.loading import load
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Act, Scenario
from kubesched.simulator.settings import ClusterOptions

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"


def simulate(act: Act, **options: object) -> Report:
    return run(Scenario("test", "test.py", act, **options))  # type: ignore[arg-type]  # fields of a dataclass


@pytest.mark.parametrize("name", ["node10.yaml", "node10.py"])
def test_the_seeds_scenario_passes_in_both_forms(name: str) -> None:
    """The pod waits while nine nodes are cordoned and goes to node10 when it is added."""
    report = run(load(EXAMPLES / name))
    assert report.passed
    assert [(each.pod, each.node) for each in report.placements] == [("default/pod1", "node10")]


def test_an_hour_of_backoffs_takes_a_second_or_two() -> None:
    """A hundred pods that fit nowhere are retried for an hour of virtual time, until a large node is added. That takes
    as long as encoding and decoding a hundred thousand pods or so, on any machine."""

    async def act(client: ScenarioClient) -> None:
        for number in range(50):
            await client.create(node(f"small-{number}", cpu=1))
        for number in range(100):
            await client.create(pod(f"big-{number}", cpu=2))
        await client.sleep("1h")
        await client.expect(kind="Pod", count=100, pending=True, because="Insufficient cpu")
        await client.create(node("big", cpu=500))
        await client.wait_for(kind="Pod", count=100, phase="Running", timeout="1m")

    peer = seconds_of_encoding()
    began = time.process_time()
    report = simulate(act)
    seconds = time.process_time() - began
    assert report.passed, report.expectations
    assert sum(each.attempts for each in report.placements) > 1000
    assert seconds / peer < 400_000


def test_a_failed_expectation_says_what_was_found() -> None:
    """The report has the reason why the pod is pending."""

    async def act(client: ScenarioClient) -> None:
        await client.create(node("small", cpu=1))
        await client.create(pod("big", cpu=2))
        await client.sleep(1)
        await client.expect(pod="big", on_node="small")

    report = simulate(act)
    assert not report.passed
    assert "pending: 0/1 nodes are available: 1 Insufficient cpu" in report.expectations[0].message


def test_waiting_in_vain_fails_after_its_timeout() -> None:
    """A wait that times out is a failed expectation, and the scenario goes on."""

    async def act(client: ScenarioClient) -> None:
        assert not await client.wait_for(pod="nobody", phase="Running", timeout="2m")

    report = simulate(act)
    assert report.virtual_seconds == 120
    assert "none of that name" in report.expectations[0].message


def test_controllers_and_kubelets_take_part() -> None:
    """A Deployment becomes running pods, and a pod with a run time ends."""
    deployment = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: nginx}]}
    """

    async def act(client: ScenarioClient) -> None:
        await client.create(node("one"))
        await client.create(deployment)
        await client.create(pod("job", run_time="90s"))
        await client.wait_for(kind="Pod", labels={"app": "web"}, phase="Running", count=3)
        await client.sleep_until("2m")
        await client.expect(pod="job", phase="Succeeded")
        await client.delete("Deployment", "web")

    report = simulate(act)
    assert report.passed, report


def test_a_pod_that_ends_makes_room() -> None:
    """Three pods that fill the node run one after the other."""

    async def act(client: ScenarioClient) -> None:
        await client.create(node("one", cpu=1))
        for number in range(3):
            await client.create(pod(f"job-{number}", cpu=1, run_time="1m"))
        await client.sleep("10m")
        await client.expect(kind="Pod", count=3, phase="Succeeded")

    report = simulate(act)
    assert report.passed, report
    (usage,) = report.utilisation
    assert (usage.cpu.peak, usage.cpu.end) == (1.0, 0.0)
    assert usage.cpu.mean == pytest.approx(0.3, abs=0.01)


def test_what_a_scenario_raises_is_in_the_report() -> None:
    """A failed assertion, a refused request and an unknown kind end the run with a message."""

    async def refused(client: ScenarioClient) -> None:
        await client.get("Pod", "nobody")

    async def unknown(client: ScenarioClient) -> None:
        await client.list("Pood")

    assert 'pods "nobody" not found' in simulate(refused).error
    assert "did you mean Pod" in simulate(unknown).error


def test_utilisation_is_integrated_over_time() -> None:
    """Half a node for half of the time is a quarter on average."""

    async def act(client: ScenarioClient) -> None:
        await client.create(node("one", cpu=2))
        await client.create(pod("half", cpu=1))
        await client.sleep(50)
        await client.delete("Pod", "half", grace=0)
        await client.sleep_until(100)

    (usage,) = simulate(act, cluster=ClusterOptions(events=False)).utilisation
    assert usage.cpu.mean == pytest.approx(0.25, abs=0.01)
    assert (usage.cpu.peak, usage.cpu.end) == (0.5, 0.0)


def test_placements_are_in_natural_order() -> None:
    """Pod p2 is listed before p10."""

    async def act(client: ScenarioClient) -> None:
        await client.create(node("one"))
        for number in (10, 2, 1):
            await client.create(pod(f"p{number}"))
        await client.sleep(1)

    assert [each.pod for each in simulate(act).placements] == ["default/p1", "default/p2", "default/p10"]
