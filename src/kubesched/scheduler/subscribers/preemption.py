"""Preemptions in log lines, metrics and Events of the victims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.scheduler.ports import NORMAL
from kubesched.scheduler.shared import Shared

SUCCESS = "success"
FAILED = "error"


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod or a pod group that preempts others, and the node; for a group the node is `ANYWHERE`."""

    obj: api.Pod | api.PodGroup
    pods: Sequence[api.Pod]
    node: str

    @property
    def kind(self) -> str:
        return "pod" if isinstance(self.obj, api.Pod) else "podgroup"

    @property
    def scheduler_name(self) -> str:
        return self.pods[0].scheduler_name


class PreemptionReport:
    """Reports on preemptions."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def began(self, victims: int) -> None:
        """Victims are about to be removed."""
        self._shared.metrics.preemption(victims)

    def began_in_background(self, by: Claimant, victims: int, to_delete: int) -> None:
        """Victims are about to be removed, while other pods are scheduled."""
        self.began(victims)
        message = "Start the preemption asynchronously"
        self._log(message, by, numVictims=victims, numVictimsToDelete=to_delete)
        self._shared.metrics.goroutines("preemption", 1)

    def ended_in_background(self, by: Claimant, problems: Sequence[BaseException], seconds: float) -> None:
        """The victims are removed, or one could not be."""
        for problem in problems:
            self._shared.log(ERROR, "Error occurred during async preemption", preemptor=by.obj, err=problem)
        outcome = FAILED if problems else SUCCESS
        self._shared.metrics.goroutines("preemption", -1)
        self._shared.metrics.preemption_executed(outcome, seconds)
        self._log("Async Preemption finished completely", by, result=outcome)

    # One victim

    def leaves_already(self, by: Claimant, victim: api.Pod) -> None:
        """A victim is being deleted already."""
        self._log("Victim Pod is already being deleted, skipping the API call for it", by, victim=victim)

    def was_gone(self, by: Claimant, victim: api.Pod) -> None:
        """A victim did not exist any more."""
        self._log("Victim Pod is already deleted", by, victim=victim)

    def deleted(self, by: Claimant, profile: str, victim: api.Pod) -> None:
        """A victim is deleted."""
        self._log("Preemptor Pod preempted victim Pod", by, victim=victim)
        self._event(by, profile, victim)

    def stopped_waiting(self, by: Claimant, profile: str, victim: api.Pod) -> None:
        """A victim that waited at Permit is rejected."""
        self._log("Preemptor preempted a waiting pod", by, preemptorType=by.kind, waitingPod=victim)
        self._event(by, profile, victim, " (in kube-scheduler memory).")

    def stopped_binding(self, by: Claimant, profile: str, victim: api.Pod) -> None:
        """The binding of a victim is cancelled."""
        self._log("Preemptor rejected a pod in preBind", by, preemptorType=by.kind, podInPreBind=victim)
        self._event(by, profile, victim, " (in kube-scheduler memory).")

    def _log(self, message: str, by: Claimant, **fields: object) -> None:
        self._shared.log(2, message, preemptor=by.obj, node=by.node, **fields)

    def _event(self, by: Claimant, profile: str, victim: api.Pod, how: str = "") -> None:
        # Upstream intends to set the preemptor as the related object, but 1.36 loses it on the way.
        note = f"Preempted by {by.kind} {by.obj.uid} on node {by.node}{how}"
        self._shared.recorder.event(profile, victim, NORMAL, "Preempted", "Preempting", note)
