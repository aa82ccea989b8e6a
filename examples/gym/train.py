"""Learns where pods should go, so that free CPU stays usable: less fragmentation than LeastAllocated leaves.

    python examples/gym/train.py --output policy.json

The policy is linear, and the cross-entropy method finds its weights: try some, keep the best, try others near those. On
one core this takes a minute or two. The result is a Score plugin, `PolicyScore`, for any scheduler.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from kubesched.gym import Arriving, LinearPolicy, SchedulingEnv, Transition, fragmentation, typical
from kubesched.testing import node, pod

SIZES = (("500m", "1Gi", 0.35), ("1", "4Gi", 0.3), ("2", "4Gi", 0.2), ("8", "16Gi", 0.15))
TEMPLATES = [pod(f"size-{cpu}", cpu=cpu, memory=memory) for cpu, memory, _ in SIZES]
LEAST_ALLOCATED = {
    "profiles": [
        {"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}}}
    ]
}
T_95 = 2.26
"""Student's t for ten pairs."""
Choose = Callable[[SchedulingEnv, dict[str, np.ndarray]], int]


def environment(nodes: int, pods: int) -> SchedulingEnv:
    """A cluster with nodes of two sizes, three quarters full once as many pods leave as arrive."""

    def arrivals(random: np.random.Generator) -> Iterator[Arriving]:
        chosen = random.choice(len(SIZES), size=pods, p=[share for _, _, share in SIZES])
        stays = random.exponential(nodes * 5.0, size=pods).astype(int) + 1
        return (Arriving(TEMPLATES[size], int(steps)) for size, steps in zip(chosen, stays, strict=True))

    wanted = typical(TEMPLATES)

    def reward(step: Transition) -> float:
        return -100 * fragmentation(step.nodes, wanted) - step.rejected

    machines = [node(f"n{number}", cpu=16 if number % 2 else 8, memory="64Gi") for number in range(nodes)]
    return SchedulingEnv(machines, arrivals, reward=reward, config=LEAST_ALLOCATED)


def least_allocated(env: SchedulingEnv, _seen: dict[str, np.ndarray]) -> int:
    """What the scheduler would do."""
    return int(env.scores().argmax())


def by_policy(policy: LinearPolicy) -> Choose:
    """What the policy likes best, of the nodes that fit."""

    def choose(env: SchedulingEnv, seen: dict[str, np.ndarray]) -> int:
        liked = policy(seen["nodes"], seen["pod"])
        return int(np.where(env.action_masks(), liked, -np.inf).argmax())

    return choose


def episode(env: SchedulingEnv, choose: Choose, seed: int) -> float:
    """The mean reward of an episode: minus the per cent of CPU that is stranded, and minus pods without a node."""
    seen, _ = env.reset(seed=seed)
    rewards, done = [], False
    while not done:
        seen, reward, done, _, _ = env.step(choose(env, seen))
        rewards.append(reward)
    return fmean(rewards)


def learn(env: SchedulingEnv, generations: int, population: int, seed: int) -> LinearPolicy:
    """The cross-entropy method. All candidates of a generation see the same pods."""
    random = np.random.default_rng(seed)
    mean, spread = np.zeros(LinearPolicy.SIZE), np.ones(LinearPolicy.SIZE)
    for generation in range(generations):
        candidates = mean + spread * random.standard_normal((population, LinearPolicy.SIZE))
        found = [episode(env, by_policy(LinearPolicy(each)), generation) for each in candidates]
        elite = candidates[np.argsort(found)[-max(2, population // 4) :]]
        mean, spread = elite.mean(axis=0), elite.std(axis=0) + 0.05
        print(f"generation {generation + 1} of {generations}: best {max(found):.2f}", file=sys.stderr)
    return LinearPolicy(mean)


def compare(env: SchedulingEnv, policy: LinearPolicy, seeds: Sequence[int]) -> tuple[float, float, float]:
    """Mean rewards of both on the same pods, and half the width of a 95 % interval of the difference."""
    ours = [episode(env, by_policy(policy), seed) for seed in seeds]
    theirs = [episode(env, least_allocated, seed) for seed in seeds]
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    return fmean(ours), fmean(theirs), T_95 * stdev(differences) / sqrt(len(differences))


def main(argv: Sequence[str] | None = None) -> int:
    """Learn, compare on pods that were not learned from, and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--pods", type=int, default=400, help="pods of an episode")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("policy.json"))
    args = parser.parse_args(argv)
    env = environment(args.nodes, args.pods)
    policy = learn(env, args.generations, args.population, args.seed)
    policy.save(args.output)
    ours, theirs, half = compare(env, policy, range(1000, 1010))
    print(f"LeastAllocated {theirs:.2f}, learned {ours:.2f}: better by {ours - theirs:.2f} ± {half:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
