"""One pod's claims through one scheduling cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubesched.api import devices as dra
from kubesched.api.selectors import CompiledNodeSelector
from kubesched.plugins.dynamic_resources.extended import Mapping
from kubesched.plugins.dynamic_resources.node_allocatable import ClaimStatuses
from kubesched.plugins.dynamic_resources.plan import AllocationPlan
from kubesched.plugins.dynamic_resources.requests import AllocationError


class NodeClaims:
    """The claims to allocate on nodes that provide the same resources by devices."""

    __slots__ = ("claims", "mappings", "plan")

    def __init__(
        self,
        claims: Sequence[dra.ResourceClaim],
        mappings: Sequence[Mapping],
        plan: AllocationPlan | AllocationError | None,
    ) -> None:
        self.claims = claims
        self.mappings = mappings
        self.plan = plan
        """None if a device plugin provides everything."""


class Cycle:
    """What the plugin knows of a pod's claims, from PreFilter on."""

    def __init__(
        self,
        claims: list[dra.ResourceClaim],
        special: dra.ResourceClaim | None,
        consumers: Sequence[dra.ResourceClaimConsumerReference] = (),
    ) -> None:
        self.claims = claims
        """The pod's claims, then the special one for extended resources, if there is one."""
        self.user_claims = len(claims)
        self.consumers = consumers
        """For whom each of the pod's claims is to be reserved."""
        self.special_uid = "" if special is None else special.uid
        """The special claim's UID at first; it gets another one when it is created."""
        if special is not None:
            claims.append(special)
        self.places: list[CompiledNodeSelector | None] = [None] * len(claims)
        """Where the devices of each allocated claim can be reached from; None for everywhere."""
        self.allocations: list[dra.AllocationResult | None] = [None] * len(claims)
        """What Reserve has decided, for PreBind to write."""
        self.shared: dict[int, dra.AllocationResult] = {}
        """What an earlier pod of the same group has been given in this cycle, for claims of both."""
        self.unready: set[int] = set()
        """Allocated claims whose devices have failed to become ready, or taken too long."""
        self.allocates = False
        """Whether any claim has to be allocated."""
        self.backed: list[str] = []
        """The pod's extended resources that devices may provide."""
        self.unbacked: list[str] = []
        """Its other extended resources."""
        self.on_nodes: dict[tuple[str, ...], NodeClaims] = {}
        """By the resources that nodes provide by devices."""
        self.chosen: NodeClaims | None = None
        """Those of the node that was reserved."""
        self.node_allocatable: ClaimStatuses = ()
        """What those take of the node's own resources."""
        self.in_pod_status = False
        """Whether PreBind has written that to the pod's status."""

    @property
    def special(self) -> dra.ResourceClaim | None:
        """The claim for extended resources."""
        return self.claims[self.user_claims] if len(self.claims) > self.user_claims else None

    @property
    def has_binding_conditions(self) -> bool:
        """Whether a device has to be made ready before the pod may be bound."""
        pairs = zip(self.claims, self.allocations, strict=True)
        found = (made or claim.status.allocation for claim, made in pairs)
        return any(result.binding_conditions for each in found if each is not None for result in each.devices.results)

    def to_allocate(self) -> Iterator[int]:
        """The claims without an allocation."""
        found = (index for index, claim in enumerate(self.claims) if claim.status.allocation is None)
        return (index for index in found if index not in self.shared)


NO_CLAIMS = Cycle([], None)
