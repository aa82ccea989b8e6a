"""A second scheduler in a cluster that has one: each takes the pods that name it."""

from __future__ import annotations

from tests.e2e.api import condition, node_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import node, pod, priority_class
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, start
from tests.e2e.stage import Stage
from tests.e2e.waiting import until

OWN: dict[str, object] = {"profiles": [{"schedulerName": KUBESCHED}], "leaderElection": {"resourceName": KUBESCHED}}
EACH = 20


def test_each_takes_its_own(plane: ControlPlane) -> None:
    """Pods come mixed and at once; each is bound by the scheduler that it names, and by no other."""
    start(KUBE_SCHEDULER, plane, elect=True)
    start(KUBESCHED, plane, elect=True, config=OWN)
    plane.admin.create(*(node(f"node-{number}") for number in range(4)))
    for number in range(EACH):
        plane.admin.create(
            pod(f"theirs-{number}", cpu="100m"), pod(f"ours-{number}", cpu="100m", schedulerName=KUBESCHED)
        )
    until(lambda: [node_of(each) for each in plane.admin.pods()], "all are bound", enough=all)
    events = until(
        lambda: plane.admin.events(reason="Scheduled"), "all are told of", enough=lambda seen: len(seen) == 2 * EACH
    )
    for event in events:
        ours = event["regarding"]["name"].startswith("ours-")
        assert event["reportingController"] == (KUBESCHED if ours else "default-scheduler")
    assert set(plane.bound_times().values()) == {1}


def test_each_sees_what_the_other_has_placed(plane: ControlPlane) -> None:
    """Room that the other scheduler has given away is taken, and may be taken back from pods of lower priority."""
    start(KUBE_SCHEDULER, plane)
    start(KUBESCHED, plane, config=OWN)
    stage = Stage(plane)
    stage.put(priority_class("high", 1000), node("only", cpu="2"))
    stage.bound(pod("theirs", cpu="2"))
    stage.refused(pod("ours", cpu="1", schedulerName=KUBESCHED))
    assert "Insufficient cpu" in condition(plane.admin.pod("ours"))["message"]
    stage.bound(pod("urgent", cpu="2", priorityClassName="high", schedulerName=KUBESCHED))
    stage.told("theirs", "Preempted")
    stage.gone("urgent")
    stage.becomes_bound("ours")
