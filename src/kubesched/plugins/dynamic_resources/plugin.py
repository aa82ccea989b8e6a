"""DynamicResources: a pod goes where its claimed devices are, or can be allocated."""

from __future__ import annotations

import numpy as np

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.config.args import DynamicResourcesArgs
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import Handle, Plugin, PostFilterResult, Reads, Verdicts, default_normalize
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.dynamic_resources.binding import ClaimBindingError
from kubesched.plugins.dynamic_resources.context import NAME, NOT_PREPARED, ClaimContext
from kubesched.plugins.dynamic_resources.cycle import NO_CLAIMS, Cycle
from kubesched.plugins.dynamic_resources.deallocation import Deallocation
from kubesched.plugins.dynamic_resources.filtering import ClaimFilter
from kubesched.plugins.dynamic_resources.groups import NodeGroups
from kubesched.plugins.dynamic_resources.hints import ClaimHints
from kubesched.plugins.dynamic_resources.prepare import Preparation
from kubesched.plugins.dynamic_resources.reservation import DeviceReservation
from kubesched.plugins.dynamic_resources.scoring import ClaimScores


class DynamicResources(Plugin):
    """All points at which claims matter, from PreEnqueue to PreBind. Each has a module of its own."""

    name = NAME
    reads = Reads.ROW
    args_type = DynamicResourcesArgs
    pre_bind_in_parallel = True

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._context = context = ClaimContext(args, handle)
        groups = NodeGroups(context)
        self._hints = ClaimHints(context)
        self._preparation = Preparation(context)
        self._filter = ClaimFilter(context, groups)
        self._deallocation = Deallocation(context)
        self._scores = ClaimScores(context, groups)
        self._reservation = DeviceReservation(context, groups)

    def sign(self, pod: api.Pod) -> Signature | Status:
        return unschedulable("pods with dra resource claims are not signable") if pod.spec.resource_claims else {}

    def events_to_register(self) -> list[EventHint]:
        change, hints = Action.ADD | Action.UPDATE, self._hints
        return [
            # PreEnqueue looks for claims alone: neither nodes nor devices open it.
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE, gated=False),
            on(Resource.RESOURCE_CLAIM, change, hints.after_claim_change, only=hints.pods_helped),
            on(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, hints.after_pod_change),
            on(Resource.DEVICE_CLASS, change, gated=False),
            on(Resource.RESOURCE_SLICE, change, gated=False),
        ]

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        self._hints.note(pod)
        problem = self._hints.problem(pod) if pod.spec.resource_claims else None
        return None if problem is None else unresolvable(problem)

    def ignores(self, pod_class: PodClass) -> bool:
        return not pod_class.spec.resource_claims and not pod_class.requests.scalar

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        state.write(NAME, NO_CLAIMS)
        found: Cycle | Status = SKIP
        if not self.ignores(state.pod_class):
            self._hints.note(pod)
            found = self._preparation.prepare(state, pod)
        if isinstance(found, Status):
            if found is SKIP:
                state.skip_score.add(NAME)
            return found
        state.write(NAME, found)
        return None

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return self._context.features.dra_node_allocatable_resources

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        if NAME not in state:
            return Verdicts(np.ones(len(nodes), dtype=np.int64), lambda _: NOT_PREPARED)
        cycle = state.read(NAME, Cycle)
        return self._filter.verdicts(cycle, pod, nodes) if cycle.claims else None

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        return self._deallocation.post_filter(state, pod, diagnosis)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        if NAME not in state or not self._context.features.dra_prioritized_list:
            return 0
        cycle = state.read(NAME, Cycle)
        return self._scores.scores(cycle, pod, nodes) if cycle.allocates else 0

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        return self._reservation.reserve(state, pod, node_name)

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        self._reservation.unreserve(state, pod, node_name)

    def settle(self, state: CycleState) -> list[dra.ResourceClaim]:
        """The claims of a reserved pod as PreBind would write them; for clusters without an API server."""
        return self._reservation.settle(state.read(NAME, Cycle)) if NAME in state else []

    def pre_bind_needed(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
        return bool(state.read(NAME, Cycle).claims)

    def pre_bind_waits(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
        return self._context.conditions and state.read(NAME, Cycle).has_binding_conditions

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Write allocations and reservations, and wait for devices that have to be made ready."""
        if NAME not in state:
            return NOT_PREPARED
        cycle = state.read(NAME, Cycle)
        try:
            await self._context.binder.bind(cycle, pod, node_name)
        except ClaimBindingError as problem:
            return error(str(problem))
        self._hints.forget(pod)
        return None
