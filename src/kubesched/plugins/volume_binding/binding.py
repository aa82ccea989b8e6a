"""Writes the reservations for a pod's claims, and waits until the volume controllers have done their part."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.cluster.state import ClusterState
from kubesched.framework.handle import ApiClient
from kubesched.plugins.csi_migration import TranslationError, csi_node_affinity, migrated_plugins, migration_of
from kubesched.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.plugins.volume_binding.places import selected_place
from kubesched.plugins.volume_binding.plan import VolumeMatch
from kubesched.plugins.volume_binding.supply import is_bound_to
from kubesched.plugins.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, is_fully_bound, not_found

POLL_SECONDS = 1.0
PRE_BIND = "PreBind.VolumeBinding"
"""The logger's name in these lines."""

T = TypeVar("T", api.PersistentVolume, api.PersistentVolumeClaim)


class BindingHandle(Protocol):
    """What PreBind needs of the scheduler it runs in."""

    cluster: ClusterState
    client: ApiClient
    clock: Clock
    log: Log


class VolumeBindingError(Exception):
    """Binding failed and the pod must be scheduled again; the text is upstream's."""


def bound(volume: api.PersistentVolume, claim: api.PersistentVolumeClaim) -> api.PersistentVolume:
    """The volume with the claim in it; the same object if nothing changes."""
    reference = api.ObjectReference(
        api_version=claim.api_version,
        kind=claim.kind,
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        resource_version=claim.metadata.resource_version,
    )
    present = volume.spec.claim_ref
    if present is None or (present.namespace, present.name, present.uid) != (claim.namespace, claim.name, claim.uid):
        spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
        changed = msgspec.structs.replace(volume, spec=spec)
    else:
        changed = volume
    if is_bound_to(volume, claim) or BOUND_BY_CONTROLLER in volume.annotations:
        return changed
    return _annotated(changed, BOUND_BY_CONTROLLER, "yes")


def selected(claim: api.PersistentVolumeClaim, node_name: str) -> api.PersistentVolumeClaim:
    """The claim, to be provisioned for this node."""
    return _annotated(claim, SELECTED_NODE, node_name)


def _annotated(obj: T, key: str, value: str) -> T:
    metadata = msgspec.structs.replace(obj.metadata, annotations={**obj.annotations, key: value})
    return msgspec.structs.replace(obj, metadata=metadata)


