"""Whatever breaks, afterwards every pod is bound exactly once, and no node holds more than it can."""

from __future__ import annotations

import time

import pytest
from tests.e2e.api import condition, node_of
from tests.e2e.control_plane import SCHEDULER, ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.relay import Relay
from tests.e2e.schedulers import KUBESCHED, start
from tests.e2e.waiting import until

NODES, PLACES = 5, 30
PODS = NODES * PLACES
"""As many as there are places, so that a place given twice or lost shows."""
SLOW = ("--kube-api-qps=20", "--kube-api-burst=1")
"""A scheduler that needs at least 7.5 s for all of them, so that it can be killed before it is through."""


def make_nodes(plane: ControlPlane) -> None:
    """Nodes with room for so many pods each, and no more."""
    plane.admin.create(*(node(f"node-{number}", cpu=str(PLACES)) for number in range(NODES)))


def make_pods(plane: ControlPlane, first: int, last: int) -> None:
    """The pods from one number up to another."""
    plane.admin.create(*(pod(f"pod-{number}", cpu="1") for number in range(first, last)))


def bound(plane: ControlPlane) -> int:
    """How many pods have a node."""
    return sum(1 for each in plane.admin.pods() if node_of(each))


def some_bound(plane: ControlPlane, count: int) -> None:
    """Wait until the scheduler is at work."""
    until(lambda: bound(plane), f"{count} pods are bound", enough=lambda seen: seen >= count)


def every_pod_is_bound_once(plane: ControlPlane) -> None:
    """Wait until all pods are bound, and see that none was twice and no node is too full.

    A binding whose client was gone before the answer is not written down as a success, so there may be fewer of those.
    """
    until(lambda: bound(plane), "all pods are bound", enough=lambda seen: seen == PODS)
    held: dict[str, int] = {}
    for each in plane.admin.pods():
        held[node_of(each)] = held.get(node_of(each), 0) + 1
    assert held == {f"node-{number}": PLACES for number in range(NODES)}
    assert {condition(each)["status"] for each in plane.admin.pods()} == {"True"}
    assert set(plane.bound_times().values()) == {1}


def test_api_server_killed(plane: ControlPlane) -> None:
    """An API server that dies in the middle of binding and comes back finds a scheduler that goes on."""
    make_nodes(plane)
    make_pods(plane, 0, 120)
    scheduler = start(KUBESCHED, plane, ready=False)
    some_bound(plane, 1)
    plane.api_server.kill()
    time.sleep(1)
    plane.start_api_server()
    make_pods(plane, 120, PODS)
    every_pod_is_bound_once(plane)
    assert scheduler.child.running()


def test_etcd_paused(plane: ControlPlane) -> None:
    """While etcd neither answers nor refuses, nothing is lost."""
    make_nodes(plane)
    make_pods(plane, 0, 130)
    scheduler = start(KUBESCHED, plane, ready=False)
    some_bound(plane, 1)
    with plane.paused_etcd():
        time.sleep(6)
    until(plane.is_ready, "the API server has recovered")
    make_pods(plane, 130, PODS)
    every_pod_is_bound_once(plane)
    assert scheduler.child.running()


def test_watches_cut(plane: ControlPlane) -> None:
    """Connections that break, of watches and of bindings, are made again, and what happened meanwhile is seen."""
    make_nodes(plane)
    with Relay(plane.port) as relay:
        scheduler = start(KUBESCHED, plane, kubeconfig=plane.kubeconfig(token=SCHEDULER, port=relay.port))
        for first in range(0, PODS, 30):
            make_pods(plane, first, first + 30)
            until(relay.cut, "there is something to cut")
        every_pod_is_bound_once(plane)
        scheduler.child.kill()


@pytest.mark.parametrize("after", [1, 40])
def test_scheduler_killed_with_binds_in_flight(plane: ControlPlane, after: int) -> None:
    """A scheduler that is killed while it binds leaves nothing that the next one cannot finish."""
    make_nodes(plane)
    make_pods(plane, 0, PODS)
    first = start(KUBESCHED, plane, *SLOW, name="first", ready=False)
    some_bound(plane, after)
    first.child.kill()
    assert bound(plane) < PODS, "it was too fast for this test"
    start(KUBESCHED, plane, name="second")
    every_pod_is_bound_once(plane)


def test_terminated_scheduler_sees_its_bindings_through(plane: ControlPlane) -> None:
    """A scheduler that is asked to end finishes what it has begun, tells of it, and ends well."""
    make_nodes(plane)
    make_pods(plane, 0, PODS)
    first = start(KUBESCHED, plane, name="first", ready=False)
    some_bound(plane, 1)
    assert first.child.terminate() == 0
    done = bound(plane)
    assert len(plane.admin.events(reason="Scheduled")) == done
    assert not [line for line in first.child.output().splitlines() if line.startswith("E")]
    start(KUBESCHED, plane, name="second")
    every_pod_is_bound_once(plane)
