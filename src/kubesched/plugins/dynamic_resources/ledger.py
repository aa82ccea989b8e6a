"""Who has which device: allocations that claims record, and those that are decided but not written yet.

Between Reserve and the answer of the API server an allocation exists only here. Others must not be given the same
devices, so it counts as if it were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.cluster.state import ClusterState

PoolId = tuple[str, str]
"""A driver and the name of one of its pools."""


@dataclass(slots=True)
class PoolUsage:
    """What claims have of one pool, by the device's name."""

    dedicated: dict[str, int] = field(default_factory=dict)
    """Claims that have the device to themselves; more than one only if another program wrote the allocations."""
    shares: dict[str, int] = field(default_factory=dict)
    """Claims that share the device."""
    consumed: dict[str, dict[str, int]] = field(default_factory=dict)
    """What they have taken of its capacity."""

    def is_allocated(self, device: str) -> bool:
        """Whether any claim has the device or a share of it."""
        return device in self.dedicated or device in self.shares

    def add(self, result: dra.DeviceRequestAllocationResult, sign: int, *, shares: bool) -> None:
        """Count an allocated device, or stop counting it."""
        if not shares or result.share_id is None:
            _bump(self.dedicated, result.device, sign)
            return
        _bump(self.shares, result.device, sign)
        if result.consumed_capacity:
            self._consume(result, sign)

    def _consume(self, result: dra.DeviceRequestAllocationResult, sign: int) -> None:
        consumed = self.consumed.setdefault(result.device, {})
        for name, quantity in result.consumed_capacity.items():
            consumed[name] = consumed.get(name, 0) + sign * nanos(quantity)
        if not any(consumed.values()):
            del self.consumed[result.device]


def _bump(counts: dict[str, int], key: str, sign: int) -> None:
    count = counts.get(key, 0) + sign
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


NO_USAGE = PoolUsage()


@dataclass(slots=True)
class PendingAllocation:
    """An allocation that is being written, and how many pods wait for it."""

    allocation: dra.AllocationResult
    sharers: int = 1


