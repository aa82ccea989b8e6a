"""What the scheduler needs of an extender; `scheduler.extender` has the HTTP ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo


class ExtenderError(Exception):
    """An extender could not be reached, or its answer could not be used."""


@dataclass(slots=True)
class ExtenderFilterResult:
    """An extender's Filter result. A node that neither passed nor failed counts as failed without a reason."""

    nodes: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ExtenderVictims:
    """Pods to remove from a node, and how many of them a disruption budget protects."""

    pods: Sequence[PodInfo]
    violations: int = 0


class Extender(Protocol):
    """A scheduler extender. Its calls raise `ExtenderError`, and nothing else, when they fail."""

    name: str
    weight: int
    ignorable: bool
    is_filter: bool
    is_prioritizer: bool
    is_binder: bool
    supports_preemption: bool

    def is_interested(self, pod: api.Pod) -> bool:
        """Whether the pod requests a resource that this extender manages, or it manages none in particular."""
        ...

    async def filter(self, pod: api.Pod, nodes: Sequence[api.Node]) -> ExtenderFilterResult:
        """Which of these nodes are feasible."""
        ...

    async def prioritize(self, pod: api.Pod, nodes: Sequence[api.Node]) -> Mapping[str, int]:
        """Scores from 0 to 10, not yet weighted, by node; nodes may be missing."""
        ...

    async def process_preemption(
        self, pod: api.Pod, victims: Mapping[str, ExtenderVictims]
    ) -> Mapping[str, ExtenderVictims]:
        """Which of these nodes to preempt on, and which victims."""
        ...

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Bind the pod."""
        ...


Prioritized = tuple[Extender, Mapping[str, int] | BaseException]
"""An extender with its scores, or with what went wrong."""


class Extenders(Protocol):
    """The extenders of a scheduler."""

    def interested(self, pod: api.Pod) -> Sequence[Extender]:
        """Those that are to be called for this pod, in order."""
        ...

    async def prioritize(
        self, extenders: Sequence[Extender], pod: api.Pod, nodes: Sequence[api.Node]
    ) -> Sequence[Prioritized]:
        """Ask all of these at the same time for scores."""
        ...


class ExtenderCall(msgspec.Struct, frozen=True):
    """A call of an extender that is worth reporting: it failed, or it scored nodes."""

    extender: str
    verb: str
    error: BaseException | None = None
    scores: Mapping[str, int] = {}
