"""A pod's claims: finding them, and who may use them."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources.ledger import Ledger


class ClaimError(Exception):
    """A pod's claim cannot be used now; the text is upstream's."""


def binds_with_conditions(features: Features) -> bool:
    """Whether a pod waits for binding conditions of its devices: that takes two gates."""
    return features.dra_device_binding_conditions and features.dra_resource_claim_device_status


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


def claims_of(pod: api.Pod, ledger: Ledger) -> Iterator[tuple[str, dra.ResourceClaim]]:
    """The pod's own names of its claims, and the claims; a ClaimError if one is not there or not for the pod."""
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
            raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")
        yield reference.name, claim


def refers_to(pod: api.Pod, claim: dra.ResourceClaim) -> bool:
    """Whether a claim has a name that the pod mentions."""
    if pod.namespace != claim.namespace:
        return False
    named = any(reference.resource_claim_name == claim.name for reference in pod.spec.resource_claims)
    return named or any(status.resource_claim_name == claim.name for status in pod.status.resource_claim_statuses)


def is_controlled_by(claim: dra.ResourceClaim, pod: api.Pod) -> bool:
    """Whether the pod is the claim's controller."""
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return controller is not None and controller.uid == pod.uid


def is_reserved_for(claim: dra.ResourceClaim, pod: api.Pod) -> bool:
    """Whether the pod is among those that the claim is reserved for."""
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


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
