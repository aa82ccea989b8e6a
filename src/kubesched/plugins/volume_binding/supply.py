"""The volumes and pools of storage there are, and what a claim would get of them on each node."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import nanos, value
from kubesched.api.selectors import EVERYTHING, NodeSelector, Selector, SelectorError, label_selector
from kubesched.cluster.cluster import Cluster
from kubesched.cluster.table import Ints, Mask
from kubesched.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.plugins.volume_binding.places import Places, pool_place, volume_place
from kubesched.plugins.volumes import class_of_claim, class_of_volume

STORAGE = "storage"
AVAILABLE = "Available"
FILESYSTEM = "Filesystem"


class MatchError(ValueError):
    """A claim that cannot be matched with volumes at all; the text is upstream's."""


class Choice:
    """One of several things per row, or none."""

    __slots__ = ("_names", "_numbers", "index")

    def __init__(self, size: int) -> None:
        self.index: Ints = np.full(size, -1, dtype=np.int64)
        """The number of what a row gets, -1 for nothing."""
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of a thing, a new one if it was not among them."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def on(self, row: int) -> str | None:
        """What a row gets."""
        number = int(self.index[row])
        return None if number < 0 else self._names[number]

    def rows_with(self, name: str) -> Mask | None:
        """Rows that get this; None if nobody does."""
        number = self._numbers.get(name)
        return None if number is None else self.index == number

    def prefer(self, options: Sequence[tuple[str, Ints]], among: Mask) -> None:
        """Give each of the rows `among` the first option that has it."""
        if not options:
            return
        numbers = [self.number(name) for name, _ in options]
        rows = np.concatenate([rows for _, rows in options])
        repeated = np.repeat(numbers, [len(rows) for _, rows in options])
        first = np.full(len(self.index), -1, dtype=np.int64)
        first[rows[::-1]] = repeated[::-1]  # of several writes to a row the last stays: the first option
        self.index[among] = first[among]


class Sized(NamedTuple):
    """A volume that nobody has claimed, ordered by size and then name, so that decisions can be repeated."""

    size: int
    name: str


class Supply:
    """Volumes by storage class and by the claim they are reserved for; pools of storage by class."""

    def __init__(self, cluster: Cluster, volumes: AssumeCache[api.PersistentVolume], places: Places) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._places = places
        self._version = -1
        self._free: dict[str, list[Sized]] = {}
        self._reserved: dict[tuple[str, str], dict[str, None]] = {}
        self._filed: dict[str, api.PersistentVolume] = {}
        self._pools_version = -1
        self._pools: dict[str, dict[str, api.CSIStorageCapacity]] = {}
        self._pooled: dict[str, str] = {}

    # Volumes

    def match(self, claim: api.PersistentVolumeClaim, taken: Sequence[Choice], size: int) -> Choice:
        """The volume each row would bind to the claim, given what the pod's other claims take there.

        A volume reserved for the claim decides alone, even where it cannot be reached. Otherwise it is the smallest
        that fits.
        """
        wanted = _Wanted(claim)
        choice = Choice(size)
        undecided = np.ones(size, dtype=np.bool_)
        for volume in self._reserved_for(claim):
            if wanted.fits(volume):
                used = _used(volume.name, taken, size)
                mine = undecided & ~used & self._places.mask(volume_place(volume))
                choice.index[mine] = choice.number(volume.name)
                undecided &= used
        if undecided.any():
            choice.prefer(list(self._smallest(wanted, taken, size)), undecided)
        return choice

    def _smallest(self, wanted: _Wanted, taken: Sequence[Choice], size: int) -> Iterator[tuple[str, Ints]]:
        """Free volumes that fit, smallest first, with the rows that can reach them and do not use them yet.

        On a row every other claim takes at most one volume. So of volumes for the same place one more than there are
        other claims is enough.
        """
        seen: dict[NodeSelector, int] = {}
        self._follow_volumes()
        free = self._free.get(wanted.storage_class, [])
        for entry in free[bisect_left(free, (wanted.size,)) :]:
            volume = self._volumes.of(self._filed[entry.name])
            if volume.spec.claim_ref is not None or not (wanted.fits(volume) and wanted.accepts(volume)):
                continue
            place = volume_place(volume)
            seen[place] = seen.get(place, 0) + 1
            if seen[place] <= len(taken) + 1:
                rows = self._places.rows(place)
                yield volume.name, rows[~_used(volume.name, taken, size)[rows]] if taken else rows

    def _reserved_for(self, claim: api.PersistentVolumeClaim) -> list[api.PersistentVolume]:
        """Volumes of the claim's class that name the claim, in the cluster or by an assumption."""
        self._follow_volumes()
        names = set(self._reserved.get((claim.namespace, claim.name), ()))
        names.update(v.name for v in self._volumes.assumed() if v.name in self._filed)
        volumes = (self._volumes.of(self._filed[name]) for name in sorted(names))
        storage_class = class_of_claim(claim)
        return [v for v in volumes if is_bound_to(v, claim) and class_of_volume(v) == storage_class]

    def _follow_volumes(self) -> None:
        version = self._cluster.version(api.PersistentVolume)
        if version == self._version:
            return
        changed = self._cluster.changed_since(api.PersistentVolume, self._version)
        if changed is None:
            changed = [*self._filed, *(v.name for v in self._cluster.all(api.PersistentVolume))]
        self._version = version
        for name in dict.fromkeys(changed):
            self._unfile(name)
            self._file(name)

    def _file(self, name: str) -> None:
        volume = self._volumes.stored(name)
        if volume is None:
            return
        self._filed[name] = volume
        claim = volume.spec.claim_ref
        if claim is None:
            insort(self._free.setdefault(class_of_volume(volume), []), _sized(volume))
        else:
            self._reserved.setdefault((claim.namespace, claim.name), {})[name] = None

    def _unfile(self, name: str) -> None:
        volume = self._filed.pop(name, None)
        if volume is None:
            return
        claim = volume.spec.claim_ref
        if claim is None:
            free = self._free[class_of_volume(volume)]
            del free[bisect_left(free, _sized(volume))]
        else:
            key = (claim.namespace, claim.name)
            del self._reserved[key][name]
            if not self._reserved[key]:
                del self._reserved[key]

    # Pools of storage

    def pool(self, claim: api.PersistentVolumeClaim, storage_class: api.StorageClass, size: int) -> Choice | None:
        """The pool of storage each row would provision the claim from; None if no pools are kept track of."""
        request = claim.spec.resources.requests.get(STORAGE)
        driver = self._cluster.get(api.CSIDriver, storage_class.provisioner)
        if request is None or driver is None or not driver.spec.storage_capacity:
            return None
        self._follow_pools()
        pools = self._pools.get(storage_class.name, {})
        choice = Choice(size)
        options = [
            (key, self._places.rows(pool_place(pool)))
            for key, pool in pools.items()
            if (limit := largest_volume(pool)) is not None and limit >= value(request)
        ]
        choice.prefer(options, np.ones(size, dtype=np.bool_))
        return choice

    def _follow_pools(self) -> None:
        version = self._cluster.version(api.CSIStorageCapacity)
        if version == self._pools_version:
            return
        changed = self._cluster.changed_since(api.CSIStorageCapacity, self._pools_version)
        if changed is None:
            changed = [*self._pooled, *(c.key for c in self._cluster.all(api.CSIStorageCapacity))]
        self._pools_version = version
        for key in dict.fromkeys(changed):
            self._pools.get(self._pooled.pop(key, ""), {}).pop(key, None)
            pool = self._cluster.get(api.CSIStorageCapacity, key)
            if pool is not None:
                self._pooled[key] = pool.storage_class_name
                self._pools.setdefault(pool.storage_class_name, {})[key] = pool


