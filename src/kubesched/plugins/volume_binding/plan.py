"""What would have to be bound and provisioned for a pod on each node, and where that fails, for all nodes at once.

Nothing of it depends on the pods that are on a node. So it is computed once in a cycle, for the whole table. Later
queries, also those of a preemption about a single node, are lookups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ids, Mask
from kubesched.framework.status import Status, error, unresolvable
from kubesched.plugins.csi_migration import TranslationError, csi_node_affinity, migrated_plugins, migration_of
from kubesched.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.plugins.volume_binding.places import Places, class_place, selected_place, volume_place
from kubesched.plugins.volume_binding.supply import STORAGE, Choice, MatchError, Supply
from kubesched.plugins.volumes import SELECTED_NODE, class_of_claim

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASONS = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING)
"""In the order in which a node's reasons are given; a node's code is the sum of 1, 2, 4 and 8 for those it has."""
_NODE, _BIND, _SPACE, _MISSING = 1, 2, 4, 8
_FIRST_ERROR = 16

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class PodClaims(NamedTuple):
    """A pod's claims: bound ones, those to bind or provision where the pod goes, and those that should already be
    bound."""

    bound: list[api.PersistentVolumeClaim]
    delayed: list[api.PersistentVolumeClaim]
    immediate: list[api.PersistentVolumeClaim]


class VolumeMatch(NamedTuple):
    """A claim and the volume it gets."""

    claim: api.PersistentVolumeClaim
    volume: api.PersistentVolume


class Provision(NamedTuple):
    """A claim to provision, and the pool of storage that has room for it, if capacity is tracked."""

    claim: api.PersistentVolumeClaim
    pool: api.CSIStorageCapacity | None


class ClaimStep:
    """One unbound claim: the volume it gets on each row, and where it gets none, the pool to provision it from."""

    __slots__ = ("claim", "pool", "volume")

    def __init__(self, claim: api.PersistentVolumeClaim, volume: Choice | None) -> None:
        self.claim = claim
        self.volume = volume
        """None for a claim whose provisioning has already been requested."""
        self.pool: Choice | None = None


class VolumePlan:
    """A code per row, 0 where the pod's volumes are available, and what to do there."""

    __slots__ = ("codes", "errors", "steps")

    def __init__(self, size: int) -> None:
        self.codes: Ids = np.zeros(size, dtype=np.int32)
        self.errors: list[str] = []
        self.steps: list[ClaimStep] = []

    def fail(self, rows: Mask, problem: str) -> None:
        """Rows whose evaluation ended in an error, which replaces all other reasons."""
        if rows.any():
            self.codes[rows] = _FIRST_ERROR + len(self.errors)
            self.errors.append(problem)

    def status_of(self, code: int) -> Status:
        """The status of a code."""
        if code >= _FIRST_ERROR:
            return error(self.errors[code - _FIRST_ERROR])
        return unresolvable(*(reason for bit, reason in enumerate(REASONS) if code >> bit & 1))


