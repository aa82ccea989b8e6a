"""The example learns, and what it learned is a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("gymnasium")

from train import compare, environment, learn

from kubesched.gym import PolicyScore
from kubesched.testing import VirtualCluster, node, pod


def test_it_beats_least_allocated_on_fragmentation(tmp_path: Path) -> None:
    """A few small generations are enough to strand less CPU, beyond chance; the policy then packs in a scheduler."""
    env = environment(nodes=8, pods=60)
    policy = learn(env, generations=3, population=8, seed=1)
    ours, theirs, half = compare(env, policy, range(1000, 1010))
    assert ours - theirs > half
    policy.save(tmp_path / "policy.json")
    with VirtualCluster() as cluster:
        cluster.use(PolicyScore, args={"policy": str(tmp_path / "policy.json")}, weight=100)
        cluster.add(node("empty", cpu=16, memory="64Gi"), node("used", cpu=16, memory="64Gi"))
        cluster.add(pod("there", cpu="8", memory="16Gi", node="used"))
        assert cluster.schedule(pod("new", cpu="500m", memory="1Gi")).node == "used"
