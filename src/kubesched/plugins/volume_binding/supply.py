"""The volumes and pools of storage in the cluster, and which of them a claim would get on each node."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import nanos, value
from kubesched.api.selectors import EVERYTHING, CompiledNodeSelector, Selector, SelectorError, label_selector
from kubesched.cluster.state import ClusterState
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
    """One of several options per row, or none."""

    __slots__ = ("_names", "_numbers", "index")

    def __init__(self, size: int) -> None:
        self.index: Ints = np.full(size, -1, dtype=np.int64)
        """The index of each row's option, -1 for none."""
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The index of an option, a new one if it is not known yet."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def on(self, row: int) -> str | None:
        """The option of a row."""
        number = int(self.index[row])
        return None if number < 0 else self._names[number]

    def rows_with(self, name: str) -> Mask | None:
        """Rows that have this option; None if there are none."""
        number = self._numbers.get(name)
        return None if number is None else self.index == number

    def prefer(self, options: Sequence[tuple[str, Ints]], among: Mask) -> None:
        """Give each of the rows `among` the first option that covers it."""
        if not options:
            return
        numbers = [self.number(name) for name, _ in options]
        rows = np.concatenate([rows for _, rows in options])
        repeated = np.repeat(numbers, [len(rows) for _, rows in options])
        first = np.full(len(self.index), -1, dtype=np.int64)
        first[rows[::-1]] = repeated[::-1]  # of several writes to a row the last one stays, which is the first option
        self.index[among] = first[among]


class Sized(NamedTuple):
    """A volume without a claim, ordered by size and then name, so that decisions are reproducible."""

    size: int
    name: str


class Shape(NamedTuple):
    """Properties that many volumes share, so that a claim checks them once."""

    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    is_available: bool
    is_going: bool


class Filed(NamedTuple):
    """A volume with cached properties."""

    volume: api.PersistentVolume
    size: int
    place: CompiledNodeSelector
    shape: Shape


class StoragePool(NamedTuple):
    """A pool of storage: the largest volume it can provide, and where."""

    limit: int
    place: CompiledNodeSelector


class Supply:
    """Volumes by storage class and by the claim they are reserved for; pools of storage by class."""

    def __init__(self, cluster: ClusterState, volumes: AssumeCache[api.PersistentVolume], places: Places) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._places = places
        self._version = -1
        self._free: dict[str, dict[Shape, list[Sized]]] = {}
        self._reserved: dict[tuple[str, str], dict[str, None]] = {}
        self._filed: dict[str, Filed] = {}
        self._pools_version = -1
        self._pools: dict[str, dict[str, StoragePool]] = {}
        self._pooled: dict[str, str] = {}

    # Volumes

    def match(self, claim: api.PersistentVolumeClaim, taken: Sequence[Choice], size: int) -> Choice:
        """The volume that each row would bind to the claim, given what the pod's other claims take there.

        A volume reserved for the claim is the only choice, even where it cannot be reached. Otherwise the smallest
        volume that fits is chosen.
        """
        wanted = _Wanted(claim)
        choice = Choice(size)
        undecided = np.ones(size, dtype=np.bool_)
        for name, filed in self._reserved_for(claim):
            if wanted.fits(filed):
                used = _used(name, taken, size)
                mine = undecided & ~used & self._places.mask(filed.place)
                choice.index[mine] = choice.number(name)
                undecided &= used
        if undecided.any():
            choice.prefer(list(self._smallest(wanted, taken, size)), undecided)
        return choice

    def _smallest(self, wanted: _Wanted, taken: Sequence[Choice], size: int) -> Iterator[tuple[str, Ints]]:
        """Free volumes that fit, smallest first, with the rows that can reach them and do not use them yet.

        On a row every other claim takes at most one volume. So for each place, one volume more than there are other
        claims is enough.
        """
        seen: dict[CompiledNodeSelector, int] = {}
        assumed = {volume.name for volume in self._volumes.assumed()}
        for _, name in self._large_enough(wanted):
            filed = self._filed[name]
            if name in assumed or not wanted.selects(filed.volume):
                continue
            number = seen[filed.place] = seen.get(filed.place, 0) + 1
            if number <= len(taken) + 1:
                rows = self._places.rows(filed.place)
                yield name, rows[~_used(name, taken, size)[rows]] if taken else rows

    def _large_enough(self, wanted: _Wanted) -> list[Sized]:
        """Free volumes of the right class and shape, smallest first."""
        shapes = self._free.get(wanted.storage_class, {})
        parts = [free[bisect_left(free, (wanted.size,)) :] for shape, free in shapes.items() if wanted.accepts(shape)]
        return parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts))

    def _reserved_for(self, claim: api.PersistentVolumeClaim) -> list[tuple[str, Filed]]:
        """Volumes of the claim's class that are reserved for the claim, in the cluster or by an assumption."""
        self._follow_volumes()
        names = set(self._reserved.get((claim.namespace, claim.name), ()))
        names.update(volume.name for volume in self._volumes.assumed() if is_bound_to(volume, claim))
        storage_class = class_of_claim(claim)
        found = []
        for name in sorted(names):
            filed = self._filed[name]
            if is_bound_to(self._volumes.of(filed.volume), claim) and class_of_volume(filed.volume) == storage_class:
                found.append((name, filed))
        return found

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
        filed = self._filed[name] = _filed(volume)
        claim = volume.spec.claim_ref
        if claim is None:
            shapes = self._free.setdefault(class_of_volume(volume), {})
            insort(shapes.setdefault(filed.shape, []), Sized(filed.size, name))
        else:
            self._reserved.setdefault((claim.namespace, claim.name), {})[name] = None

    def _unfile(self, name: str) -> None:
        filed = self._filed.pop(name, None)
        if filed is None:
            return
        claim = filed.volume.spec.claim_ref
        if claim is None:
            shapes = self._free[class_of_volume(filed.volume)]
            free = shapes[filed.shape]
            del free[bisect_left(free, (filed.size, name))]
            if not free:
                del shapes[filed.shape]
        else:
            key = (claim.namespace, claim.name)
            del self._reserved[key][name]
            if not self._reserved[key]:
                del self._reserved[key]

    # Pools of storage

    def pool(self, claim: api.PersistentVolumeClaim, storage_class: api.StorageClass, size: int) -> Choice | None:
        """The pool of storage that each row would provision the claim from; None if capacity is not tracked."""
        request = claim.spec.resources.requests.get(STORAGE)
        driver = self._cluster.get(api.CSIDriver, storage_class.provisioner)
        if request is None or driver is None or not driver.spec.storage_capacity:
            return None
        self._follow_pools()
        pools = self._pools.get(storage_class.name, {})
        choice = Choice(size)
        wanted = value(request)
        options = [(key, self._places.rows(pool.place)) for key, pool in pools.items() if pool.limit >= wanted]
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
            capacity = self._cluster.get(api.CSIStorageCapacity, key)
            limit = None if capacity is None else largest_volume(capacity)
            if capacity is not None and limit is not None:
                self._pooled[key] = capacity.storage_class_name
                self._pools.setdefault(capacity.storage_class_name, {})[key] = StoragePool(limit, pool_place(capacity))


