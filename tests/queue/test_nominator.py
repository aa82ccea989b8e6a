"""Nominations, as the queue keeps them: promised in memory first, and never to a pod that is gone."""

from itertools import pairwise

from tests.queue.support import Rig, closed_gate, make_pod

from kubesched.cluster.nominations import Nominations


def nominated(rig: Rig) -> Nominations:
    return rig.cluster.nominations


def test_a_pod_that_arrives_nominated_is_nominated() -> None:
    """A restarted scheduler learns of promises from the pods' status."""
    rig = Rig()
    rig.queue.add(make_pod("a", nominated="node-1"))
    assert nominated(rig).node_of("a") == "node-1"


def test_a_gated_pod_holds_no_place() -> None:
    """A promise to a pod that may not be scheduled would keep others out for nothing."""
    rig = Rig({}, closed_gate)
    rig.queue.add(make_pod("a", gates=["g"], nominated="node-1"))
    assert nominated(rig).node_of("a") is None


def test_a_promise_in_memory_survives_an_update_that_knows_nothing_of_it() -> None:
    """An update sent before the promise reached the API server does not undo it, and the new state is what counts."""
    rig = Rig()
    old, new = make_pod("a", cpu="1"), make_pod("a", cpu="2")
    queued = rig.reject(old, "Fit")
    rig.queue.nominate(queued.info, "node-1")
    rig.queue.update(old, new)
    assert nominated(rig).node_of("a") == "node-1"
    assert [info.pod for info in nominated(rig).on("node-1")] == [new]


def test_an_update_that_speaks_of_a_nomination_decides() -> None:
    """Set, moved or cleared in the status, so it is here."""
    rig = Rig()
    states = [make_pod("a", nominated=node) for node in ("", "node-1", "node-2", "")]
    rig.reject(states[0], "Fit")
    seen = []
    for old, new in pairwise(states):
        rig.queue.update(old, new)
        seen.append(nominated(rig).node_of("a"))
    assert seen == ["node-1", "node-2", None]


def test_a_promise_can_be_withdrawn() -> None:
    """An empty name takes it back; no name means the one in the pod's status."""
    rig = Rig()
    queued = rig.reject(make_pod("a", nominated="node-1"), "Fit")
    rig.queue.nominate(queued.info, "")
    assert nominated(rig).node_of("a") is None
    rig.queue.nominate(queued.info)
    assert nominated(rig).node_of("a") == "node-1"


def test_a_deleted_pod_is_promised_nothing() -> None:
    """Neither before nor after: a promise to a ghost would be kept for good."""
    rig = Rig()
    queued = rig.reject(make_pod("a"), "Fit")
    rig.queue.nominate(queued.info, "node-1")
    rig.queue.delete(queued.pod)
    assert len(nominated(rig)) == 0
    rig.queue.nominate(queued.info, "node-1")
    assert len(nominated(rig)) == 0


def test_a_pod_deleted_in_flight_is_promised_nothing() -> None:
    """Even though it has not landed yet."""
    rig = Rig()
    rig.queue.add(make_pod("a"))
    queued = rig.pop()
    rig.queue.nominate(queued.info, "node-1")
    assert nominated(rig).node_of("a") == "node-1"
    rig.queue.delete(queued.pod)
    rig.queue.nominate(queued.info, "node-1")
    assert len(nominated(rig)) == 0
