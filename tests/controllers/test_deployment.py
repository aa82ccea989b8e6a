"""Deployments: their ReplicaSets, rollouts and conditions."""

from __future__ import annotations

import pytest
from tests.controllers.world import World, template, workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.deployment import DeploymentController
from kubesched.controllers.rollout import REVISION, Limits, revision_of
from kubesched.reconcile.access import DEPLOYMENTS, REPLICA_SETS


def _condition(world: World, kind: str) -> JSON:
    conditions = world.get(DEPLOYMENTS, "web")["status"]["conditions"]
    return next(each for each in conditions if each["type"] == kind)


def _is_done(world: World, replicas: int = 3) -> bool:
    deployment = world.get(DEPLOYMENTS, "web")
    status = deployment.get("status") or {}
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return seen and counts == [replicas] * 3


def _new_template(image: str) -> JSON:
    return template("web", containers=[{"name": "main", "image": image}])


@virtual_time
async def test_its_pods_run(clock: VirtualClock) -> None:
    """Three replicas become three running pods of one ReplicaSet, and the Deployment is available."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 3))
        await w.until(lambda: _is_done(w))
        assert len(w.running(app="web")) == 3
        assert len(w.names(REPLICA_SETS)) == 1
        assert _condition(w, "Available")["status"] == "True"
        assert _condition(w, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert "ScalingReplicaSet" in w.reasons("web")
        conditions = w.get(DEPLOYMENTS, "web")["status"]["conditions"]
        assert [each["type"] for each in conditions] == ["Available", "Progressing"]  # as kubectl describe shows them


@virtual_time
async def test_a_rolling_update_never_has_too_few_or_too_many(clock: VirtualClock) -> None:
    """With maxSurge 1 and maxUnavailable 0, there are never fewer ready pods than desired, and at most one more."""
    async with world(clock) as w:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        w.create(DEPLOYMENTS, "web", workload("web", 3, strategy=rolling))
        await w.until(lambda: _is_done(w))
        seen: list[tuple[int, int]] = []

        def look(_event: object) -> None:
            active = [pod for pod in w.pods(app="web") if "deletionTimestamp" not in pod["metadata"]]
            ready = [pod for pod in active if pod["status"]["phase"] == "Running"]
            seen.append((len(ready), len(active)))

        w.api.store.shelf("/pods").observers.append(look)
        w.edit(DEPLOYMENTS, "web", template=_new_template("nginx:1.28"))
        await w.until(lambda: _is_done(w))
        assert min(ready for ready, _ in seen) >= 3
        assert max(active for _, active in seen) <= 4
        assert {pod["spec"]["containers"][0]["image"] for pod in w.running(app="web")} == {"nginx:1.28"}


@virtual_time
async def test_an_old_status_does_not_shrink_a_replica_set_twice(clock: VirtualClock) -> None:
    """While a ReplicaSet's status still counts pods of before, the next steps of a rollout remove no more of them."""
    async with world(clock) as w:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        w.create(DEPLOYMENTS, "web", workload("web", 10, strategy=rolling))
        await w.until(lambda: _is_done(w, 10))
        [old] = w.names(REPLICA_SETS)
        w.edit(DEPLOYMENTS, "web", template=_new_template("nginx:1.28"))
        controller = next(each for each in w.cluster.controllers.controllers if isinstance(each, DeploymentController))
        for _ in range(6):  # without a chance for the ReplicaSets' own controller
            controller.sync("default/web")
        sizes = {name: w.get(REPLICA_SETS, name)["spec"]["replicas"] for name in w.names(REPLICA_SETS)}
        assert sizes.pop(old) == 8
        assert list(sizes.values()) == [5]