class _Wanted:
    """What a claim requires of a volume, read once."""

    def __init__(self, claim: api.PersistentVolumeClaim) -> None:
        spec = claim.spec
        self.size = nanos(spec.resources.requests.get(STORAGE, 0))
        self.storage_class = class_of_claim(claim)
        self._mode = spec.volume_mode or FILESYSTEM
        self._attributes_class = spec.volume_attributes_class_name or ""
        self._access_modes = frozenset(spec.access_modes)
        self._selector = _claim_selector(claim)

    def fits(self, filed: Filed) -> bool:
        """What even a volume reserved for the claim must satisfy."""
        return filed.size >= self.size and self._suits(filed.shape)

    def accepts(self, shape: Shape) -> bool:
        """What a free volume must satisfy, besides size and labels."""
        return self._suits(shape) and shape.is_available and self._access_modes <= shape.access_modes

    def selects(self, volume: api.PersistentVolume) -> bool:
        """Whether a volume's labels match the claim's selector."""
        return self._selector is EVERYTHING or self._selector.matches(volume.labels)

    def _suits(self, shape: Shape) -> bool:
        return (shape.mode, shape.attributes_class, shape.is_going) == (self._mode, self._attributes_class, False)


def _claim_selector(claim: api.PersistentVolumeClaim) -> Selector:
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return label_selector(claim.spec.selector)
    except SelectorError as problem:
        raise MatchError(f"error creating internal label selector for claim: {claim.key}: {problem}") from problem


def is_bound_to(volume: api.PersistentVolume, claim: api.PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for this claim; a reference without UID matches any claim of that name."""
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
        return False
    return not ref.uid or ref.uid == claim.uid


def largest_volume(pool: api.CSIStorageCapacity) -> int | None:
    """The largest volume that a pool can provide, in bytes; None if unknown."""
    limit = volume_limit(pool)
    return None if limit is None else value(limit)


def volume_limit(pool: api.CSIStorageCapacity) -> api.Quantity | None:
    """The largest volume that a pool can provide, as it was written."""
    return pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size


def _filed(volume: api.PersistentVolume) -> Filed:
    spec = volume.spec
    shape = Shape(
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
        volume.status.phase == AVAILABLE,
        volume.metadata.deletion_timestamp is not None,
    )
    return Filed(volume, nanos(spec.capacity.get(STORAGE, 0)), volume_place(volume), shape)


def _used(name: str, taken: Sequence[Choice], size: int) -> Mask:
    """Rows where another claim of the pod takes this volume."""
    used = np.zeros(size, dtype=np.bool_)
    for choice in taken:
        rows = choice.rows_with(name)
        if rows is not None:
            used |= rows
    return used
