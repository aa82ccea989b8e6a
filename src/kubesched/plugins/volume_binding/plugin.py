"""VolumeBinding: bound claims must be reachable from the node, unbound ones are bound or provisioned with the pod."""

from __future__ import annotations

from typing import cast

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.config.args import VolumeBindingArgs
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature, volumes
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.csi_migration import MIGRATED_PLUGINS
from kubesched.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.plugins.volume_binding.binding import (
    PRE_BIND,
    BindingHandle,
    VolumeBinder,
    VolumeBindingError,
    bound,
    selected,
)
from kubesched.plugins.volume_binding.plan import Planner, PodClaims, VolumeMatch, VolumePlan
from kubesched.plugins.volume_binding.scoring import class_uses, scorer
from kubesched.plugins.volume_binding.supply import largest_volume, volume_limit
from kubesched.plugins.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claim_key,
    claim_uses,
    class_of_claim,
    is_fully_bound,
    names_claim,
    not_found,
    not_owned,
    uses_claim,
)

UNBOUND_IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")
NOT_PREPARED = error("not found")
"""Upstream's error when a profile has this plugin at a later point but not at PreFilter."""
LOST = "Lost"


class Reservation:
    """One pod's volumes in one cycle: its claims, the plan for all nodes, and the reservations on the chosen node."""

    __slots__ = ("bindings", "claims", "plan", "provisions")

    def __init__(self, claims: PodClaims | None) -> None:
        self.claims = claims
        """None for a pod without claims."""
        self.plan: VolumePlan | None = None
        self.bindings: list[VolumeMatch] = []
        self.provisions: list[api.PersistentVolumeClaim] = []


NO_CLAIMS = Reservation(None)


