"""Shared by volume plugins: how pods refer to claims, and claims to classes and volumes. Messages are upstream's."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubesched.api import objects as api
from kubesched.base.log import Log
from kubesched.framework.events import Hint, queue_because, skip_because

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_SEPARATOR: Final = "__"


class ClaimUse(NamedTuple):
    """A claim that one of a pod's volumes uses. An ephemeral claim was created for the pod and must belong to it."""

    name: str
    ephemeral: bool = False


def claim_use(pod: api.Pod, volume: api.Volume) -> ClaimUse | None:
    """The claim behind a volume, if there is one."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name)
    if volume.ephemeral is not None:
        return ClaimUse(f"{pod.name}-{volume.name}", ephemeral=True)
    return None


def claim_uses(pod: api.Pod) -> list[ClaimUse]:
    """The claims of a pod in the order of its volumes; a claim that two volumes use is listed twice."""
    uses = (claim_use(pod, volume) for volume in pod.spec.volumes)
    return [use for use in uses if use is not None]


def uses_claim(pod: api.Pod, claim: api.Object | None) -> bool:
    """Whether a volume of the pod uses this claim, ephemeral ones included."""
    return claim is not None and claim.namespace == pod.namespace and any(u.name == claim.name for u in claim_uses(pod))


def after_claim_added(log: Log, pod: api.Pod, claim: api.Object | None, *, wanted: bool) -> Hint:
    """The hint after a claim was created, in the words that two plugins share."""
    if wanted:
        why = "PVC that is referred from the pod was created, which might make this pod schedulable"
        return queue_because(log, 5, why, pod=pod, PVC=claim)
    if claim is None or claim.namespace != pod.namespace:
        return Hint.SKIP
    why = "PVC irrelevant to the Pod was created, which doesn't make this pod schedulable"
    return skip_because(log, 5, why, pod=pod, PVC=claim)


def claim_names(pod: api.Pod) -> list[str]:
    """The claims that the pod's spec names itself, so not the ephemeral ones."""
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def names_claim(volume: api.Volume) -> bool:
    """Whether a volume uses a claim, ephemeral ones included."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def claim_key(namespace: str, name: str) -> str:
    """The key under which the cluster has a claim."""
    return f"{namespace}/{name}" if namespace else name


def not_owned(pod: api.Pod, claim: api.PersistentVolumeClaim) -> str | None:
    """Why a claim cannot be an ephemeral volume of the pod; None if it can."""
    controller = next((o for o in claim.metadata.owner_references if o.controller), None)
    if controller is not None and controller.uid == pod.uid:
        return None
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def class_of_claim(claim: api.PersistentVolumeClaim) -> str:
    """The storage class a claim asks for; empty if none."""
    return claim.annotations.get(BETA_STORAGE_CLASS, claim.spec.storage_class_name or "")


def class_of_volume(volume: api.PersistentVolume) -> str:
    """The storage class a volume belongs to; empty if none."""
    return volume.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def is_fully_bound(claim: api.PersistentVolumeClaim) -> bool:
    """Whether a claim is bound on both sides."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.annotations


def not_found(resource: str, name: str) -> str:
    """The API machinery's message for a missing object."""
    return f'{resource} "{name}" not found'
