"""A day in a cluster of 5,000 nodes: 50,000 pods come and go, most of them by day, some all at once.

kubesched simulate examples/scenarios/day.py
"""

from math import pi, sin
from random import Random

from kubesched.simulator import ScenarioClient, node, pod

NODES = 5_000
PODS = 50_000
HOURS = 24
IMAGE = "example.com/job:1"

seed = 7
duration = "24h"
# What costs much at this size and changes no decision: heartbeats, Events, the steps between bound and running.
cluster = {"heartbeat": "0s", "events": False, "podSteps": False}

SIZES = (("500m", "1Gi"), ("1", "4Gi"), ("2", "4Gi"), ("4", "16Gi"), ("8", "32Gi"))
ZONES = ("a", "b", "c")


async def scenario(client: ScenarioClient) -> None:
    for number in range(NODES):
        zone = ZONES[number % len(ZONES)]
        await client.create(node(f"node-{number:04}", cpu=32, memory="128Gi", zone=zone, images=[IMAGE]))
    client.log(f"{NODES:,} nodes are there")

    chance = client.random
    for number, moment in enumerate(arrivals(chance)):
        await client.sleep_until(moment)
        cpu, memory = chance.choices(SIZES, weights=(30, 30, 20, 15, 5))[0]
        minutes = round(min(chance.expovariate(1 / 90) + 1, 12 * 60))
        await client.create(pod(f"pod-{number:05}", cpu=cpu, memory=memory, image=IMAGE, run_time=f"{minutes}m"))

    await client.sleep_until(HOURS * 3600)
    await client.expect(kind="Pod", count=PODS, pending=False)


def arrivals(chance: Random) -> list[float]:
    """When pods arrive, in seconds of the day: a wave with its top at 14:00, and a batch of jobs at each full hour."""
    moments: list[float] = []
    while len(moments) < PODS * 9 // 10:
        second = chance.uniform(0, HOURS * 3600 - 60)
        if chance.random() < 0.55 + 0.45 * sin((second / 3600 - 8) / 24 * 2 * pi):
            moments.append(second)
    batches = PODS - len(moments)
    moments += [3600.0 * (number % (HOURS - 1) + 1) for number in range(batches)]
    return sorted(moments)
