"""Runs one story from its first step to a quiet end, and checks what must hold."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from kubesched.torture.ending import (
    check_emptiness,
    check_end,
    check_events,
    check_rebuild,
    empty,
    is_empty,
    is_quiet,
)
from kubesched.torture.network import Met
from kubesched.torture.processes import ProcessLoop
from kubesched.torture.story import ACTIONS, SECONDS, Story, StoryStep, story_of
from kubesched.torture.world import Violation, World

SETTLE_SECONDS = 150.0
"""Longer than everything that code under test waits for: calls, leases, backoffs, unclear bindings."""
CLEAR_SECONDS = 60.0
LOOK_SECONDS = 5.0
"""Between two looks at whether everything has settled."""
EVENTS_EVERY = 8
"""Steps between two searches for pods that missed an event."""


@dataclass(slots=True)
class StoryOutcome:
    """How a story ended."""

    seed: int
    violation: Violation | None
    steps: list[StoryStep]
    reached: int = 0
    """How many steps had been made when the first invariant failed."""
    bound: int = 0
    decisions: int = 0
    digest: int = 0
    seconds: float = 0.0
    met: Met = field(default_factory=Met)


def run_story(seed: int, only: Collection[int] | None = None, met: Met | None = None) -> StoryOutcome:
    """Run a seed's story, or only some of its steps."""
    story = story_of(seed)
    return play(story if only is None else story.only(only), met)


def play(story: Story, met: Met | None = None) -> StoryOutcome:
    """Run a story."""
    met = Met() if met is None else met
    loop = ProcessLoop()
    catcher = _Catcher()
    logger = logging.getLogger("kubesched")
    logger.addHandler(catcher)
    before, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    asyncio.set_event_loop(loop)
    collects = gc.isenabled()
    gc.disable()  # a story makes little garbage that refers to itself, and looking for it takes time
    try:
        return loop.run_until_complete(_run(loop, story, met, catcher))
    finally:
        logger.removeHandler(catcher)
        logger.setLevel(before)
        logger.propagate = propagate
        asyncio.set_event_loop(None)
        loop.close()
        if collects:
            gc.enable()


async def _run(loop: ProcessLoop, story: Story, met: Met, catcher: _Catcher) -> StoryOutcome:
    world = World(loop, story.plan, story.seed, met)
    catcher.world = world
    outcome = StoryOutcome(story.seed, None, story.steps, met=met)
    try:
        await _play(world, story.steps, outcome)
    except Violation as found:
        outcome.violation = found
    finally:
        catcher.world = None
        outcome.bound = world.pods.bound
        outcome.decisions = sum(each.decisions for each in world.witnesses)
        outcome.digest, outcome.seconds = world.digest, world.now
        await world.stop()
    return outcome


async def _play(world: World, steps: list[StoryStep], outcome: StoryOutcome) -> None:
    world.start()
    for step in steps:
        await until(world, step.at)
        outcome.reached += 1
        for replica in world.replicas:
            check_rebuild(world, replica, caches=world.mood.is_calm)
            # Pods that are being deleted count for some rules only, and are not there for long.
            if outcome.reached % EVENTS_EVERY == 0 or replica.has_terminating_pods:
                check_events(world, replica)
        ACTIONS[step.action].do(world, step.params)
        raise_first(world)
    await until(world, SECONDS)
    world.heal()
    await _settle(world, SETTLE_SECONDS, is_quiet, check_end)
    empty(world)
    await _settle(world, CLEAR_SECONDS, is_empty, check_emptiness)


async def _settle(
    world: World, seconds: float, is_settled: Callable[[World], bool], check: Callable[[World], None]
) -> None:
    """Let time pass until everything has settled and a check finds nothing; after `seconds` it must find nothing."""
    deadline = world.now + seconds
    while world.now < deadline:
        await until(world, min(deadline, world.now + LOOK_SECONDS))
        if is_settled(world) and holds(world, check):
            return
    check(world)
    raise_first(world)


async def until(world: World, when: float) -> None:
    """Let time pass, and check after every moment in which something happened."""
    loop = world.loop
    passed = loop.create_future()

    def check() -> None:
        world.check()
        if world.violations:
            passed.set_exception(world.violations[0])
        elif world.now >= when:
            passed.set_result(None)

    timer = loop.call_at(when, _nothing)
    loop.on_idle = check
    try:
        await passed
    finally:
        loop.on_idle = None
        timer.cancel()


def holds(world: World, check: Callable[[World], None]) -> bool:
    """Whether a check finds nothing. What it finds is forgotten: things may still be under way."""
    check(world)
    found, world.violations = world.violations, []
    return not found


def raise_first(world: World) -> None:
    if world.violations:
        raise world.violations[0]


def _nothing() -> None:
    pass


class _Catcher(logging.Handler):
    """An exception that was caught and logged somewhere is a violation too."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.world: World | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.world is not None and record.exc_info and record.exc_info[1] is not None:
            problem = record.exc_info[1]
            self.world.report("unexpected error", f"{record.getMessage()}: {type(problem).__name__}: {problem}")
