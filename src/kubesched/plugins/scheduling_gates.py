"""SchedulingGates: keep a pod out of the active queue until all its gates are gone."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.status import Status, unresolvable


class SchedulingGates(Plugin):
    """PreEnqueue on `spec.schedulingGates`."""

    name = "SchedulingGates"
    reads = Reads.NODE

    def events_to_register(self) -> list[EventHint]:
        return [on(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._after_gates_gone)]

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def _after_gates_gone(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP
