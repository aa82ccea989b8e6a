"""A scenario that takes a moment and whose arrivals differ by seed."""

from __future__ import annotations

from pathlib import Path

import pytest

SCENARIO = """
from kubesched.simulator import ScenarioClient, node, pod

cluster = {"heartbeat": "0s", "events": False, "podSteps": False}


async def scenario(client: ScenarioClient) -> None:
    for number in range(4):
        await client.create(node(f"n{number}", cpu=8, memory="32Gi"))
    for number in range(10):
        await client.create(pod(f"p{number}", cpu=client.random.choice(["1", "2"]), memory="1Gi"))
    await client.sleep(5)
"""
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit}]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Ten pods of random sizes on four nodes."""
    path = tmp_path / "ten.py"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A configuration that fills nodes up."""
    path = tmp_path / "packed.yaml"
    path.write_text(PACKED)
    return path
