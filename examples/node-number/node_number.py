"""NodeNumber: prefers the node whose name ends in the same digit as the pod's, and delays pods by that digit."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kubesched import (
    SKIP,
    Action,
    Code,
    CycleState,
    EventHint,
    Handle,
    NodeInfo,
    Nodes,
    Plugin,
    Pod,
    Reads,
    Resource,
    Status,
    on,
)

NOTE = "PreScoreNodeNumber"
MATCH = 10
LONGEST_WAIT = 10.0


def last_digit(name: str) -> int | None:
    """The last character of a name as a number; None if it is no digit. node10 has 0."""
    return int(name[-1]) if name[-1:] in set("0123456789") else None


class NodeNumberArgs(msgspec.Struct, frozen=True):
    """What `pluginConfig` may say."""

    reverse: bool = False
    """Prefer the nodes of other digits."""


class NodeNumber(Plugin):
    """Score, PreScore and Permit by the last digit of names."""

    name = "NodeNumber"
    args_type = NodeNumberArgs
    reads = Reads.ROW  # the pod's name counts
    relies_on = frozenset(("preScore",))

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def events_to_register(self) -> list[EventHint]:
        """A new node may have the right digit."""
        return [on(Resource.NODE, Action.ADD)]

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Parse the pod's name once instead of once per node. Without a digit there is nothing to score."""
        digit = last_digit(pod.name)
        if digit is None:
            return SKIP
        state.write(NOTE, digit)
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """10 or 0, as the original."""
        matches = last_digit(node.name) == state.read(NOTE, int)
        return MATCH if matches != self.args.reverse else 0

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | tuple[Status, float] | None:
        """Allow the pod after as many seconds as the node's digit says.

        For 0 there is nothing to wait for. `call_later` counts on the loop's clock, so tests need not wait at all.
        """
        self._forget_timer(pod.metadata.uid)  # of an earlier attempt: it must not let this one go early
        seconds = last_digit(node_name)
        if not seconds:
            return None
        later = asyncio.get_running_loop().call_later(seconds, self._allow, pod.metadata.uid)
        self._timers[pod.metadata.uid] = later
        return Status(Code.WAIT), LONGEST_WAIT

    def _allow(self, uid: str) -> None:
        self._timers.pop(uid, None)
        waiting = self.handle.waiting_pods.get(uid)
        if waiting is not None:  # it may have been deleted meanwhile
            waiting.allow(self.name)

    def _forget_timer(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