class VolumeBinder:
    """Carries out the bindings and provisions that were reserved for one pod on one node."""

    def __init__(
        self,
        handle: BindingHandle,
        claims: AssumeCache[api.PersistentVolumeClaim],
        volumes: AssumeCache[api.PersistentVolume],
        pod: api.Pod,
        node_name: str,
    ) -> None:
        self._pod = pod
        self._node_name = node_name
        self._log = handle.log
        self._cluster = handle.cluster
        self._client = handle.client
        self._clock = handle.clock
        self._claims = claims
        self._volumes = volumes

    async def write(
        self, bindings: list[VolumeMatch], provisions: list[api.PersistentVolumeClaim]
    ) -> tuple[list[VolumeMatch], list[api.PersistentVolumeClaim]]:
        """Write volumes, then claims, and return them as they were written. If a write fails, earlier writes stay."""
        try:
            volumes = [VolumeMatch(each.claim, await self._write_volume(each)) for each in bindings]
            return volumes, [await self._write_claim(claim) for claim in provisions]
        except Exception as problem:
            raise VolumeBindingError(str(problem)) from problem

    async def _write_volume(self, binding: VolumeMatch) -> api.PersistentVolume:
        volume, about = binding.volume, {"PV": binding.volume, "PVC": binding.claim}
        reference = volume.spec.claim_ref
        assert reference is not None  # set by `bound`
        annotations = {k: v for k, v in volume.annotations.items() if k == BOUND_BY_CONTROLLER}
        self._say(5, "Updating PersistentVolume: binding to claim", pod=self._pod, **about)
        try:
            written = await self._client.bind_volume(
                volume.name, reference, annotations, volume.metadata.resource_version
            )
        except Exception as problem:
            self._say(4, "Updating PersistentVolume: binding to claim failed", pod=self._pod, **about, err=problem)
            raise
        self._say(2, "Updated PersistentVolume with claim. Waiting for binding to complete", pod=self._pod, **about)
        return written

    async def _write_claim(self, claim: api.PersistentVolumeClaim) -> api.PersistentVolumeClaim:
        annotations = {SELECTED_NODE: claim.annotations[SELECTED_NODE]}
        self._say(5, "Updating claims objects to trigger volume provisioning", pod=self._pod, PVC=claim)
        try:
            return await self._client.annotate_claim(
                claim.namespace, claim.name, annotations, claim.metadata.resource_version
            )
        except Exception as problem:
            self._say(4, "Updating PersistentVolumeClaim: binding to volume failed", PVC=claim, err=problem)
            raise

    def _say(self, level: int, message: str, **fields: object) -> None:
        self._log(level, message, logger=PRE_BIND, node=self._node_name, **fields)

    async def wait(
        self, bindings: list[VolumeMatch], provisions: list[api.PersistentVolumeClaim], timeout: float
    ) -> None:
        """Check every second whether everything is bound, until the timeout."""
        deadline = self._clock.monotonic() + timeout
        while True:
            left = deadline - self._clock.monotonic()
            await self._clock.sleep(max(min(POLL_SECONDS, left), 0.0))
            if left < POLL_SECONDS:
                raise VolumeBindingError("binding volumes: context deadline exceeded")
            try:
                node = self._check_pod(self._pod, self._node_name)
                if all(self._is_bound(b, node) for b in bindings) and all(
                    self._is_provisioned(claim, node) for claim in provisions
                ):
                    self._say(2, "All PVCs for pod are bound", pod=self._pod)
                    return
            except VolumeBindingError as problem:
                raise VolumeBindingError(f"binding volumes: {problem}") from problem

    def _check_pod(self, pod: api.Pod, node_name: str) -> api.Node:
        """The node, if it and the pod still exist."""
        row = self._cluster.nodes.row_of.get(node_name)
        node = None if row is None else self._cluster.nodes.nodes[row]
        if node is None:
            raise VolumeBindingError(f'failed to get node "{node_name}": {not_found("node", node_name)}')
        if pod.uid not in self._cluster.pods:
            raise VolumeBindingError(f"pod does not exist any more: {not_found('pod', pod.name)}")
        return node

    def _is_bound(self, binding: VolumeMatch, node: api.Node) -> bool:
        """Whether a volume that we wrote and its claim are bound to each other."""
        name, claim_key = binding.volume.name, binding.claim.key
        volume = self._volumes.stored(name)
        if volume is None:
            raise VolumeBindingError(f"failed to check binding: {not_found('persistentvolumes', name)}")
        claim = self._claims.stored(claim_key)
        if claim is None:
            raise VolumeBindingError(f"failed to check binding: {not_found('persistentvolumeclaims', claim_key)}")
        if _version(binding.volume) > _version(volume):
            return False  # our own change has not arrived yet
        try:
            self._check_reachable(volume, node)
        except TranslationError as problem:
            raise VolumeBindingError(f"failed to translate pv to csi: could not translate pv: {problem}") from problem
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise VolumeBindingError(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, written: api.PersistentVolumeClaim, node: api.Node) -> bool:
        """Whether a claim that we passed to its provisioner has a volume."""
        claim = self._claims.stored(written.key)
        if claim is None:
            missing = not_found("persistentvolumeclaims", written.key)
            raise VolumeBindingError(f"failed to check provisioning pvc: {missing}")
        if _version(written) > _version(claim):
            return False  # our own change has not arrived yet
        if not claim.annotations:
            raise VolumeBindingError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.annotations.get(SELECTED_NODE, "") != node.name:
            raise VolumeBindingError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._volumes.stored(claim.spec.volume_name)
            if volume is None:
                return False  # not seen yet; if it is gone for good, the claim will be unbound
            try:
                self._check_reachable(volume, node)
            except TranslationError as problem:
                raise VolumeBindingError(f"could not translate pv: {problem}") from problem
        return is_fully_bound(claim)

    def _check_reachable(self, volume: api.PersistentVolume, node: api.Node) -> None:
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        migration = migration_of(volume.spec)
        csi_node = self._cluster.get(api.CSINode, node.name)
        migrated = migrated_plugins(csi_node) if csi_node is not None else ()
        if migration is not None and migration.is_on and migration.plugin in migrated:
            required = csi_node_affinity(volume, migration)
        place = selected_place(required)
        if not place.matches(node.labels, ""):
            problem = place.error or "no matching NodeSelectorTerms"
            raise VolumeBindingError(f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": {problem}')


def _version(obj: api.Object) -> int:
    version = obj.metadata.resource_version
    return int(version) if version.isdecimal() else 0
