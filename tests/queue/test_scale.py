"""With many waiting pods, the cost of an event depends on the pods it may help and not on the number of pods."""

import pytest
from tests.measuring import CpuTime
from tests.queue.support import Rig, make_node, make_pod

from kubesched.api import objects as api
from kubesched.framework.events import NODE_ADD, NODE_DELETE, Action, ClusterEvent, Hint, Resource, on

PODS = 50_000
VOLUME_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)
CLAIM_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)


def skip(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    return Hint.SKIP


@pytest.fixture(scope="module")
def crowd() -> Rig:
    """Fifty thousand pods rejected by the same plugin."""
    rig = Rig(
        {
            "Fit": (
                on(Resource.NODE, Action.ADD, skip),
                on(Resource.PERSISTENT_VOLUME, Action.ADD, skip, by_class=True),
            ),
            "Claims": (on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD),),
        }
    )
    for number in range(PODS):
        rig.reject(make_pod(f"p{number}"), "Fit")
        rig.messages.clear()
    return rig


def cost(rig: Rig, event: ClusterEvent) -> float:
    """The time an event takes, the best of several runs."""
    rig.log.verbosity = 4  # at 5, every event is logged for every pod

    def once() -> float:
        with CpuTime() as taken:
            rig.queue.move_all(event, None, make_node())
        return taken.seconds

    return min(once() for _ in range(5))


@pytest.mark.parametrize("event", [NODE_DELETE, CLAIM_ADD], ids=lambda event: event.label)
def test_an_unrelated_event_costs_next_to_nothing(crowd: Rig, event: ClusterEvent) -> None:
    """An event that concerns no waiting pod costs less than a thousandth of one that concerns all."""
    assert cost(crowd, event) < cost(crowd, NODE_ADD) / 1000


def test_a_hint_by_class_costs_no_more_than_its_classes(crowd: Rig) -> None:
    """A hint by class is called once for fifty thousand pods of one template."""
    assert cost(crowd, VOLUME_ADD) < cost(crowd, NODE_ADD) / 1000


def test_taking_pods_out_of_the_middle_stays_cheap(crowd: Rig) -> None:
    """Deleting a pod from a large queue costs no more than from a small one."""
    few = Rig()
    for number in range(1000):
        few.reject(make_pod(f"p{number}"), "Fit")

    def per_pod(rig: Rig) -> float:
        with CpuTime() as taken:
            for number in range(1000):
                rig.queue.delete(make_pod(f"p{number}"))
        return taken.seconds

    assert per_pod(crowd) < 10 * per_pod(few)


def test_landing_in_order_stays_cheap() -> None:
    """Thousands of bindings that end in the order they began, as most do, have a constant cost each."""

    def per_pod(number: int) -> float:
        rig = Rig()
        for index in range(number):
            rig.queue.add(make_pod(f"p{index}"))
        flying = [rig.pop().uid for _ in range(number)]
        with CpuTime() as taken:
            for uid in flying:
                rig.queue.done(uid)
        return taken.seconds / number

    assert per_pod(20_000) < 10 * per_pod(500)


def test_labels_of_their_own_do_not_make_events_expensive() -> None:
    """An event costs next to nothing for twenty thousand pods of one spec, each with a label of its own."""
    rig = Rig(
        {
            "Affinity": (
                on(Resource.NODE, Action.ADD, skip, by_spec=True),
                on(Resource.PERSISTENT_VOLUME, Action.ADD, skip, by_class=True),
            )
        }
    )
    for number in range(20_000):
        rig.reject(make_pod(f"p{number}", labels={"own": str(number)}), "Affinity")
        rig.messages.clear()
    assert cost(rig, NODE_ADD) < cost(rig, VOLUME_ADD) / 500
