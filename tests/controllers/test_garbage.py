"""Garbage collection: background, foreground, orphans, and owners that come and go."""

from __future__ import annotations

from functools import partial

from tests.controllers.world import World, workload, world

from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.reconcile.access import CONFIG_MAPS, DEPLOYMENTS, PODS, REPLICA_SETS


def _note(order: list[str], storage: str, event: StoreEvent) -> None:
    if event.change is ChangeType.DELETED:
        order.append(storage)


def _set_owner(reference: JSON, obj: JSON) -> None:
    obj["metadata"]["ownerReferences"] = [reference]


def _hold(obj: JSON) -> None:
    obj["metadata"]["finalizers"] = ["example.com/hold"]


async def _deployment(w: World) -> None:
    w.create(DEPLOYMENTS, "web", workload("web", 2))
    await w.until(lambda: len(w.running(app="web")) == 2)


def _owned(w: World, name: str, *owners: JSON, block: bool = False) -> None:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": each["metadata"]["name"],
            "uid": each["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for each in owners
    ]
    meta = {"name": name, "namespace": "default", "ownerReferences": references}
    w.access.create(CONFIG_MAPS, {"metadata": meta})


@virtual_time
async def test_in_the_background_dependents_follow(clock: VirtualClock) -> None:
    """The Deployment is gone at once, its ReplicaSet and pods soon after."""
    async with world(clock) as w:
        await _deployment(w)
        w.delete(DEPLOYMENTS, "web", "Background")
        assert w.names(DEPLOYMENTS) == []
        await clock.advance(2)
        assert (w.names(REPLICA_SETS), w.names(PODS)) == ([], [])


@virtual_time
async def test_in_the_foreground_the_owner_goes_last(clock: VirtualClock) -> None:
    """The Deployment outlives its ReplicaSet, and the ReplicaSet its pods."""
    async with world(clock) as w:
        await _deployment(w)
        order: list[str] = []
        for storage in (DEPLOYMENTS, REPLICA_SETS, PODS):
            shelf = w.api.store.shelf(storage)
            shelf.observers.append(partial(_note, order, storage))
        w.delete(DEPLOYMENTS, "web", "Foreground")
        await clock.settle()
        assert w.names(DEPLOYMENTS) == ["web"]
        await clock.advance(2)
        assert order == [PODS, PODS, REPLICA_SETS, DEPLOYMENTS]


@virtual_time
async def test_orphans_stay_without_an_owner(clock: VirtualClock) -> None:
    """The ReplicaSet and its pods stay, without an owner."""
    async with world(clock) as w:
        await _deployment(w)
        w.delete(DEPLOYMENTS, "web", "Orphan")
        await clock.advance(2)
        assert w.names(DEPLOYMENTS) == []
        (left,) = w.names(REPLICA_SETS)
        assert not w.get(REPLICA_SETS, left)["metadata"].get("ownerReferences")
        assert len(w.running(app="web")) == 2


@virtual_time
async def test_with_several_owners_the_last_one_counts(clock: VirtualClock) -> None:
    """An object stays while one owner exists, and loses its references to missing owners."""
    async with world(clock) as w:
        first, second = (w.create(CONFIG_MAPS, name) for name in ("first", "second"))
        _owned(w, "child", first, second)
        w.delete(CONFIG_MAPS, "first")
        await clock.settle()
        assert [each["name"] for each in w.get(CONFIG_MAPS, "child")["metadata"]["ownerReferences"]] == ["second"]
        w.delete(CONFIG_MAPS, "second")
        await clock.settle()
        assert "child" not in w.names(CONFIG_MAPS)


@virtual_time
async def test_in_the_foreground_dependents_of_others_stay(clock: VirtualClock) -> None:
    """A foreground deletion does not wait for a dependent with another owner, which loses its reference."""
    async with world(clock) as w:
        first, second = (w.create(CONFIG_MAPS, name) for name in ("first", "second"))
        _owned(w, "child", first, second, block=True)
        w.delete(CONFIG_MAPS, "first", "Foreground")
        await clock.advance(1)
        assert "first" not in w.names(CONFIG_MAPS)
        assert [each["name"] for each in w.get(CONFIG_MAPS, "child")["metadata"]["ownerReferences"]] == ["second"]


@virtual_time
async def test_an_object_whose_owner_never_was_goes(clock: VirtualClock) -> None:
    """An object whose owner never existed is deleted."""
    async with world(clock) as w:
        _owned(w, "child", {"metadata": {"name": "nobody", "uid": "no-such-uid"}})
        await clock.settle()
        assert "child" not in w.names(CONFIG_MAPS)


@virtual_time
async def test_an_owner_waits_only_for_those_that_block_it(clock: VirtualClock) -> None:
    """A dependent with a finalizer delays its owner's deletion only if blockOwnerDeletion is set."""
    async with world(clock) as w:
        for name, block in (("free", False), ("held", True)):
            owner = w.create(CONFIG_MAPS, name)
            _owned(w, f"{name}-child", owner, block=block)
            w.access.edit(CONFIG_MAPS, f"default/{name}-child", _hold)
            w.delete(CONFIG_MAPS, name, "Foreground")
        await clock.advance(1)
        names = w.names(CONFIG_MAPS)
        assert ("free" in names, "held" in names) == (False, True)
        w.access.edit(CONFIG_MAPS, "default/held-child", lambda obj: obj["metadata"].pop("finalizers"))
        await clock.advance(1)
        assert "held" not in w.names(CONFIG_MAPS)


@virtual_time
async def test_a_circle_of_owners_is_deleted(clock: VirtualClock) -> None:
    """Each waits for the next with blockOwnerDeletion, and yet a foreground deletion of one deletes all."""
    async with world(clock, nodes=0) as w:
        for name in ("a", "b", "c"):
            w.create(CONFIG_MAPS, name)
        for name, owner in (("a", "c"), ("b", "a"), ("c", "b")):
            above = w.get(CONFIG_MAPS, owner)["metadata"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": above["uid"]}
            reference |= {"controller": True, "blockOwnerDeletion": True}
            w.access.edit(CONFIG_MAPS, f"default/{name}", partial(_set_owner, reference))
        w.delete(CONFIG_MAPS, "a", "Foreground")
        await w.until(lambda: not {"a", "b", "c"} & set(w.names(CONFIG_MAPS)), timeout=5)