class Ledger:
    """All claims, with what was decided about them, and the devices that are taken by them."""

    def __init__(self, cluster: ClusterState, *, shares: bool) -> None:
        self._cluster = cluster
        self._shares = shares
        self._seen = -1
        self._assumed: dict[str, dra.ResourceClaim] = {}
        """Claims as the API server returned them, until the cluster has heard of that version."""
        self._released: dict[str, set[str]] = {}
        """UIDs of pods and groups whose reservation of a claim, by its key, is being removed. Whether it still exists
        is unknown until the API server has answered."""
        self._pending: dict[str, PendingAllocation] = {}
        self._recorded: dict[str, dra.AllocationResult] = {}
        """The allocation of each claim that is counted, by the claim's key."""
        self._made_for: dict[str, str] = {}
        """The key of the claim that was made for a pod's extended resources, by the pod's UID."""
        self._owners: dict[str, str] = {}
        """The other way round."""
        self._usage: dict[PoolId, PoolUsage] = {}
        self.changed: set[PoolId] = set()
        """Pools whose devices were taken or given back. The inventory clears it."""

    # Claims

    def get(self, key: str) -> dra.ResourceClaim | None:
        """A claim in its newest known version."""
        stored = self._cluster.get(api.ResourceClaim, key)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored
        if stored is not None and stored.uid == assumed.uid and _version(stored) < _version(assumed):
            return assumed
        del self._assumed[key]
        return stored

    def assume(self, claim: dra.ResourceClaim) -> bool:
        """Use a version of a claim that the API server has returned; False if the cluster does not know the claim."""
        stored = self._cluster.get(api.ResourceClaim, claim.key)
        if stored is None or stored.uid != claim.uid:
            return False
        if self.newer(claim) is None:  # answers may arrive in another order than their writes took effect
            self._assumed[claim.key] = claim
            self._record(claim.key)
        return True

    def newer(self, claim: dra.ResourceClaim) -> dra.ResourceClaim | None:
        """The claim in its newest known version, if that is newer than this one."""
        newest = self.get(claim.key)
        same = newest is not None and newest.uid == claim.uid
        return newest if newest is not None and same and _version(newest) > _version(claim) else None

    def restore(self, key: str) -> None:
        """Go back to what the cluster knows of a claim."""
        if self._assumed.pop(key, None) is not None:
            self._record(key)

    # Reservations that are being removed

    def release(self, key: str, user: str) -> None:
        """The removal of a reservation is about to be sent."""
        self._released.setdefault(key, set()).add(user)

    def is_released(self, key: str, user: str) -> bool:
        """Whether the reservation may be gone, or about to go, whatever the claim says."""
        return user in self._released.get(key, ())

    @contextmanager
    def reserving(self, key: str, user: str) -> Iterator[bool]:
        """A context in which a reservation is written. Its value is whether it was being removed.

        A removal that has not been sent yet is off from now on: it could follow the new reservation. One that has been
        sent may still arrive, as long as the reservation is not written.
        """
        doubtful = self.is_released(key, user)
        self.settle(key, user)
        try:
            yield doubtful
        except BaseException:
            if doubtful:
                self.release(key, user)
            raise

    def settle(self, key: str, user: str) -> None:
        """The API server has removed the reservation, or it is made anew."""
        users = self._released.get(key, set())
        users.discard(user)
        if not users:
            self._released.pop(key, None)

    def made_for(self, pod: api.Pod) -> dra.ResourceClaim | None:
        """The claim that was made for a pod's extended resources."""
        self.sync()
        key = self._made_for.get(pod.uid)
        return None if key is None else self.get(key)

    # Allocations that are not written yet

    def pending(self, uid: str) -> dra.AllocationResult | None:
        """The allocation that is being written for a claim."""
        found = self._pending.get(uid)
        return None if found is None else found.allocation

    def sharers(self, uid: str) -> int:
        """How many pods wait for the allocation that is being written for a claim."""
        found = self._pending.get(uid)
        return 0 if found is None else found.sharers

    def add_pending(self, uid: str, allocation: dra.AllocationResult) -> None:
        """Count an allocation from now on; another pod may share it."""
        found = self._pending.get(uid)
        if found is not None:
            found.sharers += 1
            return
        self._pending[uid] = PendingAllocation(allocation)
        self._count(allocation, 1)

    def drop_pending(self, uid: str, *, force: bool = False) -> bool:
        """A pod needs its pending allocation no longer. True if it was the last one, or with `force`."""
        found = self._pending.get(uid)
        if found is None:
            return False
        if not force and found.sharers > 1:
            found.sharers -= 1
            return False
        del self._pending[uid]
        self._count(found.allocation, -1)
        return True

    # Devices

    def usage(self, pool: PoolId) -> PoolUsage:
        """What is taken of a pool, as of the last `sync`."""
        return self._usage.get(pool, NO_USAGE)

    def sync(self) -> None:
        """Take in what happened to claims since the last time."""
        version = self._cluster.version(api.ResourceClaim)
        if version == self._seen:
            return
        changed: Iterable[str] | None = (
            None if self._seen < 0 else self._cluster.changed_since(api.ResourceClaim, self._seen)
        )
        if changed is None:
            changed = {*self._recorded, *(claim.key for claim in self._cluster.all(api.ResourceClaim))}
        self._seen = version
        for key in changed:
            self._record(key)

    def _record(self, key: str) -> None:
        claim = self.get(key)
        if claim is None:
            self._released.pop(key, None)
        self._note_maker(key, claim)
        now = None if claim is None else claim.status.allocation
        before = self._recorded.get(key)
        if before is now or before == now:
            return
        if before is not None:
            self._count(before, -1)
            del self._recorded[key]
        if now is not None:
            self._count(now, 1)
            self._recorded[key] = now

    def _note_maker(self, key: str, claim: dra.ResourceClaim | None) -> None:
        pod = self._owners.pop(key, None)
        if pod is not None:
            self._made_for.pop(pod, None)
        if claim is not None and claim.annotations.get(dra.EXTENDED_RESOURCE_CLAIM) == "true":
            for owner in claim.metadata.owner_references:
                if owner.controller:
                    self._made_for[owner.uid], self._owners[key] = key, owner.uid

    def _count(self, allocation: dra.AllocationResult, sign: int) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue  # admin access takes nothing from others
            pool = (result.driver, result.pool)
            self._usage.setdefault(pool, PoolUsage()).add(result, sign, shares=self._shares)
            self.changed.add(pool)


def _version(claim: dra.ResourceClaim) -> int:
    version = claim.metadata.resource_version
    return int(version) if version.isdecimal() else 0
