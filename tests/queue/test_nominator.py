"""Nominations in the queue: kept in memory first, and never for a deleted pod."""

from itertools import pairwise

from tests.queue.support import Rig, closed_gate, make_pod

from kubesched.cluster.nominations import Nominations


def nominated(rig: Rig) -> Nominations:
    return rig.cluster.nominations


def test_a_pod_that_arrives_nominated_is_nominated() -> None:
    """A restarted scheduler reads nominations from the pods' status."""
    rig = Rig()
    rig.queue.add(make_pod("a", nominated="node-1"))
    assert nominated(rig).node_of("a") == "node-1"


def test_a_gated_pod_holds_no_place() -> None:
    """A gated pod is not nominated, because its nomination would block others for nothing."""
    rig = Rig({}, closed_gate)
    rig.queue.add(make_pod("a", gates=["g"], nominated="node-1"))
    assert nominated(rig).node_of("a") is None


def test_a_nomination_in_memory_survives_an_older_update() -> None:
    """An update from before the nomination was written does not undo it, and the pod takes its new state."""
    rig = Rig()
    old, new = make_pod("a", cpu="1"), make_pod("a", cpu="2")
    queued = rig.reject(old, "Fit")
    rig.queue.nominate(queued.info, "node-1")
    rig.queue.update(old, new)
    assert nominated(rig).node_of("a") == "node-1"
    assert [info.pod for info in nominated(rig).on("node-1")] == [new]


def test_an_update_of_the_nomination_is_applied() -> None:
    """An update that sets, changes or clears the nomination in the status is applied."""
    rig = Rig()
    states = [make_pod("a", nominated=node) for node in ("", "node-1", "node-2", "")]
    rig.reject(states[0], "Fit")
    seen = []
    for old, new in pairwise(states):
        rig.queue.update(old, new)
        seen.append(nominated(rig).node_of("a"))
    assert seen == ["node-1", "node-2", None]


def test_a_nomination_can_be_cleared() -> None:
    """An empty name clears the nomination; None means the one in the pod's status."""
    rig = Rig()
    queued = rig.reject(make_pod("a", nominated="node-1"), "Fit")
    rig.queue.nominate(queued.info, "")
    assert nominated(rig).node_of("a") is None
    rig.queue.nominate(queued.info)
    assert nominated(rig).node_of("a") == "node-1"


def test_a_deleted_pod_has_no_nomination() -> None:
    """A deleted pod has no nomination, whether it was nominated before or after the deletion."""
    rig = Rig()
    queued = rig.reject(make_pod("a"), "Fit")
    rig.queue.nominate(queued.info, "node-1")
    rig.queue.delete(queued.pod)
    assert len(nominated(rig)) == 0
    rig.queue.nominate(queued.info, "node-1")
    assert len(nominated(rig)) == 0


def test_a_pod_deleted_in_flight_has_no_nomination() -> None:
    """A pod deleted in flight cannot be nominated."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.nominate(queued.info, "node-1")
    assert nominated(rig).node_of("a") == "node-1"
    rig.queue.delete(queued.pod)
    rig.queue.nominate(queued.info, "node-1")
    assert len(nominated(rig)) == 0