class VolumeBinding(Plugin):
    """PreFilter, Filter, PreScore, Score, Reserve and PreBind of claims."""

    name = "VolumeBinding"
    reads = Reads.ROW
    args_type = VolumeBindingArgs
    pre_bind_in_parallel = True

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = AssumeCache(handle.cluster, api.PersistentVolumeClaim)
        self._volumes = AssumeCache(handle.cluster, api.PersistentVolume)
        self._planner = Planner(handle.cluster, self._volumes)
        # The configuration has a shape if and only if the gate StorageCapacityScoring is on.
        self._scorer = scorer(args.shape) if args.shape else None

    def sign(self, pod: api.Pod) -> Signature:
        return volumes(pod)

    def events_to_register(self) -> list[EventHint]:
        change = Action.ADD | Action.UPDATE
        return [
            on(Resource.STORAGE_CLASS, change, self._after_class_change),
            on(Resource.PERSISTENT_VOLUME_CLAIM, change, self._after_claim_change),
            on(Resource.PERSISTENT_VOLUME, change),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(Resource.CSI_NODE, change, self._after_csi_node_change),
            on(Resource.CSI_DRIVER, Action.UPDATE, self._after_driver_update),
            on(Resource.CSI_STORAGE_CAPACITY, change, self._after_pool_change),
        ]

    # PreFilter

    def ignores(self, pod_class: PodClass) -> bool:
        return not any(names_claim(volume) for volume in pod_class.spec.volumes)

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        if self.ignores(state.pod_class):
            state.write(self.name, NO_CLAIMS)
            return SKIP
        uses = claim_uses(pod)
        for use in uses:
            if problem := self._problem(pod, use):
                return unresolvable(problem)
        claims = self._sorted(pod, uses)
        if isinstance(claims, Status):
            return claims
        if claims.immediate:
            return UNBOUND_IMMEDIATE
        state.write(self.name, Reservation(claims))
        return None

    def _problem(self, pod: api.Pod, use: ClaimUse) -> str | None:
        """Why a claim cannot be used at all."""
        claim = self._claims.stored(claim_key(pod.namespace, use.name))
        if claim is None:
            if use.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
            return not_found("persistentvolumeclaim", use.name)
        if claim.status.phase == LOST:
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        return not_owned(pod, claim) if use.ephemeral else None

    def _sorted(self, pod: api.Pod, uses: list[ClaimUse]) -> PodClaims | Status:
        """The pod's claims, sorted by what has to be done with them."""
        claims = PodClaims([], [], [])
        for use in uses:
            claim = self._claims.get(claim_key(pod.namespace, use.name))
            assert claim is not None  # `_problem` has seen it
            if is_fully_bound(claim):
                claims.bound.append(claim)
                continue
            waits = self._waits(claim)
            if isinstance(waits, Status):
                return waits
            # A claim that names its volume must be bound by the controller, not by us.
            (claims.delayed if waits and not claim.spec.volume_name else claims.immediate).append(claim)
        return claims

    def _waits(self, claim: api.PersistentVolumeClaim) -> bool | Status:
        """Whether a claim is bound only once its pod has a node."""
        name = class_of_claim(claim)
        storage_class = self.handle.cluster.get(api.StorageClass, name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            return error(f'VolumeBindingMode not set for StorageClass "{name}"')
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    # Filter

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return False

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        if self.name not in state:
            return reject(np.ones(len(nodes), dtype=np.bool_), NOT_PREPARED)
        reservation = state.read(self.name, Reservation)
        if reservation.claims is None:
            return None
        if reservation.plan is None:
            reservation.plan = self._planner.plan(reservation.claims)
        codes = reservation.plan.codes[nodes.rows]
        return Verdicts(codes, reservation.plan.status_of) if codes.any() else None

    # Score

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        if self._scorer is None:
            return SKIP
        return None if self.name in state else NOT_PREPARED

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        if self._scorer is None or self.name not in state:
            return 0
        plan = state.read(self.name, Reservation).plan
        if plan is None or not plan.steps:
            return 0
        # Rows with the same choices have the same score.
        choices = [choice.index[nodes.rows] for step in plan.steps for choice in (step.volume, step.pool) if choice]
        alike = np.unique(np.array(choices, dtype=np.int64), axis=1, return_index=True, return_inverse=True)
        rows = np.asarray(nodes.row_numbers())[alike[1]]
        scores = [self._scorer(class_uses(*self._planner.bindings(plan, row))) for row in rows.tolist()]
        return np.array(scores, dtype=np.int64)[alike[2].reshape(-1)]

    # Reserve

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Reserve the volumes, so that no other pod gets them."""
        if self.name not in state:
            return NOT_PREPARED
        reservation = state.read(self.name, Reservation)
        row = self.handle.cluster.nodes.row_of.get(node_name)
        if reservation.plan is None or row is None or reservation.plan.codes[row]:
            return None
        about: dict[str, object] = {"logger": "Reserve.VolumeBinding", "pod": pod, "node": node_name}
        self.handle.log(4, "AssumePodVolumes", **about)
        bindings, provisions = self._planner.bindings(reservation.plan, row)
        if not bindings and not provisions:
            self.handle.log(4, "AssumePodVolumes: all PVCs bound and nothing to do", **about)
        for binding in bindings:
            volume = bound(binding.volume, binding.claim)
            which = {"PV": binding.volume, "PVC": binding.claim, "newPV": volume, "dirty": volume is not binding.volume}
            self.handle.log(5, "AssumePodVolumes: GetBindVolumeToClaim", **about, **which)
            reservation.bindings.append(VolumeMatch(binding.claim, volume))
            if volume is not binding.volume:
                self._volumes.assume(volume)
        for provision in provisions:
            claim = selected(provision.claim, node_name)
            reservation.provisions.append(claim)
            self._claims.assume(claim)
        return None

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        if self.name not in state:
            return
        reservation = state.read(self.name, Reservation)
        for binding in reservation.bindings:
            self._volumes.restore(binding.volume)
        for claim in reservation.provisions:
            self._claims.restore(claim)

    # PreBind

    def pre_bind_needed(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
        if self.name not in state:
            return True
        reservation = state.read(self.name, Reservation)
        return bool(reservation.bindings or reservation.provisions)

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Write the reservations to the API server, and wait until they are fulfilled."""
        if self.name not in state:
            return NOT_PREPARED
        reservation = state.read(self.name, Reservation)
        if not reservation.bindings and not reservation.provisions:
            return None
        log = self.handle.log
        about: dict[str, object] = {"logger": PRE_BIND, "pod": pod, "node": node_name}
        binder = VolumeBinder(cast(BindingHandle, self.handle), self._claims, self._volumes, pod, node_name)
        log(5, "Trying to bind volumes for pod", **about)
        log(4, "BindPodVolumes", **about)
        try:
            written = await binder.write(reservation.bindings, reservation.provisions)
            await binder.wait(*written, self.args.bind_timeout_seconds)
        except VolumeBindingError as problem:
            log(5, "Failed to bind volumes for pod", **about, err=problem)
            return error(str(problem))
        log(5, "Success binding volumes for pod", **about)
        return None

    # Hints

    def _after_class_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log, about = self.handle.log, {"Pod": pod, "StorageClass": new}
        if not isinstance(old, api.StorageClass) or not isinstance(new, api.StorageClass):
            return queue_because(log, 5, "A new StorageClass was created, which could make a Pod schedulable", **about)
        if old.allowed_topologies != new.allowed_topologies:
            topologies = msgspec.to_builtins(new.allowed_topologies)
            why = "StorageClass got an update in AllowedTopologies"
            return queue_because(log, 5, why, **about, AllowedTopologies=topologies)
        return skip_because(log, 5, "StorageClass was updated, but it doesn't make this pod schedulable", **about)

    def _after_claim_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log, about = self.handle.log, {"Pod": pod, "PersistentVolumeClaim": new}
        if uses_claim(pod, new):
            why = (
                "PersistentVolumeClaim the pod requires was created or updated, potentially making the target Pod "
                "schedulable"
            )
            return queue_because(log, 5, why, **about)
        if new is not None and new.namespace != pod.namespace:
            why = (
                "PersistentVolumeClaim was created or updated, but it doesn't make this pod schedulable because the "
                "PVC belongs to a different namespace"
            )
            return skip_because(log, 5, why, **about)
        why = "PersistentVolumeClaim was created or updated, but it doesn't make this pod schedulable"
        return skip_because(log, 5, why, **about)

    def _after_csi_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log, about = self.handle.log, {"Pod": pod, "CSINode": new}
        if old is None or new is None:
            return queue_because(log, 5, "CSINode creation could make the pod schedulable")
        if old.annotations.get(MIGRATED_PLUGINS, "") != new.annotations.get(MIGRATED_PLUGINS, ""):
            why = "CSINode's migrated plugins annotation is updated and that may make the pod schedulable"
            return queue_because(log, 5, why, **about)
        return skip_because(log, 5, "CISNode was created or updated but it doesn't make this pod schedulable", **about)

    def _after_driver_update(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.CSIDriver) or not isinstance(new, api.CSIDriver):
            return Hint.QUEUE
        concerned = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
        relaxed = old.spec.storage_capacity and not new.spec.storage_capacity
        log, about = self.handle.log, {"Pod": pod, "CSIDriver": new}
        if concerned and relaxed:
            why = "CSIDriver was updated and storage capacity got disabled, which may make the pod schedulable"
            return queue_because(log, 5, why, **about)
        return skip_because(
            log, 5, "CSIDriver was created or updated but it doesn't make this pod schedulable", **about
        )

    def _after_pool_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log, about = self.handle.log, {"Pod": pod, "CSIStorageCapacity": new}
        if not isinstance(old, api.CSIStorageCapacity) or not isinstance(new, api.CSIStorageCapacity):
            why = "A new CSIStorageCapacity was created, which could make a Pod schedulable"
            return queue_because(log, 5, why, **about)
        before, after = largest_volume(old), largest_volume(new)
        limits = {"volumeLimit(new)": volume_limit(new), "volumeLimit(old)": volume_limit(old)}
        if after is not None and (before is None or after > before):
            return queue_because(
                log, 5, "VolumeLimit was increased, which could make a Pod schedulable", **about, **limits
            )
        why = "CSIStorageCapacity was updated, but it doesn't make this pod schedulable"
        return skip_because(log, 5, why, **about, **limits)
