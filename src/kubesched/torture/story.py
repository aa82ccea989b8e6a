"""A story: what happens in one simulation, step by step, from one seed.

Steps are plain data with their own random numbers, so that a step does the same whether or not the others are there.
That is what makes a failing story reducible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from kubesched.torture import faults, workload
from kubesched.torture.plan import Act, Plan

SECONDS = 120.0
"""How long things happen. After that nothing is disturbed, and everything must settle."""

SHARE_WITH_MORE = 0.15


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One thing that happens."""

    number: int
    at: float
    action: str
    params: dict[str, Any] = field(default_factory=dict)
    words: str = ""

    def __str__(self) -> str:
        return f"{self.at:6.1f}s  {self.words}"


ACTIONS: dict[str, Act] = {**workload.ACTIONS, **faults.ACTIONS}


@dataclass(frozen=True, slots=True)
class Story:
    """The world of a simulation, and the steps in it. It can be kept as JSON, whatever becomes of the generator."""

    seed: int
    plan: Plan
    steps: list[StoryStep]

    def only(self, numbers: Collection[int]) -> Story:
        """Some steps of the story."""
        return Story(self.seed, self.plan, [step for step in self.steps if step.number in numbers])

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "plan": self.plan.settings, "steps": [asdict(step) for step in self.steps]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Story:
        return cls(kept["seed"], Plan(**kept["plan"]), [StoryStep(**step) for step in kept["steps"]])


def story_of(seed: int) -> Story:
    """The story of a seed: the world it plays in, and its steps in order."""
    random = Random(f"story {seed}")
    plan = Plan.of(random)
    chosen = [(0.0, "node")] * plan.nodes
    number = random.randint(15, 45)
    chosen += [(random.uniform(1, SECONDS * 0.8), _pick(workload.WEIGHTS, random)) for _ in range(number)]
    # A few kinds of faults per story, often: rare combinations need stories that dwell on something.
    favourites = random.sample(sorted(faults.WEIGHTS), k=random.randint(2, 6))
    some = {name: faults.WEIGHTS[name] for name in favourites}
    chosen += [(random.uniform(1, SECONDS), _pick(some, random)) for _ in range(random.randint(4, 25))]
    chosen.sort(key=lambda each: each[0])
    steps = []
    for index, (at, name) in enumerate(chosen):
        params, words = ACTIONS[name].make(random, plan)
        steps.append(StoryStep(index, at, name, {**params, "seed": seed * 100_000 + index}, words))
    return Story(seed, plan, _with_more(seed, plan, steps))


def _with_more(seed: int, plan: Plan, steps: list[StoryStep]) -> list[StoryStep]:
    """Some stories get one more step. It has random numbers of its own, so that the other steps stay as they were."""
    random = Random(f"more of story {seed}")
    if random.random() >= SHARE_WITH_MORE:
        return steps
    params, words = ACTIONS["awaited node"].make(random, plan)
    number = len(steps)
    more = StoryStep(
        number, random.uniform(1, SECONDS * 0.8), "awaited node", {**params, "seed": seed * 100_000 + number}, words
    )
    return sorted([*steps, more], key=lambda step: step.at)


def _pick(weights: dict[str, int], random: Random) -> str:
    return random.choices(list(weights), list(weights.values()))[0]
