"""What the scheduler needs of a plugin that makes room by preemption."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from kubesched.cluster.pods import PodInfo
from kubesched.framework.plugin import Plugin, PostFilterResult
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status

PostFilterAnswer = tuple[PostFilterResult | None, Status]


class Candidate(Protocol):
    """A node where removing pods would make room."""

    row: int
    victims: list[PodInfo]
    violations: int
    """How many of the victims a disruption budget protects."""


class PreemptionPlugin(Plugin):
    """The base of PostFilter plugins that name victims.

    The scheduler deletes the victims in the background and reports the beginning and the end to the plugin, which holds
    back the preemptor in between. Extenders that support preemption see the candidates before one is chosen.
    """

    @abstractmethod
    def begin_preemption(self, uid: str) -> None:
        """The victims of the pod with this UID are being deleted from now on."""

    @abstractmethod
    def end_preemption(self, uid: str) -> None:
        """All victims of the pod are deleted, or a deletion failed."""

    @abstractmethod
    def candidates(self, state: CycleState) -> Sequence[Candidate]:
        """The nodes that PostFilter chose from in this cycle; empty if it found none."""

    @abstractmethod
    def choose(self, state: CycleState, victims: Sequence[tuple[int, Sequence[PodInfo], int]]) -> PostFilterAnswer:
        """The best of these candidates: row, victims, and how many of them a disruption budget protects."""
