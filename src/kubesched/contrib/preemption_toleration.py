"""PreemptionToleration: preemption in which victims of some priority classes are protected for a while."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from typing import Final

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.config.args import DefaultPreemptionArgs
from kubesched.contrib.go_time import parse_time
from kubesched.contrib.preemption import SelectivePreemption, VictimsUnknownError
from kubesched.framework.events import Action, EventHint, Hint, on
from kubesched.framework.plugin import Handle
from kubesched.framework.state import CycleState

PREFIX: Final = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM: Final = f"{PREFIX}minimum-preemptable-priority"
SECONDS: Final = f"{PREFIX}toleration-seconds"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


class PreemptionTolerationArgs(DefaultPreemptionArgs, frozen=True, kw_only=True):
    """Those of DefaultPreemption."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_candidate_nodes_percentage <= 100:
            raise ValueError(
                f"minCandidateNodesPercentage is not in valid range [0, 100]: {self.min_candidate_nodes_percentage}"
            )
        if self.min_candidate_nodes_absolute < 0:
            raise ValueError(
                f"minCandidateNodesAbsolute is not in valid range [0, inf): {self.min_candidate_nodes_absolute}"
            )


class PreemptionToleration(SelectivePreemption):
    """Preempts as DefaultPreemption does, but leaves alone pods that tolerate it."""

    name = "PreemptionToleration"
    args_type = PreemptionTolerationArgs

    def __init__(self, args: PreemptionTolerationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._now = handle.clock.now if hasattr(handle, "clock") else time.time

    def events_to_register(self) -> list[EventHint]:
        # PostFilter rejects no pod by itself. Registering makes the scheduler watch the kind.
        watched = on(api.PriorityClass, Action.ALL, lambda pod, old, new: Hint.SKIP)
        return [*super().events_to_register(), watched]

    def evictable(self, state: CycleState, pod: api.Pod, infos: Collection[PodInfo]) -> list[PodInfo]:
        now = self._now()
        return [info for info in infos if info.pod.priority < pod.priority and not self.tolerates(info.pod, pod, now)]

    def tolerates(self, victim: api.Pod, preemptor: api.Pod, now: float) -> bool:
        """Whether a pod is protected from another."""
        name = victim.spec.priority_class_name
        if not name:
            return False
        found = self.handle.cluster.get(api.PriorityClass, name)
        if found is None:
            raise VictimsUnknownError(f'priorityclass.scheduling.k8s.io "{name}" not found')
        if preemptor.spec.preemption_policy == "Never":
            return True
        try:
            minimum, seconds = policy(found)
        except ValueError:
            message = "Failed to parse preemption toleration policy of victim candidate's priorityclass"
            self.handle.log(-1, message, PreemptorPod=preemptor, VictimCandidatePod=victim, priorityClass=name)
            return False
        if preemptor.priority >= minimum:
            return False
        return seconds < 0 or _is_protected_at(victim, seconds, now)

    def _waits_for(self, pod: api.Pod, leaving: Sequence[api.Pod]) -> bool:
        """Unlike DefaultPreemption, waits for any terminating pod of lower priority on the nominated node."""
        return any(each.priority < pod.priority for each in leaving)


def policy(found: api.PriorityClass) -> tuple[int, int]:
    """From which priority on pods may preempt at once, and for how many seconds others may not. ValueError if an
    annotation is no number."""
    minimum, seconds = found.annotations.get(MINIMUM), found.annotations.get(SECONDS)
    least = found.value + 1 if minimum is None else _number(minimum, 32)
    return least, 0 if seconds is None else _number(seconds, 64)


def _number(text: str, bits: int) -> int:
    """A number of so many bits as Go reads it, unlike Python without spaces and underscores."""
    if not _NUMBER.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError(text)
    return int(text)


def _is_protected_at(victim: api.Pod, seconds: int, now: float) -> bool:
    """Whether so many seconds since it was scheduled are not over. A pod that is just being bound is protected."""
    scheduled = next((each for each in victim.status.conditions if each.type == "PodScheduled"), None)
    if scheduled is None or scheduled.status != "True" or not scheduled.last_transition_time:
        return True
    return parse_time(scheduled.last_transition_time) + seconds > now
