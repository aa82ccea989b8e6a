"""A pod's claims: finding them, and who may use them."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.workloads import API_GROUP
from kubesched.plugins.dynamic_resources.ledger import Ledger


class ClaimError(Exception):
    """A pod's claim cannot be used now; the text is upstream's."""


def claim_name(pod: api.Pod, reference: api.PodResourceClaim) -> tuple[str | None, bool]:
    """The name of the claim that a pod refers to, and whether the pod must own it. None if none is needed."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is not None:
        for status in pod.status.resource_claim_statuses:
            if status.name == reference.name:
                return status.resource_claim_name, True
        raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
    problem = "none of the supported fields are set"
    raise ClaimError(f'pod "{pod.key}", spec.resourceClaim "{reference.name}": {problem}')


def claims_of(
    pod: api.Pod, ledger: Ledger, *, of_groups: bool
) -> Iterator[tuple[api.PodResourceClaim, dra.ResourceClaim]]:
    """The pod's references to claims, and the claims; a ClaimError if one is not there or not for the pod.

    With `of_groups`, the gate DRAWorkloadResourceClaims, a claim may also be made for the pod's group.
    """
    for reference in pod.spec.resource_claims:
        name, must_own = claim_name(pod, reference)
        if name is None:
            continue
        key = f"{pod.namespace}/{name}"
        claim = ledger.get(key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if must_own and not is_controlled_by(claim, pod):
            if not of_groups or not pod.pod_group:
                raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")
            group = _group_name(pod)
            if not _is_controlled_by_group(claim, group):
                owners = f"neither Pod nor PodGroup {group} is the owner"
                raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} ({owners})")
        yield reference, claim


def claims_of_group(group: api.PodGroup, ledger: Ledger) -> Iterator[dra.ResourceClaim]:
    """The claims that the pods of a group share; a ClaimError if one is not there."""
    made = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
    for reference in group.spec.resource_claims:
        name = reference.resource_claim_name
        if name is None:
            if reference.name not in made:
                raise ClaimError(f"PodGroup {group.key}: ResourceClaim not created yet")
            name = made[reference.name]
        if name is None:
            continue
        claim = ledger.get(f"{group.namespace}/{name}")
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{group.namespace}/{name}"')
        controller = _controller(claim)
        if reference.resource_claim_name is not None or (controller is not None and controller.uid == group.uid):
            yield claim


def consumer_of(
    pod: api.Pod, reference: api.PodResourceClaim, group: api.PodGroup | None
) -> dra.ResourceClaimConsumerReference:
    """For whom a claim is to be reserved: the group, if that refers to the claim in the same way, or the pod."""
    if group is not None:
        wanted = (reference.name, reference.resource_claim_name, reference.resource_claim_template_name)
        for each in group.spec.resource_claims:
            if wanted == (each.name, each.resource_claim_name, each.resource_claim_template_name):
                return dra.ResourceClaimConsumerReference(API_GROUP, "podgroups", group.name, group.uid)
    return dra.ResourceClaimConsumerReference("", "pods", pod.name, pod.uid)


def refers_to(pod: api.Pod, claim: dra.ResourceClaim) -> bool:
    """Whether a claim has a name that the pod mentions."""
    if pod.namespace != claim.namespace:
        return False
    named = any(reference.resource_claim_name == claim.name for reference in pod.spec.resource_claims)
    return named or any(status.resource_claim_name == claim.name for status in pod.status.resource_claim_statuses)


def is_controlled_by(claim: dra.ResourceClaim, pod: api.Pod) -> bool:
    """Whether the pod is the claim's controller."""
    controller = _controller(claim)
    return controller is not None and controller.uid == pod.uid


def _is_controlled_by_group(claim: dra.ResourceClaim, group: str) -> bool:
    """Whether a group of that name is the claim's controller. A pod does not know the UID of its group."""
    controller = _controller(claim)
    return (
        controller is not None
        and (controller.kind, controller.name) == ("PodGroup", group)
        and controller.api_version.startswith(f"{API_GROUP}/")
    )


def _controller(claim: dra.ResourceClaim) -> api.OwnerReference | None:
    return next((owner for owner in claim.metadata.owner_references if owner.controller), None)


def _group_name(pod: api.Pod) -> str:
    return pod.pod_group.rpartition("/")[2]


def is_reserved_for(claim: dra.ResourceClaim, pod: api.Pod, *, of_groups: bool = False) -> bool:
    """Whether the pod, or with `of_groups` its group, is among those that the claim is reserved for."""
    if any(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
        return True
    if not of_groups or not pod.pod_group:
        return False
    group = (API_GROUP, "podgroups", _group_name(pod))
    return any((each.api_group, each.resource, each.name) == group for each in claim.status.reserved_for)


# --- binding conditions -----------------------------------------------------------------------------------------------


class BindingFailed(Exception):  # noqa: N818  # upstream's name for it
    """A device says that it cannot be made ready."""


def is_ready(claim: dra.ResourceClaim) -> bool:
    """Whether all binding conditions of the claim's devices are met. BindingFailed if one says that it never will."""
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = device_conditions(claim, result)
        if conditions is None:
            return False
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                what = f'claim={claim.name}, reason={failed.reason}, message="{failed.message}"'
                raise BindingFailed(f"device binding failed: {what}")
        if not all(_is_true(conditions.get(name)) for name in result.binding_conditions):
            return False
    return True


def device_conditions(
    claim: dra.ResourceClaim, result: dra.DeviceRequestAllocationResult
) -> dict[str, dra.DeviceCondition] | None:
    """The conditions that a driver reports of an allocated device, by type; None if it reports nothing yet."""
    wanted = (result.driver, result.pool, result.device)
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == wanted:
            return {condition.type: condition for condition in status.conditions}
    return None


def has_binding_conditions(claim: dra.ResourceClaim) -> bool:
    """Whether a device of the claim has to be made ready before the pod may be bound."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def _is_true(condition: dra.DeviceCondition | None) -> bool:
    return condition is not None and condition.status == "True"
