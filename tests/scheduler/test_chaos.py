"""In a cluster where half of all calls fail, no pod is lost or bound twice, and no node is overcommitted."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.builders import node, pod
from tests.scheduler.world import World, world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.protocol import ApiError

CALLS = ("list", "watch", "bind", "patch_pod_status", "delete_pod")


def trouble(random: Random) -> Exception:
    """A random API server failure."""
    return random.choice(
        [
            ApiError(500, "InternalError", "etcd is away"),
            ApiError(429, "TooManyRequests", "slow down"),
            ApiError(409, "Conflict", "try again"),
            TimeoutError("no answer"),
            ConnectionResetError("gone"),
        ]
    )


async def disturb(here: World, random: Random) -> None:
    """Now and then, break watches or make the server drop its history."""
    while True:
        await asyncio.sleep(random.uniform(1, 8))
        here.api.cut_watches(random.choice([api.Pod, api.Node, None]))
        if random.random() < 0.3:
            here.api.forget_history()


async def come_and_go(here: World, random: Random) -> None:
    """Create sixty pods and delete some of them within half a minute."""
    for number in range(60):
        here.create(pod(f"p{number}", cpu=f"{random.randint(1, 8) * 100}m", priority=random.choice([0, 0, 0, 10])))
        await asyncio.sleep(random.uniform(0, 1))
        if random.random() < 0.15 and here.api.objects(api.Pod):
            here.api.delete(random.choice(here.api.objects(api.Pod)))


@pytest.mark.parametrize("seed", range(8))
def test_half_of_all_calls_fail(seed: int) -> None:
    """In the end every remaining pod is bound exactly once, and no node exceeds its allocatable."""

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        random = Random(seed)
        nodes = [node(f"n{number}", cpu="12") for number in range(4)]
        async with world(clock, *nodes, seed=seed) as here:
            for call in CALLS:
                here.api.fail(call, lambda: trouble(random), probability=0.5)
                here.api.delay(call, lambda: random.uniform(0, 0.3))
            disturbance = asyncio.create_task(disturb(here, random))
            await come_and_go(here, random)
            await here.settle(60)
            disturbance.cancel()
            here.api.heal()
            await here.settle(400)
            assert all(each.node_name for each in here.api.objects(api.Pod))
            assert not any("Unexpected" in line for line in here.log.errors())

    run()


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_lost(seed: int) -> None:
    """Calls that took effect although they failed do no harm as long as the watch works."""

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        random = Random(seed)
        async with world(clock, node("n1", cpu="2"), node("n2", cpu="2"), seed=seed) as here:
            here.api.fail("bind", lambda: trouble(random), probability=0.5, answer_lost=True)
            here.create(*(pod(f"p{number}", cpu="500m") for number in range(12)))
            await here.settle(120)
            here.api.heal()
            await here.settle(400)
            assert sum(bool(each.node_name) for each in here.api.objects(api.Pod)) == 8

    run()


def test_two_runs_are_the_same() -> None:
    """On a virtual clock with the same seed, two runs are identical."""

    @virtual_time
    async def bindings(clock: VirtualClock) -> tuple[object, ...]:
        async with world(clock, *(node(f"n{number}") for number in range(5)), seed=3) as here:
            here.api.fail("bind", probability=0.3)
            here.create(*(pod(f"p{number}", cpu="100m") for number in range(50)))
            await here.settle(60)
            return tuple(here.api.bindings)

    assert bindings() == bindings()
