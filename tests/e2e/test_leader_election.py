"""Two replicas: one schedules, and when it is gone the other does."""

from __future__ import annotations

import json
import signal

from tests.e2e.api import JSON, node_of
from tests.e2e.control_plane import ADMIN, SCHEDULER, ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, Running, start
from tests.e2e.waiting import until

LEASE, RENEW, RETRY = 8, 7, 1
FLAGS = (
    f"--leader-elect-lease-duration={LEASE}s",
    f"--leader-elect-renew-deadline={RENEW}s",
    f"--leader-elect-retry-period={RETRY}s",
)
LONG = ("--leader-elect-lease-duration=3600s", "--leader-elect-renew-deadline=40s")
"""Nobody waits for the end of such a lease within this test."""


def replica(plane: ControlPlane, name: str, *flags: str, program: str = KUBESCHED, token: str = SCHEDULER) -> Running:
    """A candidate. Whether it is ready depends on nobody else."""
    return start(program, plane, *FLAGS, *flags, name=name, elect=True, kubeconfig=plane.kubeconfig(token=token))


def lease(plane: ControlPlane) -> JSON:
    """The spec of the lease, empty if there is none."""
    code, text = plane.admin.ask("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
    found: JSON = json.loads(text)["spec"] if code == 200 else {}
    return found


def holder(plane: ControlPlane) -> str:
    """Who holds the lease."""
    return str(lease(plane).get("holderIdentity") or "")


def bind(plane: ControlPlane, name: str) -> None:
    """Create a pod and wait until somebody has bound it."""
    plane.admin.create(pod(name, cpu="100m"))
    until(lambda: node_of(plane.admin.pod(name)), f"{name} is bound")


def two_replicas(plane: ControlPlane, *flags: str) -> tuple[Running, Running, str]:
    """The leader, the one that stands by, and the leader's name in the lease."""
    plane.admin.create(node("only"))
    leader = replica(plane, "leader", *flags)
    first = until(lambda: holder(plane), "somebody leads")
    other = replica(plane, "other", *flags)
    bind(plane, "before")
    assert holder(plane) == first
    return leader, other, first


def test_killed_leader(plane: ControlPlane) -> None:
    """When the leader is killed, the other leads after the lease, which is as long as the flag says, and schedules."""
    leader, other, first = two_replicas(plane)
    assert lease(plane)["leaseDurationSeconds"] == LEASE
    leader.child.kill()
    until(lambda: holder(plane), "the other leads", enough=lambda seen: seen not in ("", first))
    bind(plane, "after")
    assert set(plane.bound_times().values()) == {1}
    assert other.child.running()


def test_terminated_leader_gives_the_lease_back(plane: ControlPlane) -> None:
    """A leader that is asked to end gives the lease back, so that nobody waits for it to expire."""
    leader, _, first = two_replicas(plane, *LONG)
    assert leader.child.terminate() == 0
    until(lambda: holder(plane), "the other leads", enough=lambda seen: seen not in ("", first))
    bind(plane, "after")


def test_leader_that_slept_ends(plane: ControlPlane) -> None:
    """A leader that was frozen for longer than its lease does not schedule when it wakes up: it ends with 1."""
    leader, other, first = two_replicas(plane)
    leader.child.signal(signal.SIGSTOP)
    until(lambda: holder(plane), "the other leads", enough=lambda seen: seen not in ("", first))
    plane.admin.create(*(pod(f"meanwhile-{number}", cpu="10m") for number in range(20)))
    leader.child.signal(signal.SIGCONT)
    assert leader.child.wait() == 1
    until(lambda: [node_of(each) for each in plane.admin.pods()], "all are bound", enough=all)
    assert set(plane.bound_times().values()) == {1}
    assert other.child.running()


def test_leader_that_slept_binds_nothing_more(plane: ControlPlane) -> None:
    """Bindings that wait for their turn when a leader is frozen are not sent when it wakes up: another schedules."""
    plane.admin.create(node("only"))
    leader = replica(plane, "leader", "--kube-api-qps=10", "--kube-api-burst=1", token=ADMIN)
    first = until(lambda: holder(plane), "somebody leads")
    replica(plane, "other")
    plane.admin.create(*(pod(f"many-{number}", cpu="1m") for number in range(100)))
    until(plane.bindings, "it binds", enough=lambda seen: len(seen) >= 5)
    leader.child.signal(signal.SIGSTOP)
    until(lambda: holder(plane), "the other leads", enough=lambda seen: seen not in ("", first))
    by_the_first = bindings_of(plane, "admin")
    assert 5 <= by_the_first < 100, "it must be frozen with bindings to do"
    leader.child.signal(signal.SIGCONT)
    assert leader.child.wait() == 1
    assert bindings_of(plane, "admin") == by_the_first


def bindings_of(plane: ControlPlane, user: str) -> int:
    """How many bindings a user has tried."""
    return sum(1 for each in plane.bindings() if each["user"]["username"] == user)


def test_shares_a_lease_with_kube_scheduler(plane: ControlPlane) -> None:
    """kubesched stands by while the real kube-scheduler leads, and takes over from it; so can it be replaced live."""
    plane.admin.create(node("only"))
    leader = replica(plane, "leader", program=KUBE_SCHEDULER)
    first = until(lambda: holder(plane), "somebody leads")
    replica(plane, "other")
    bind(plane, "before")
    leader.child.kill()
    until(lambda: holder(plane), "the other leads", enough=lambda seen: seen not in ("", first))
    bind(plane, "after")
    assert set(plane.bound_times().values()) == {1}
