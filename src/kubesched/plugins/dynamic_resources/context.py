"""What the extension points of the plugin share: the cluster's devices, gates and settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.config.args import BINDING_TIMEOUT, DynamicResourcesArgs
from kubesched.framework.plugin import Handle
from kubesched.framework.state import POD_GROUP_CYCLE, CycleState, GroupCycleState
from kubesched.framework.status import error
from kubesched.plugins.dynamic_resources.binding import ClaimBinder
from kubesched.plugins.dynamic_resources.claims import ClaimError
from kubesched.plugins.dynamic_resources.devices import Devices
from kubesched.plugins.dynamic_resources.plan import FilterTimeout

NAME = "DynamicResources"
"""The plugin's name, and the key of its `Cycle` in a cycle's state."""
NOT_PREPARED = error("not found")
"""What upstream says when a profile has this plugin at a later point but not at PreFilter."""


class ClaimContext:
    """One profile's view of the devices of the cluster."""

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        self.handle = handle
        self.features = handle.features
        self.conditions = handle.features.binding_conditions
        self.of_groups = handle.features.dra_workload_resource_claims
        self.binding_timeout = (args.binding_timeout or BINDING_TIMEOUT).seconds
        self._filter_timeout = args.filter_timeout
        devices = handle.cluster.share(Devices)
        self.resolver = devices.resolver
        self.ledger = devices.ledger
        self.inventory = devices.inventory
        self.plans = devices.plans
        self.binder = ClaimBinder(handle, self.ledger, self.features, self.binding_timeout, self.is_late)

    def new_uid(self) -> str:
        """A UID for an object that exists in memory only."""
        return str(UUID(int=self.handle.random.getrandbits(128), version=4))

    def group_of(self, pod: api.Pod) -> api.PodGroup | None:
        """The pod's group, if groups may have claims."""
        if not self.of_groups or not pod.pod_group:
            return None
        group = self.handle.cluster.get(api.PodGroup, pod.pod_group)
        if group is None:
            raise ClaimError(f'podgroup.scheduling.k8s.io "{pod.pod_group.rpartition("/")[2]}" not found')
        return group

    def is_late(self, claim: dra.ResourceClaim) -> bool:
        """Whether the devices of a claim have taken too long to become ready."""
        allocation = claim.status.allocation
        clock = getattr(self.handle, "clock", None)
        if clock is None or allocation is None or allocation.allocation_timestamp is None:
            return False
        if not any(result.binding_conditions for result in allocation.devices.results):
            return False
        allocated = datetime.fromisoformat(allocation.allocation_timestamp).timestamp()
        return bool(clock.now() > allocated + self.binding_timeout)

    def timer(self, number: int) -> Callable[[], None] | None:
        """Raises FilterTimeout once the search in a state has taken longer than the configuration allows."""
        clock = getattr(self.handle, "clock", None)
        limit = self._filter_timeout
        if clock is None or not self.features.dra_scheduler_filter_timeout or limit is None or limit <= 0:
            return None
        deadline = clock.monotonic() + limit.seconds

        def check() -> None:
            if clock.monotonic() > deadline:
                raise FilterTimeout(number)

        return check


def group_state(state: CycleState) -> GroupCycleState:
    """What the cycle of the pod's group knows; nothing for a pod that is tried by itself."""
    return state.read(POD_GROUP_CYCLE, GroupCycleState) if POD_GROUP_CYCLE in state else GroupCycleState()
