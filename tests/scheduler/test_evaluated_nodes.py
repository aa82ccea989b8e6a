"""How many nodes an attempt reports as evaluated, with and without `percentageOfNodesToScore`."""

from __future__ import annotations

import pytest
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.cluster.view import NodeInfo
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status


class Counting(Plugin):
    """A per-node Filter that counts its calls."""

    name = "Counting"
    asked = 0

    def filter(self, state: CycleState, pod: object, node: NodeInfo) -> Status | None:
        Counting.asked += 1
        return None


@pytest.mark.parametrize(("percentage", "feasible"), [(0, 150), (10, 100), (100, 150)])
def test_all_nodes_are_filtered(percentage: int, feasible: int) -> None:
    """Vectorised plugins filter every node; the percentage limits how many feasible nodes are scored."""

    @virtual_time
    async def check(clock: VirtualClock) -> None:
        nodes = [node(f"n{i}") for i in range(150)]
        async with world(clock, *nodes, percentageOfNodesToScore=percentage) as here:
            here.create(pod("web", cpu="1"))
            await here.settle(1)
            (bound,) = [fields for _, text, fields in here.log if text == "Successfully bound pod to node"]
            assert (bound["evaluatedNodes"], bound["feasibleNodes"]) == (150, feasible)

    check()


@virtual_time
async def test_one_node_filters_stop_early(clock: VirtualClock) -> None:
    """With a per-node Filter, the search stops when enough nodes fit, and only the nodes visited count."""
    Counting.asked = 0
    nodes = [node(f"n{i}") for i in range(150)]
    async with world(clock, *nodes, plugins=[Counting]) as here:
        here.create(pod("web", cpu="1"))
        await here.settle(1)
        (bound,) = [fields for _, text, fields in here.log if text == "Successfully bound pod to node"]
        assert (bound["evaluatedNodes"], bound["feasibleNodes"]) == (100, 100)
    assert Counting.asked == 100
