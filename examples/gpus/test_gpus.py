"""The manifests and the scenario of this example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kubesched.simulator import ScenarioClient
from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario
from kubesched.simulator.settings import ClusterOptions

if TYPE_CHECKING:
    from examples.conftest import Embedded

FOLDER = Path(__file__).parent
DEVICES = "gpu.example.com=2:model=a100:memory=80Gi, gpu.example.com=2:model=t4:memory=16Gi"


def test_the_scenario() -> None:
    """The second pod gets the GPU when the first has ended."""
    report = run(load(FOLDER / "scenario.yaml"))
    assert report.passed, report.expectations
    assert [each.node for each in report.placements] == ["with-gpu", "with-gpu"]


def test_all_pods_run(embedded: Embedded) -> None:
    """Every manifest is valid, and every pod gets its devices."""

    async def act(client: ScenarioClient) -> None:
        for name in ("node-1", "node-2"):
            await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        for file in ("classes.yaml", "claims.yaml", "pods.yaml", "extended.yaml"):
            await embedded.apply(client, file)
        await client.wait_for(kind="Pod", count=6, phase="Running", timeout="1m")

    report = run(Scenario("gpus", "README.md", act, cluster=ClusterOptions(node_devices=DEVICES)))
    assert report.passed, [report.error, *(each.message for each in report.expectations)]
