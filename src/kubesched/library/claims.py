"""Claims on devices in a cluster without an API server: written when a pod is placed, given back when it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.engine.decision import Decision as Attempt
from kubesched.framework.runtime import Framework
from kubesched.plugins.dynamic_resources.claims import ClaimError, claim_name
from kubesched.plugins.dynamic_resources.plugin import DynamicResources

if TYPE_CHECKING:
    from kubesched.library.core import ClusterCore


def claims_of(cluster: ClusterCore, pod: api.Pod) -> Iterator[dra.ResourceClaim]:
    """The claims of a pod that exist."""
    for reference in pod.spec.resource_claims:
        try:
            name, _ = claim_name(pod, reference)
        except ClaimError:
            continue
        claim = cluster.get(api.ResourceClaim, f"{pod.namespace}/{name}")
        if claim is not None:
            yield claim


def written(framework: Framework, attempt: Attempt) -> Iterator[dra.ResourceClaim]:
    """A pod's claims after Reserve, as PreBind would write them."""
    for plugin in framework.plugins:
        if isinstance(plugin, DynamicResources):
            yield from plugin.settle(attempt.state)


def released(claim: dra.ResourceClaim, pod: api.Pod) -> dra.ResourceClaim:
    """A claim after a pod of its users has gone. Without users its devices are free, as the controller sees to."""
    others = tuple(each for each in claim.status.reserved_for if each.uid != pod.uid)
    status = replace(claim.status, reserved_for=others) if others else dra.ResourceClaimStatus()
    return replace(claim, status=status)