@virtual_time
async def test_recreate_ends_all_before_it_begins_anew(clock: VirtualClock) -> None:
    """Old and new pods never run at the same time."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 2, strategy={"type": "Recreate"}))
        await w.until(lambda: _is_done(w, 2))
        mixed: list[bool] = []

        def look(_event: object) -> None:
            mixed.append(len({pod["spec"]["containers"][0]["image"] for pod in w.pods(app="web")}) > 1)

        w.api.store.shelf("/pods").observers.append(look)
        w.edit(DEPLOYMENTS, "web", template=_new_template("nginx:1.28"))
        await w.until(lambda: _is_done(w, 2))
        assert not any(mixed)


@virtual_time
async def test_going_back_takes_up_the_old_replica_set(clock: VirtualClock) -> None:
    """A rollback reuses the old ReplicaSet with a new revision and keeps the old number in its history."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 2, pod=_new_template("nginx:1")))
        await w.until(lambda: _is_done(w, 2))
        (first,) = w.names(REPLICA_SETS)
        w.edit(DEPLOYMENTS, "web", template=_new_template("nginx:2"))
        await w.until(lambda: _is_done(w, 2))
        w.edit(DEPLOYMENTS, "web", template=_new_template("nginx:1"))
        await w.until(lambda: _is_done(w, 2))
        found = w.get(REPLICA_SETS, first)
        assert found["spec"]["replicas"] == 2
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


@virtual_time
async def test_scaling_makes_no_new_replica_set(clock: VirtualClock) -> None:
    """Scaling works up, down and to zero."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 1))
        for replicas in (5, 2, 0, 1):
            w.edit(DEPLOYMENTS, "web", replicas=replicas)
            await w.until(lambda replicas=replicas: _is_done(w, replicas))  # type: ignore[misc]  # bound on purpose
        assert len(w.names(REPLICA_SETS)) == 1


@virtual_time
async def test_a_paused_deployment_does_not_roll(clock: VirtualClock) -> None:
    """A paused Deployment does not roll out a new template until it is resumed."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 2))
        await w.until(lambda: _is_done(w, 2))
        w.edit(DEPLOYMENTS, "web", paused=True, template=_new_template("nginx:2"))
        await clock.advance(30)
        assert len(w.names(REPLICA_SETS)) == 1
        assert _condition(w, "Progressing")["reason"] == "DeploymentPaused"
        w.edit(DEPLOYMENTS, "web", paused=False)
        await w.until(lambda: _is_done(w, 2))
        assert len(w.names(REPLICA_SETS)) == 2


@virtual_time
async def test_a_rollout_that_does_not_move_is_told_after_its_deadline(clock: VirtualClock) -> None:
    """A rollout whose pods fit nowhere exceeds its deadline."""
    async with world(clock) as w:
        impossible = template("web", nodeSelector={"disk": "ssd"})
        w.create(DEPLOYMENTS, "web", workload("web", 1, pod=impossible, progressDeadlineSeconds=60))
        await clock.advance(30)
        assert _condition(w, "Progressing")["status"] == "True"
        await clock.advance(60)
        assert _condition(w, "Progressing")["reason"] == "ProgressDeadlineExceeded"


@virtual_time
async def test_old_revisions_are_forgotten_beyond_the_limit(clock: VirtualClock) -> None:
    """With a history limit of two, the last two old ReplicaSets are kept."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 1, pod=_new_template("nginx:0"), revisionHistoryLimit=2))
        await w.until(lambda: _is_done(w, 1))
        for number in range(1, 5):
            w.edit(DEPLOYMENTS, "web", template=_new_template(f"nginx:{number}"))
            await w.until(lambda: _is_done(w, 1))
        await clock.advance(1)
        images = {
            w.get(REPLICA_SETS, name)["spec"]["template"]["spec"]["containers"][0]["image"]
            for name in w.names(REPLICA_SETS)
        }
        assert images == {"nginx:2", "nginx:3", "nginx:4"}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (4, "25%", "25%", Limits(1, 1)),
        (3, "25%", "25%", Limits(1, 0)),
        (10, "25%", "25%", Limits(3, 2)),
        (10, 2, 0, Limits(2, 0)),
        (3, "0%", "25%", Limits(0, 1)),
        (2, 0, 5, Limits(0, 2)),
    ],
)
def test_percentages(replicas: int, surge: object, unavailable: object, limits: Limits) -> None:
    """maxSurge is rounded up, maxUnavailable down, and they are never both zero."""
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    assert Limits.of({"spec": spec}) == limits


@pytest.mark.parametrize(
    ("text", "revision"),
    [
        ("3546343826724305832", 3546343826724305832),  # as an adopted ReplicaSet of upstream's own suite has it
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 0),
        ("9" * 5000, 0),
        ("first", 0),
    ],
)
def test_a_revision_is_any_number_of_64_bits(text: str, revision: int) -> None:
    """What is none, or does not fit, counts as 0."""
    assert revision_of({"metadata": {"annotations": {REVISION: text}}}) == revision
