"""DaemonSets: one pod on every eligible node, placed by the scheduler."""

from __future__ import annotations

from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.reconcile.access import DAEMON_SETS, NODES, PODS, STATEFUL_SETS


def _ready(w: World, number: int) -> bool:
    status = w.get(DAEMON_SETS, "agent")["status"]
    return bool(status["numberReady"] == status["desiredNumberScheduled"] == number == len(w.running(app="agent")))


@virtual_time
async def test_every_node_gets_one(clock: VirtualClock) -> None:
    """Every node gets one pod, bound by the scheduler, and so does a node that is added later."""
    async with world(clock, nodes=3) as w:
        w.create(DAEMON_SETS, "agent", workload("agent"))
        await w.until(lambda: _ready(w, 3))
        assert w.nodes_of(app="agent") == ["node-1", "node-2", "node-3"]
        w.create(NODES, "late")
        await w.until(lambda: _ready(w, 4))
        assert "late" in w.nodes_of(app="agent")


@virtual_time
async def test_a_stateful_set_may_have_the_same_name_and_template(clock: VirtualClock) -> None:
    """Each of the two has a revision of its own, and gets its pods."""
    async with world(clock, nodes=2) as w:
        w.create(STATEFUL_SETS, "agent", workload("agent"))
        await w.until(lambda: len(w.running(app="agent")) == 1)
        w.create(DAEMON_SETS, "agent", workload("agent"))
        await w.until(lambda: len(w.running(app="agent")) == 3)


@virtual_time
async def test_only_nodes_that_match(clock: VirtualClock) -> None:
    """With a node selector, labelling a node adds a pod there, and removing the label deletes it."""
    async with world(clock, nodes=2) as w:
        w.create(DAEMON_SETS, "agent", workload("agent", pod=template("agent", nodeSelector={"disk": "ssd"})))
        await clock.advance(2)
        assert _ready(w, 0)
        w.access.edit(NODES, "node-2", lambda node: node["metadata"]["labels"].update(disk="ssd"))
        await w.until(lambda: _ready(w, 1))
        assert w.nodes_of(app="agent") == ["node-2"]
        w.access.edit(NODES, "node-2", lambda node: node["metadata"]["labels"].pop("disk"))
        await w.until(lambda: _ready(w, 0))


@virtual_time
async def test_a_cordoned_node_has_one_and_a_tainted_one_has_not(clock: VirtualClock) -> None:
    """Daemon pods tolerate cordoned nodes, but not every taint."""
    async with world(clock, nodes=3) as w:
        w.edit(NODES, "node-1", unschedulable=True)
        w.edit(NODES, "node-2", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
        w.create(DAEMON_SETS, "agent", workload("agent"))
        await w.until(lambda: _ready(w, 2))
        assert w.nodes_of(app="agent") == ["node-1", "node-3"]


@virtual_time
async def test_an_update_replaces_them_one_at_a_time(clock: VirtualClock) -> None:
    """At most one pod is unavailable during an update."""
    async with world(clock, nodes=3) as w:
        w.create(DAEMON_SETS, "agent", workload("agent"))
        await w.until(lambda: _ready(w, 3))
        up: list[int] = []
        w.api.store.shelf(PODS).observers.append(lambda _event: up.append(len(w.running(app="agent"))))
        w.edit(DAEMON_SETS, "agent", template=template("agent", containers=[{"name": "main", "image": "agent:2"}]))
        await w.until(lambda: w.get(DAEMON_SETS, "agent")["status"].get("updatedNumberScheduled") == 3 and _ready(w, 3))
        assert min(up) >= 2
        assert {pod["spec"]["containers"][0]["image"] for pod in w.pods(app="agent")} == {"agent:2"}


@virtual_time
async def test_a_deleted_node_takes_its_daemon_with_it(clock: VirtualClock) -> None:
    """A pod whose node was deleted is deleted."""
    async with world(clock, nodes=2) as w:
        w.create(DAEMON_SETS, "agent", workload("agent"))
        await w.until(lambda: _ready(w, 2))
        w.delete(NODES, "node-2")
        await clock.advance(60)
        assert w.nodes_of(app="agent") == ["node-1"]
