"""The production scheduler in a simulated cluster, while its calls fail, hang, lose answers and lose their watches."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.objects import Pod
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.client.faults import Faults
from kubesched.client.protocol import ApiError
from kubesched.config.load import default
from kubesched.plugins import in_tree_registry
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.settings import ClusterOptions

PODS = 12
Played = tuple[dict[str, str], list[tuple[float, str, str]]]


def disturb(faults: Faults, random: Random) -> None:
    """Add a rule for every kind of fault."""
    errors = (OSError("no route"), TimeoutError("no answer"), ApiError(500, "InternalError", "no"))
    retry = ApiError(429, "TooManyRequests", "later", retry_after=1)
    faults.fail("*", lambda: random.choice((*errors, retry)), probability=0.15)
    faults.fail("bind", lambda: random.choice(errors), probability=0.3, answer_lost=True)
    faults.repeat("bind", probability=0.1)
    faults.fail("watch_event", lambda: random.choice((*errors, ApiError(410, "Expired", "old"))), probability=0.1)
    faults.delay("*", lambda: random.uniform(0, 0.5))
    faults.delay("bind", lambda: random.uniform(0, 3), answer=True)


async def play(clock: VirtualClock, seed: int) -> Played:
    """Create pods under faults, then heal. Returns the pods' nodes, and every binding with its time and node."""
    random = Random(seed)
    faults = Faults(random)
    cluster = SimulatedCluster(clock, seed, ClusterOptions(), default(), in_tree_registry(), faults=faults)
    bound: list[tuple[float, str, str]] = []

    def note(event: StoreEvent) -> None:
        new, old = event.record.load(), event.previous.load() if event.previous else {"spec": {}}
        if new["spec"].get("nodeName") != old["spec"].get("nodeName"):
            bound.append((clock.monotonic(), new["metadata"]["name"], new["spec"].get("nodeName")))

    cluster.api.store.shelf("/pods").observers.append(note)
    await cluster.start()
    disturb(faults, random)
    client = ScenarioClient(cluster)
    for name in ("n1", "n2"):
        await client.create(node(name, cpu="4"))
    for number in range(PODS):
        await client.create(pod(f"p{number}", cpu="500m"))
        await client.sleep(1)
    if random.random() < 0.5:
        faults.pause("watch_event")
    await client.sleep(20)
    faults.heal()
    await client.sleep(400)
    pods = (await DirectClient(cluster.api).list(Pod)).items
    nodes = {each.name: each.node_name for each in pods if isinstance(each, Pod)}
    await cluster.stop()
    return nodes, bound


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_every_pod_is_bound_once(seed: int) -> None:
    """Whatever happens to the scheduler's calls, each pod gets one node and no node more than it has room for."""
    played: list[Played] = []

    async def main(clock: VirtualClock) -> None:
        played.append(await play(clock, seed))

    run_virtual(main)
    ((nodes, bound),) = played
    assert sorted(name for _, name, _ in bound) == sorted(f"p{number}" for number in range(PODS))
    assert nodes == {name: where for _, name, where in bound}
    assert all(nodes.values())
    assert all(count <= 8 for count in Counter(nodes.values()).values())


def test_the_same_seed_gives_the_same_run() -> None:
    """Faults come from the seed alone: times and nodes of all bindings are the same again."""
    played: list[Played] = []

    async def main(clock: VirtualClock) -> None:
        played.append(await play(clock, 7))

    run_virtual(main)
    run_virtual(main)
    assert played[0] == played[1]