class _Wanted:
    """What a claim demands of a volume, read once."""

    def __init__(self, claim: api.PersistentVolumeClaim) -> None:
        spec = claim.spec
        self.size = nanos(spec.resources.requests.get(STORAGE, 0))
        self.storage_class = class_of_claim(claim)
        self._mode = spec.volume_mode or FILESYSTEM
        self._attributes = spec.volume_attributes_class_name or ""
        self._access_modes = frozenset(spec.access_modes)
        self._selector = _claim_selector(claim)

    def fits(self, volume: api.PersistentVolume) -> bool:
        """What also a volume reserved for the claim must meet."""
        spec = volume.spec
        return (
            nanos(spec.capacity.get(STORAGE, 0)) >= self.size
            and (spec.volume_mode or FILESYSTEM) == self._mode
            and (spec.volume_attributes_class_name or "") == self._attributes
            and volume.metadata.deletion_timestamp is None
        )

    def accepts(self, volume: api.PersistentVolume) -> bool:
        """What a free volume must meet beside."""
        return (
            volume.status.phase == AVAILABLE
            and self._selector.matches(volume.labels)
            and self._access_modes.issubset(volume.spec.access_modes)
        )


def _claim_selector(claim: api.PersistentVolumeClaim) -> Selector:
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return label_selector(claim.spec.selector)
    except SelectorError as problem:
        raise MatchError(f"error creating internal label selector for claim: {claim.key}: {problem}") from problem


def is_bound_to(volume: api.PersistentVolume, claim: api.PersistentVolumeClaim) -> bool:
    """Whether a volume names this claim; a reference without UID is good for any claim of that name."""
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
        return False
    return not ref.uid or ref.uid == claim.uid


def largest_volume(pool: api.CSIStorageCapacity) -> int | None:
    """The largest volume a pool can provide, in bytes; None if it does not say."""
    limit = pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size
    return None if limit is None else value(limit)


def _sized(volume: api.PersistentVolume) -> Sized:
    return Sized(nanos(volume.spec.capacity.get(STORAGE, 0)), volume.name)


def _used(name: str, taken: Sequence[Choice], size: int) -> Mask:
    """Rows where another claim of the pod takes this volume."""
    used = np.zeros(size, dtype=np.bool_)
    for choice in taken:
        rows = choice.rows_with(name)
        if rows is not None:
            used |= rows
    return used
