"""ReplicaSets: the number of pods, the order of deletion, and adoption."""

from __future__ import annotations

from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.replicaset import BURST
from kubesched.reconcile.access import CONTROLLERS, PODS, REPLICA_SETS


def _running(w: World, number: int) -> bool:
    return len(w.running(app="web")) == number


def _pod(**labels: str) -> JSON:
    return {"spec": {"containers": [{"name": "main", "image": "nginx"}]}, "labels": labels}


@virtual_time
async def test_a_deleted_pod_is_replaced(clock: VirtualClock) -> None:
    """A deleted pod is replaced."""
    async with world(clock) as w:
        w.create(REPLICA_SETS, "web", workload("web", 2))
        await w.until(lambda: _running(w, 2))
        gone = w.pods(app="web")[0]["metadata"]["name"]
        w.delete(PODS, gone)
        await w.until(lambda: gone not in w.names(PODS) and _running(w, 2))


@virtual_time
async def test_pods_that_wait_go_before_pods_that_run(clock: VirtualClock) -> None:
    """Scaling down deletes pods without a node first."""
    async with world(clock, nodes=1) as w:
        big = template("web", containers=[{"name": "m", "image": "n", "resources": {"requests": {"cpu": "1500m"}}}])
        w.create(REPLICA_SETS, "web", workload("web", 4, pod=big))
        await w.until(lambda: _running(w, 2))
        kept = {pod["metadata"]["uid"] for pod in w.running(app="web")}
        w.edit(REPLICA_SETS, "web", replicas=2)
        await clock.advance(5)
        assert {pod["metadata"]["uid"] for pod in w.pods(app="web")} == kept


@virtual_time
async def test_a_cheap_pod_goes_before_an_expensive_one(clock: VirtualClock) -> None:
    """The deletion-cost annotation decides between otherwise equal pods."""
    async with world(clock, nodes=1) as w:
        w.create(REPLICA_SETS, "web", workload("web", 3))
        await w.until(lambda: _running(w, 3))
        cheap = w.pods(app="web")[1]["metadata"]["name"]
        w.annotate(PODS, cheap, **{"controller__kubernetes__io_pod-deletion-cost": "-5"})
        w.edit(REPLICA_SETS, "web", replicas=2)
        await clock.advance(5)
        assert cheap not in w.names(PODS)


@virtual_time
async def test_it_adopts_pods_that_it_selects(clock: VirtualClock) -> None:
    """An existing matching pod is adopted and counted."""
    async with world(clock) as w:
        w.create(PODS, "early", **_pod(app="web"))
        w.create(REPLICA_SETS, "web", workload("web", 2))
        await w.until(lambda: _running(w, 2))
        assert "early" in w.names(PODS)
        assert w.get(PODS, "early")["metadata"]["ownerReferences"][0]["name"] == "web"


@virtual_time
async def test_it_lets_go_of_pods_that_it_no_longer_selects(clock: VirtualClock) -> None:
    """A pod that loses its label is released and replaced."""
    async with world(clock) as w:
        w.create(REPLICA_SETS, "web", workload("web", 1))
        await w.until(lambda: _running(w, 1))
        name = w.pods(app="web")[0]["metadata"]["name"]
        w.access.edit(PODS, f"default/{name}", lambda pod: pod["metadata"].update(labels={"app": "debug"}))
        await w.until(lambda: _running(w, 1))
        assert not w.get(PODS, name)["metadata"].get("ownerReferences")


@virtual_time
async def test_availability_waits_for_the_least_time_ready(clock: VirtualClock) -> None:
    """A pod that is ready counts as available only after minReadySeconds."""
    async with world(clock) as w:
        w.create(REPLICA_SETS, "web", workload("web", 1, minReadySeconds=30))
        await w.until(lambda: _running(w, 1))
        await clock.advance(10)
        status = w.get(REPLICA_SETS, "web")["status"]
        assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (1, 0)
        await clock.advance(25)
        assert w.get(REPLICA_SETS, "web")["status"]["availableReplicas"] == 1


@virtual_time
async def test_pods_that_are_refused_show_as_a_failure(clock: VirtualClock) -> None:
    """A template that admission refuses leaves a condition and an event, until it is allowed."""
    async with world(clock) as w:
        w.create(REPLICA_SETS, "web", workload("web", 1, pod=template("web", serviceAccountName="robot")))
        await clock.advance(1)
        (condition,) = w.get(REPLICA_SETS, "web")["status"]["conditions"]
        assert condition["type"] == "ReplicaFailure"
        assert 'serviceaccount "robot" not found' in condition["message"]
        assert "FailedCreate" in w.reasons("web")
        w.create("/serviceaccounts", "robot")
        await w.until(lambda: _running(w, 1))
        await clock.advance(1)
        assert not w.get(REPLICA_SETS, "web")["status"].get("conditions")


@virtual_time
async def test_replication_controllers_do_the_same(clock: VirtualClock) -> None:
    """ReplicationControllers work with their plain selectors."""
    async with world(clock) as w:
        w.create(CONTROLLERS, "web", {"replicas": 2, "selector": {"app": "web"}, "template": template("web")})
        await w.until(lambda: _running(w, 2))
        await clock.advance(1)
        assert w.get(CONTROLLERS, "web")["status"]["readyReplicas"] == 2


@virtual_time
async def test_an_absurd_number_of_replicas_is_created_in_parts(clock: VirtualClock) -> None:
    """A ReplicaSet of two thousand million pods creates some at a time, and the server answers in between."""
    async with world(clock, nodes=0) as w:
        w.create(REPLICA_SETS, "web", workload("web", 2**31 - 1))
        await clock.sleep(0.001)
        assert 0 < len(w.names(PODS)) <= 2 * BURST  # the first pods cause a sync at once
        w.delete(REPLICA_SETS, "web")


@virtual_time
async def test_a_status_by_a_client_does_not_last(clock: VirtualClock) -> None:
    """A status that a client writes is corrected."""
    async with world(clock) as w:
        w.create(REPLICA_SETS, "web", workload("web", 2))
        await w.until(lambda: w.get(REPLICA_SETS, "web")["status"].get("readyReplicas") == 2)
        w.access.edit(REPLICA_SETS, "default/web", lambda obj: obj["status"].update(readyReplicas=0), "status")
        assert w.get(REPLICA_SETS, "web")["status"]["readyReplicas"] == 0
        await w.until(lambda: w.get(REPLICA_SETS, "web")["status"].get("readyReplicas") == 2)
