"""One attempt in the scheduler: the engine's decision, the queued pod it is for, and how it ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

from kubesched.base.clock import Clock
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.framework.state import PODS_TO_ACTIVATE, PodsToActivate
from kubesched.framework.status import Status
from kubesched.queue.pods import QueuedPodInfo


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile and its engine."""

    name: str
    engine: Engine


class Skipped(Enum):
    """Why a popped pod is not tried."""

    UNKNOWN_PROFILE = "no profile has its scheduler name"
    DELETING = "it is being deleted"
    PLACED = "it has a node already"


class Dropped(Enum):
    """Why a pod is not requeued after a failed attempt."""

    GONE = "it does not exist any more"
    RECREATED = "another pod has its name now"
    ASSIGNED = "it has a node by now"


class Attempt(Decision):
    """One pod on its way from the queue to a node."""

    __slots__ = (
        "ended",
        "group",
        "kept",
        "permit_result",
        "permit_seconds",
        "profile",
        "queued",
        "to_activate",
        "unclear",
    )

    def __init__(
        self, queued: QueuedPodInfo, profile: Profile, clock: Clock, *, detailed: bool, times_plugins: bool
    ) -> None:
        super().__init__(queued.info, detailed=detailed, timer=clock.monotonic, times_plugins=times_plugins)
        self.queued = queued
        self.profile = profile
        self.group = ""
        """The key of the pod group in whose cycle the pod is tried, if it is."""
        self.kept: object = None
        """What the history keeps of the attempt, if there is a history."""
        self.ended = 0.0
        """When the pod was bound, or the attempt had failed."""
        self.to_activate = PodsToActivate()
        self.state.write(PODS_TO_ACTIVATE, self.to_activate)
        self.unclear = False
        """Whether a bind call failed in a way that leaves open whether it took effect."""
        self.permit_seconds: float | None = None
        """How long the pod waited on Permit, if it did."""
        self.permit_result: Status | None = None
        """What ended that wait; None if all plugins allowed the pod."""

    @property
    def is_cancelled(self) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs any more
            return True
        return task is not None and task.cancelling() > 0
