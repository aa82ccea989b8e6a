"""DynamicResources, as far as pods without resource claims notice it.

Allocating claims comes later. Until then a pod that has some is kept waiting, with a message that says so, rather than
placed as if it had none; and preemption's message begins as upstream's does, with this plugin's word on claims.
"""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.events import EventHint
from kubesched.framework.plugin import Plugin, PostFilterResult
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable

NOT_YET = unresolvable("pod has resource claims, and this version of kubesched does not allocate resource claims yet")


class DynamicResources(Plugin):
    """PreFilter that keeps pods with resource claims waiting; PostFilter that has none to give back."""

    name = "DynamicResources"

    def events_to_register(self) -> list[EventHint]:
        """None: nothing that happens in a cluster would help."""
        return []

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        state.write(self, True)
        return NOT_YET if pod.spec.resource_claims else SKIP

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        if self not in state:
            # Another plugin's PreFilter ended the attempt first; upstream stops here too, before preemption.
            return None, error("not found")
        return None, unschedulable("no new claims to deallocate")
