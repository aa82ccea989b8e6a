"""How an attempt failed: what the queue, the event and the pod's condition need to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubesched.engine.outcome import Outcome
from kubesched.framework.status import Code, Status
from kubesched.framework.verdicts import fit_message

if TYPE_CHECKING:
    from kubesched.engine.decision import Decision


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed."""

    message: str
    rejected: bool = False
    """Whether the pod was rejected, as opposed to an error."""
    fits_nowhere: bool = False
    """Whether it was rejected for what it asks for. Then something in the cluster has to change."""
    unschedulable: Set[str] = field(default_factory=frozenset)
    """The plugins that rejected it."""
    pending: Set[str] = field(default_factory=frozenset)
    """The plugins that wait for something; once that has come, the pod need not back off."""
    nominate: str | None = ""
    """The node that it is nominated to from now on; empty for none, None to change nothing."""
    of_group: bool = False
    """Whether the pod group was rejected, not this pod."""
    maybe_bound: bool = False
    """Whether a call to bind it was made. It may have taken effect although no success was reported."""

    @classmethod
    def of_decision(cls, decision: Decision, *, can_make_room: bool) -> Failure:
        """The engine found no node."""
        if decision.diagnosis is None:
            return cls(decision.message, rejected=decision.outcome is Outcome.NO_NODES)
        made = decision.post_filter
        return cls(
            decision.message,
            rejected=True,
            fits_nowhere=True,
            unschedulable=decision.diagnosis.unschedulable_plugins,
            pending=decision.diagnosis.pending_plugins,
            nominate=(None if made is None else made.nominated_node_name) if can_make_room else "",
        )

    @classmethod
    def of_status(cls, status: Status) -> Failure:
        """Something failed after the decision."""
        return cls(status.message, rejected=status.is_rejected)

    @classmethod
    def of_refusal(cls, status: Status) -> Failure:
        """Reserve or Permit ended the attempt. Upstream words a rejection as that of a cluster with one node."""
        if not status.is_rejected:
            return cls.of_status(status)
        plugins = frozenset((status.plugin,)) if status.plugin else frozenset()
        waits = status.code is Code.PENDING
        return cls(
            fit_message(1, Counter(status.reasons)),
            rejected=True,
            fits_nowhere=True,
            unschedulable=frozenset() if waits else plugins,
            pending=plugins if waits else frozenset(),
        )
