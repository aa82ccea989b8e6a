"""Explanations as data. Their JSON is documented in docs/reference/explain-json.md; `VERSION` grows when it changes."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.explain.influence import Influence
from kubesched.explain.rules.rule import Detail
from kubesched.explain.standing import Queued, State
from kubesched.explain.suggest import Suggestion

API_VERSION = "explain.kubesched/v1"


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """The base of all parts: it fixes the struct options once."""


class Refusal(Part, frozen=True):
    """A plugin that rejects a node, and why."""

    plugin: str
    message: str
    """kube-scheduler's message."""
    details: tuple[Detail, ...]
    preemption_may_help: bool = False


class NodeVerdict(Part, frozen=True):
    """One node: every plugin that rejects it; or its scores, if it fits."""

    node: str
    refusals: tuple[Refusal, ...] = ()
    scores: dict[str, int] = {}
    total: int | None = None
    rank: int | None = None

    @property
    def fits(self) -> bool:
        return not self.refusals

    @property
    def reasons(self) -> list[str]:
        """All reasons in words."""
        return list(dict.fromkeys(detail.text for refusal in self.refusals for detail in refusal.details))


class LeftOut(Part, frozen=True):
    """How many nodes would fit without these plugins."""

    plugins: tuple[str, ...]
    nodes: int


class ResidentVictim(Part, frozen=True):
    """A pod that would have to leave a node, or that a budget keeps there."""

    pod: str
    priority: int
    budget: str = ""
    disruptions_allowed: int | None = None


class Beside(Part, frozen=True):
    """The decision under the configuration in force, where another one was asked about."""

    node: str
    message: str = ""
    configuration: str = "default"
    """`default`, or `scheduler's` if a running scheduler said which one it uses."""


class PodReport(Part, frozen=True):
    """Everything about one pod."""

    pod: str
    state: State
    headline: str
    words: str = ""
    age_seconds: float | None = None
    tries: int | None = None
    queued: Queued | None = None
    message: str = ""
    """kube-scheduler's message."""
    said: str = ""
    """What the scheduler said last about a pod for which a node fits now."""
    source: str = "decided"
    """`decided`: on the cluster as it is now; `recorded`: by the scheduler at the time."""
    node: str = ""
    """Where the pod is or would go."""
    again: str = ""
    """Where a pod that has a node would go today."""
    runner_up: str = ""
    gap: int | None = None
    evaluated: int = 0
    feasible: int = 0
    closest: NodeVerdict | None = None
    nodes: tuple[NodeVerdict, ...] = ()
    plugins: dict[str, int] = {}
    """For every plugin, how many nodes it rejects."""
    without: tuple[LeftOut, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    nominated_node: str = ""
    victims: tuple[ResidentVictim, ...] = ()
    protected: tuple[ResidentVictim, ...] = ()
    influence: tuple[Influence, ...] = ()
    beside: Beside | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether no node fits, also while the scheduler waits with the next try."""
        return self.state is State.PENDING or (
            self.state is State.BACKOFF and bool(self.evaluated and not self.feasible)
        )

    @property
    def cause(self) -> str:
        """What pods are grouped by."""
        if not self.is_blocked:
            return str(self.state)
        return ", ".join(each.plugin for each in self.closest.refusals) if self.closest is not None else "unknown"

    @property
    def blocked_by(self) -> str:
        """The reasons of the closest node."""
        if self.words and not self.is_blocked:
            return self.words
        return "; ".join(self.closest.reasons) if self.closest is not None else self.message


class Overview(Part, frozen=True):
    """All pending pods."""

    nodes: int
    pods: tuple[PodReport, ...]
    kinds: int = 0
    """How many different kinds of pods there are."""
    searched: int = 0
    """For how many of these kinds a fix was looked for."""

    def groups(self) -> dict[str, list[PodReport]]:
        """The pods by cause, the most frequent cause first."""
        found: dict[str, list[PodReport]] = {}
        for each in self.pods:
            found.setdefault(each.cause, []).append(each)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


class Resident(Part, frozen=True):
    """A pod on a node, and where it would go today."""

    pod: str
    priority: int
    requests: dict[str, str]
    would_go: str
    rank: int | None = None
    feasible: int = 0


class Amount(Part, frozen=True):
    """A resource of a node."""

    resource: str
    allocatable: str
    requested: str
    free: str


class NodeReport(Part, frozen=True):
    """Who is on a node and why, and what still fits."""

    node: str
    conditions: tuple[str, ...]
    amounts: tuple[Amount, ...]
    pods: tuple[Resident, ...]
    fitting: tuple[str, ...]
    """Pending pods that fit here."""
    not_fitting: dict[str, str] = {}
    """Pending pods that do not, and why."""


class FitReport(Part, frozen=True):
    """Where a pod would go and how many more like it fit."""

    pod: PodReport
    count: int
    at_least: bool
    """Whether counting stopped at the limit."""
    per_node: dict[str, int]
    runs_out: dict[str, int]
    """What rejects the next one on the nodes that fit at first: the reason, and on how many of them."""


def as_data(kind: str, report: msgspec.Struct, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """A report as plain data, with its version and kind."""
    body: dict[str, Any] = msgspec.to_builtins(report)
    return {"apiVersion": API_VERSION, "kind": kind, "notes": list(notes), **body}