class Planner:
    """Makes plans from the cluster's objects and from earlier reservations."""

    def __init__(self, cluster: ClusterState, volumes: AssumeCache[api.PersistentVolume]) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._places = Places(cluster.nodes)
        self._supply = Supply(cluster, volumes, self._places)
        self._migrated_at = (-1, -1)
        self._migrated: dict[str, list[int]] = {}

    def plan(self, claims: PodClaims) -> VolumePlan:
        """Evaluate all nodes for a pod with these claims."""
        plan = VolumePlan(self._cluster.nodes.size)
        self._check_bound(plan, claims.bound)
        if claims.delayed:
            self._find_unbound(plan, claims.delayed)
        return plan

    def bindings(self, plan: VolumePlan, row: int) -> tuple[list[VolumeMatch], list[Provision]]:
        """The bindings and provisions of a plan on one row."""
        bindings, provisions = [], []
        for step in plan.steps:
            name = step.volume.on(row) if step.volume is not None else None
            volume = self._volumes.get(name) if name is not None else None
            if volume is not None:
                bindings.append(VolumeMatch(step.claim, volume))
            else:
                pool = step.pool.on(row) if step.pool is not None else None
                provisions.append(Provision(step.claim, self._pool(pool)))
        return bindings, provisions

    def _pool(self, key: str | None) -> api.CSIStorageCapacity | None:
        return None if key is None else self._cluster.get(api.CSIStorageCapacity, key)

    # Bound claims

    def _check_bound(self, plan: VolumePlan, claims: list[api.PersistentVolumeClaim]) -> None:
        """A row's verdict is that of the first claim that fails there."""
        left = np.ones(len(plan.codes), dtype=np.bool_)
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                plan.codes[left] = _MISSING
                return
            reachable = self._places.mask(volume_place(volume))
            left &= self._translate(plan, volume, reachable, left)
            plan.codes[left & ~reachable] = _NODE
            left &= reachable

    def _translate(self, plan: VolumePlan, volume: api.PersistentVolume, reachable: Mask, left: Mask) -> Mask:
        """Correct `reachable` for nodes that have migrated the volume's plugin; False where that fails."""
        migration = migration_of(volume.spec)
        fine = np.ones(len(plan.codes), dtype=np.bool_)
        rows = self._migrated_rows(migration.plugin) if migration is not None and migration.is_on else []
        if migration is None or not rows:
            return fine
        try:
            place = selected_place(csi_node_affinity(volume, migration))
        except TranslationError as problem:
            fine[rows] = False
            plan.fail(left & ~fine, f"could not translate pv: {problem}")
            return fine
        reachable[rows] = self._places.mask(place)[rows]
        return fine

    def _migrated_rows(self, plugin: str) -> list[int]:
        """Rows whose CSINode reports an in-tree plugin as migrated."""
        nodes = self._cluster.nodes
        now = (self._cluster.version(api.CSINode), nodes.node_version)
        if now != self._migrated_at:
            self._migrated_at = now
            self._migrated = {}
            for csi_node in self._cluster.all(api.CSINode):
                if csi_node.name in nodes.row_of:
                    for name in migrated_plugins(csi_node):
                        self._migrated.setdefault(name, []).append(nodes.row_of[csi_node.name])
        return self._migrated.get(plugin, [])

    # Unbound claims

    def _find_unbound(self, plan: VolumePlan, claims: list[api.PersistentVolumeClaim]) -> None:
        left = plan.codes < _FIRST_ERROR
        to_match = []
        for claim in claims:
            selected = claim.annotations.get(SELECTED_NODE)
            if selected is None:
                to_match.append(claim)
                continue
            elsewhere = np.ones(len(left), dtype=np.bool_)
            elsewhere[self._row(selected)] = False
            plan.codes[left & elsewhere] |= _BIND
            left &= ~elsewhere
            plan.steps.append(ClaimStep(claim, None))
        if not left.any():
            return
        try:
            self._match(plan, to_match)
        except MatchError as problem:
            plan.fail(left, str(problem))
            return
        self._provision(plan, left)

    def _row(self, name: str) -> list[int]:
        row = self._cluster.nodes.row_of.get(name)
        return [] if row is None else [row]

    def _match(self, plan: VolumePlan, claims: list[api.PersistentVolumeClaim]) -> None:
        """Find volumes, for the smallest claim first, so that each gets the tightest fit."""
        taken: list[Choice] = []
        for claim in sorted(claims, key=lambda c: nanos(c.spec.resources.requests.get(STORAGE, 0))):
            choice = self._supply.match(claim, taken, len(plan.codes))
            taken.append(choice)
            plan.steps.append(ClaimStep(claim, choice))

    def _provision(self, plan: VolumePlan, left: Mask) -> None:
        """Where a claim gets no volume, its class must be able to provision one. A row stops at its first failure."""
        for step in plan.steps:
            need = left & (step.volume.index < 0) if step.volume is not None else left.copy()
            if not need.any():
                continue
            storage_class = self._cluster.get(api.StorageClass, class_of_claim(step.claim))
            if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
                plan.codes[need] |= _BIND
                left &= ~need
                continue
            outside = need & ~self._places.mask(class_place(storage_class))
            plan.codes[outside] |= _BIND
            left &= ~outside
            step.pool = self._supply.pool(step.claim, storage_class, len(left))
            if step.pool is not None:
                short = need & left & (step.pool.index < 0)
                plan.codes[short] |= _SPACE
                left &= ~short
