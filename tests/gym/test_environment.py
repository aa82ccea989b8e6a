"""The Gymnasium environment keeps its contract, and decides as the scheduler does."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import check_env

from kubesched import Cluster, Pod
from kubesched.framework.errors import PluginStartError
from kubesched.gym import (
    NODE_COLUMNS,
    Arriving,
    LinearPolicy,
    PolicyScore,
    SchedulingEnv,
    fragmentation,
    less_fragmentation,
    typical,
)
from kubesched.testing import VirtualCluster, check_plugin, node, pod, taint

SMALL, LARGE = pod("small", cpu="1", memory="1Gi"), pod("large", cpu="3", memory="2Gi")
NODES = [node("a", cpu="4", memory="8Gi"), node("b", cpu="2", memory="8Gi"), node("c", taints=[taint("x:NoSchedule")])]


def mixed(random: np.random.Generator) -> Iterator[Arriving]:
    """Small and large pods, which leave after a while."""
    return (Arriving(SMALL if random.random() < 0.7 else LARGE, int(random.integers(1, 6))) for _ in range(30))


@pytest.mark.parametrize("action", ["node", "weights"])
def test_it_passes_gymnasiums_check(action: str) -> None:
    """Spaces, seeds, determinism and the types of everything that is returned."""
    env = SchedulingEnv(NODES, mixed, action=action)  # type: ignore[arg-type]  # a literal, by parameter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about rendering
        check_env(env)


def test_masks_are_the_schedulers_filters() -> None:
    """A tainted node and one that is too small are masked, in info and in action_masks."""
    env = SchedulingEnv(NODES, lambda _: [LARGE, SMALL])
    seen, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == env.action_masks().tolist() == [1, 0, 0]
    assert seen["nodes"][:, NODE_COLUMNS.index("cpu left")].tolist() == [0.25, 0.0, 0.25]
    seen, reward, done, cut, info = env.step(0)
    assert (reward, done, cut, info["action_mask"].tolist()) == (1.0, False, False, [1, 1, 0])
    assert seen["nodes"][0, 0] == 0.25
    _, _, done, _, info = env.step(1)
    assert (done, info["placed"], info["rejected"]) == (True, 2, 0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_that_is_no_node_is_refused(action: int) -> None:
    """It is not counted from the end."""
    env = SchedulingEnv(NODES, lambda _: [SMALL])
    env.reset(seed=1)
    with pytest.raises(ValueError, match=f"action {action} is not the number of a node; there are 3, from 0"):
        env.step(action)


def test_kinds_of_actions_are_checked() -> None:
    with pytest.raises(ValueError, match="an action is node or weights, not 'weight'"):
        SchedulingEnv(NODES, lambda _: [SMALL], action="weight")  # type: ignore[arg-type]


def test_a_masked_action_places_nothing() -> None:
    """The pod is dropped, which the reward shows; the episode goes on."""
    env = SchedulingEnv(NODES, lambda _: [LARGE, SMALL])
    env.reset(seed=1)
    _, reward, done, _, info = env.step(1)
    assert (reward, done, info["placed"], info["rejected"]) == (0.0, False, 0, 1)
    assert env.nodes.pod_count.tolist() == [0, 0, 0]


def test_pods_leave_and_pods_without_a_node_are_counted() -> None:
    """A pod that fits nowhere is skipped, with a worse reward; one whose time is up makes room."""
    env = SchedulingEnv(NODES[:1], lambda _: [Arriving(LARGE, 2), LARGE, LARGE])
    env.reset(seed=1)
    _, reward, done, _, info = env.step(0)  # the second finds no room, the third has that of the first
    assert (reward, done, info["placed"], info["rejected"]) == (0.0, False, 1, 1)
    assert env.nodes.pod_count.tolist() == [0]


def test_with_the_default_weights_it_decides_as_the_scheduler() -> None:
    """Weights in the proportions of the configuration give the node that Cluster.schedule gives."""
    nodes = [node(f"n{number}", cpu=4 + number, memory="16Gi") for number in range(5)]
    env = SchedulingEnv(nodes, lambda _: [SMALL] * 8, action="weights")
    cluster = Cluster(*nodes)
    weights = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
    action = np.array([weights.get(name, 1) / 3 for name in env.score_plugins], dtype=np.float32)
    _, _ = env.reset(seed=1)
    for number in range(8):
        totals = env.scores()
        decision = cluster.schedule(pod(f"p{number}", cpu="1", memory="1Gi"))
        assert dict(zip([each.name for each in nodes], totals.tolist(), strict=True)) == decision.totals
        best = totals.argmax()
        before = env.nodes.pod_count.copy()
        env.step(action)
        assert (env.nodes.pod_count - before).argmax() == best
        cluster.add(pod(f"p{number}", cpu="1", memory="1Gi", node=f"n{best}"))


def test_fragmentation_is_what_typical_pods_cannot_use() -> None:
    """CPU that is free where a pod does not fit, as a part of all; the reward is how much less there is."""
    env = SchedulingEnv(NODES[:2], lambda _: [SMALL, SMALL], reward=less_fragmentation([SMALL, LARGE]))
    env.reset(seed=1)
    assert fragmentation(env.nodes, typical([SMALL, LARGE])) == pytest.approx((0 + 2 / 6) / 2)
    _, first, _, _, _ = env.step(1)  # large pods do not fit on b; one core less is free there
    assert first == pytest.approx(100 * (1 / 6) / 2)
    _, second, _, _, _ = env.step(0)  # three cores are left on a, just enough
    assert second == 0


# --- policies ---------------------------------------------------------------------------------------------------------


def packed(nodes: np.ndarray, pod: np.ndarray) -> np.ndarray:
    """A policy: the fullest node."""
    return -nodes[:, 0]


def test_a_policy_is_a_score_plugin(tmp_path: Path) -> None:
    """Weights in a file, or any function by name; both keep the contract of plugins."""
    path = tmp_path / "policy.json"
    weights = np.zeros(LinearPolicy.SIZE)
    weights[0] = -1
    LinearPolicy(weights).save(path)
    assert (LinearPolicy.load(path).weights == LinearPolicy(weights).weights).all()
    for place in str(path), "tests.gym.test_environment:packed":
        with VirtualCluster() as cluster:
            cluster.use(PolicyScore, args={"policy": place}, weight=100)
            cluster.add(node("a"), node("b"), there("b"))
            decision = cluster.schedule(pod("new", cpu="1"))
            assert decision.node == "b", decision.explain()
            assert {name: each["PolicyScore"] for name, each in decision.node_scores.items()} == {"a": 0, "b": 10_000}
    check_plugin(PolicyScore, args={"policy": str(path)}, examples=15)


def there(name: str) -> Pod:
    """A pod on a node."""
    return pod("there", cpu="1", node=name)


@pytest.mark.parametrize(
    ("place", "problem"),
    [("", "args.policy is empty"), ("policy", "give a .json file, or module:function"), ("none.json", "none.json")],
)
def test_a_policy_that_cannot_be_loaded_is_named(place: str, problem: str) -> None:
    """The scheduler does not start, and says why."""
    with VirtualCluster() as cluster:
        cluster.use(PolicyScore, args={"policy": place})
        with pytest.raises(PluginStartError, match=problem):
            cluster.start()
