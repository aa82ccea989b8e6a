"""StatefulSets: order, names, claims, updates."""

from __future__ import annotations

import pytest
from tests.controllers.world import World, template, workload, world

from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.controllers.statefulset import BURST
from kubesched.reconcile.access import CLAIMS, EVENTS, PODS, REVISIONS, STATEFUL_SETS, VOLUMES


def _is_done(w: World, replicas: int) -> bool:
    status = w.get(STATEFUL_SETS, "db").get("status") or {}
    seen = status.get("observedGeneration") == w.get(STATEFUL_SETS, "db")["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
    return seen and counts == [replicas] * 3


@virtual_time
async def test_pods_come_one_after_the_other(clock: VirtualClock) -> None:
    """Each pod is created when the previous one is ready, and scaling down deletes the last one first."""
    order: list[tuple[ChangeType, str, int]] = []

    def note(event: StoreEvent) -> None:
        if event.change is not ChangeType.MODIFIED:
            order.append((event.change, event.record.name, len(w.running(app="db"))))

    async with world(clock) as w:
        w.access.store.shelf(PODS).observers.append(note)
        w.create(STATEFUL_SETS, "db", workload("db", 3, serviceName="db"))
        await w.until(lambda: _is_done(w, 3))
        assert order == [(ChangeType.ADDED, "db-0", 0), (ChangeType.ADDED, "db-1", 1), (ChangeType.ADDED, "db-2", 2)]
        assert w.get(PODS, "db-1")["spec"]["hostname"] == "db-1"
        w.edit(STATEFUL_SETS, "db", replicas=1)
        await w.until(lambda: _is_done(w, 1))
        assert [each[:2] for each in order[3:]] == [(ChangeType.DELETED, "db-2"), (ChangeType.DELETED, "db-1")]


@virtual_time
async def test_in_parallel_they_all_come_at_once(clock: VirtualClock) -> None:
    """With the policy Parallel all pods are created at once."""
    async with world(clock) as w:
        w.create(STATEFUL_SETS, "db", workload("db", 3, podManagementPolicy="Parallel"))
        await clock.settle()
        assert w.names(PODS) == ["db-0", "db-1", "db-2"]


@virtual_time
async def test_each_has_its_claim_and_keeps_it(clock: VirtualClock) -> None:
    """Claims are created from the template, bound to new volumes, and kept when their pod is replaced."""
    async with world(clock) as w:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        templates = [{"metadata": {"name": "data"}, "spec": claim}]
        mounted = [{"name": "main", "image": "pg", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
        pod = template("db", containers=mounted)
        w.create(STATEFUL_SETS, "db", workload("db", 2, pod=pod, volumeClaimTemplates=templates))
        await w.until(lambda: _is_done(w, 2))
        assert w.names(CLAIMS) == ["data-db-0", "data-db-1"]
        volume = w.get(CLAIMS, "data-db-1")["spec"]["volumeName"]
        w.delete(PODS, "db-1")
        await clock.advance(2)
        await w.until(lambda: _is_done(w, 2))
        assert w.get(CLAIMS, "data-db-1")["spec"]["volumeName"] == volume
        assert len(w.names(VOLUMES)) == 2
        told = [each["message"] for each in w.access.list(EVENTS) if each["involvedObject"]["kind"] == "StatefulSet"]
        assert "create Claim data-db-0 Pod db-0 in StatefulSet db success" in told
        assert "create Pod db-0 in StatefulSet db successful" in told


@virtual_time
async def test_an_update_goes_from_the_last_to_the_partition(clock: VirtualClock) -> None:
    """Pods below the partition keep their template until the partition is lowered."""
    async with world(clock) as w:
        w.create(STATEFUL_SETS, "db", workload("db", 3))
        await w.until(lambda: _is_done(w, 3))
        new = template("db", containers=[{"name": "main", "image": "nginx:2"}])
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        w.edit(STATEFUL_SETS, "db", template=new, updateStrategy=strategy)
        await clock.advance(20)
        images = [w.get(PODS, f"db-{n}")["spec"]["containers"][0]["image"] for n in range(3)]
        assert images == ["nginx:1.27", "nginx:1.27", "nginx:2"]
        for name in ("db-0", "db-2"):
            w.delete(PODS, name)
        await clock.advance(20)
        images = [w.get(PODS, f"db-{n}")["spec"]["containers"][0]["image"] for n in range(3)]
        assert images == ["nginx:1.27", "nginx:1.27", "nginx:2"]
        w.edit(STATEFUL_SETS, "db", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        await w.until(lambda: _is_done(w, 3))
        status = w.get(STATEFUL_SETS, "db")["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert len(w.names("apps/controllerrevisions")) == 2


@virtual_time
async def test_an_update_replaces_one_at_a_time(clock: VirtualClock) -> None:
    """An update replaces one pod at a time, even with the policy Parallel."""
    async with world(clock) as w:
        w.create(STATEFUL_SETS, "db", workload("db", 3, podManagementPolicy="Parallel"))
        await w.until(lambda: _is_done(w, 3))
        up: list[int] = []
        w.access.store.shelf(PODS).observers.append(lambda _event: up.append(len(w.running(app="db"))))
        w.edit(STATEFUL_SETS, "db", template=template("db", containers=[{"name": "main", "image": "nginx:2"}]))
        await w.until(lambda: _is_done(w, 3))
        assert {w.get(PODS, f"db-{n}")["spec"]["containers"][0]["image"] for n in range(3)} == {"nginx:2"}
        assert min(up) == 2


@virtual_time
async def test_claims_go_when_that_is_wanted(clock: VirtualClock) -> None:
    """The retention policy deletes claims with surplus pods and with the StatefulSet."""
    async with world(clock) as w:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        templates = [{"metadata": {"name": "data"}, "spec": claim}]
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        spec = workload("db", 2, volumeClaimTemplates=templates, persistentVolumeClaimRetentionPolicy=policy)
        w.create(STATEFUL_SETS, "db", spec)
        await w.until(lambda: _is_done(w, 2))
        w.edit(STATEFUL_SETS, "db", replicas=1)
        await w.until(lambda: w.names(CLAIMS) == ["data-db-0"], timeout=60)
        w.delete(STATEFUL_SETS, "db")
        await w.until(lambda: w.names(CLAIMS) == [], timeout=60)


@virtual_time
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_claims_come_well_before_their_pod(clock: VirtualClock, policy: str) -> None:
    """A scheduler that watches claims and pods on two streams sees the claim first, so no attempt fails for it."""
    created: dict[str, float] = {}

    def note(event: StoreEvent) -> None:
        if event.change is ChangeType.ADDED:
            created[event.record.name] = clock.monotonic()

    async with world(clock) as w:
        for storage in (PODS, CLAIMS):
            w.access.store.shelf(storage).observers.append(note)
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        templates = [{"metadata": {"name": "data"}, "spec": claim}]
        w.create(STATEFUL_SETS, "db", workload("db", 3, podManagementPolicy=policy, volumeClaimTemplates=templates))
        await w.until(lambda: _is_done(w, 3))
    assert all(created[f"db-{n}"] - created[f"data-db-{n}"] > 0.01 for n in range(3))


@virtual_time
async def test_an_absurd_number_of_replicas_is_created_in_parts(clock: VirtualClock) -> None:
    """A parallel StatefulSet of two thousand million pods creates and deletes some at a time."""
    async with world(clock, nodes=0) as w:
        w.create(STATEFUL_SETS, "db", workload("db", 2**31 - 1, podManagementPolicy="Parallel"))
        await clock.sleep(0.001)
        assert 0 < len(w.names(PODS)) <= 2 * BURST  # the first pods cause a sync at once
        await clock.sleep(0.2)
        many = len(w.names(PODS))
        assert many > 2 * BURST
        w.edit(STATEFUL_SETS, "db", replicas=0)
        await clock.sleep(0.001)
        assert len(w.names(PODS)) >= many - 2 * BURST
        await w.until(lambda: not w.names(PODS))


@virtual_time
async def test_an_absurd_number_of_claims_is_created_in_parts(clock: VirtualClock) -> None:
    """Claims count as pods do: two thousand million pods with twenty claims each create some at a time."""
    async with world(clock, nodes=0) as w:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims = [{"metadata": {"name": f"data-{number}"}, "spec": claim} for number in range(20)]
        spec = workload("db", 2**31 - 1, podManagementPolicy="Parallel", volumeClaimTemplates=claims)
        w.create(STATEFUL_SETS, "db", spec)
        await clock.sleep(0.001)
        assert 0 < len(w.names(CLAIMS)) <= BURST
        await clock.sleep(0.5)
        assert w.names(PODS)


@virtual_time
async def test_pods_are_labelled_with_the_name_of_their_revision(clock: VirtualClock) -> None:
    """The label is the whole name, as the status and the ControllerRevision have it."""
    async with world(clock) as w:
        w.create(STATEFUL_SETS, "db", workload("db", 1, serviceName="db"))
        await w.until(lambda: len(w.running(app="db")) == 1)
        (pod,) = w.running(app="db")
        (revision,) = w.access.list(REVISIONS, "default")
        name = revision["metadata"]["name"]
        assert pod["metadata"]["labels"]["controller-revision-hash"] == name
        assert w.get(STATEFUL_SETS, "db")["status"]["updateRevision"] == name
        assert list(revision["data"]["spec"]["template"]) == ["$patch", "metadata", "spec"]
