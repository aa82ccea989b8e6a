"""Makes the decisions of a recording again, each in the state in which the recorded scheduler made it.

The production scheduler gets the recorded events in the recorded order, and tries the recorded pods when they were
tried, with the same seeds and at the same time. What it writes goes nowhere: its calls get the recorded responses.
So the same version with the same configuration makes the same decisions.

Another version or configuration is compared decision by decision. Where both found a node, but not the same one, the
replay continues with the recorded one. Where only one of them found a node, the state is only approximately the
recorded one until later events correct it.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields
from random import Random
from typing import Final

import msgspec

from kubesched.api import objects as api
from kubesched.api.decoding import decode_as
from kubesched.base.clocks import VirtualClock
from kubesched.base.features import DEFAULT_FEATURES, Features, gate_name
from kubesched.base.types import JSON
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.outcome import Outcome
from kubesched.framework.registry import Registry
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.journal import decision_of
from kubesched.scheduler.subscribers.publisher import Subscriber
from kubesched.simulator.recorded_client import RecordedClient
from kubesched.simulator.recorded_turns import RecordedTurns
from kubesched.simulator.report import DecisionDifference, Decisions
from kubesched.snapshots.contents import Contents, Event, Item, SchedulerStep, StepKind

NOT_TRIED = "not in the queue"
DEFAULTS: Final = {gate_name(each.name): getattr(DEFAULT_FEATURES, each.name) for each in fields(Features)}


class DecisionReplay(Subscriber):
    """A scheduler that follows a recording, and the differences between its decisions and the recorded ones."""

    def __init__(
        self, contents: Contents, config: KubeSchedulerConfiguration, registry: Registry, clock: VirtualClock
    ) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._random = Random(0)
        self._client = RecordedClient()
        self._turns = RecordedTurns()
        has_turns = any(step.kind is StepKind.TURN for step in contents.steps)  # earlier versions noted none
        self._scheduler = build_scheduler(
            config,
            registry,
            self._client,
            clock,
            self._random,
            subscribers=[self],
            turns=self._turns if has_turns else None,
            features=Features.of(lambda gate: contents.feature_gates.get(gate, DEFAULTS[gate])),
        )
        self._client.kinds = {(kind.api_version, kind.kind or kind.__name__): kind for kind in self._scheduler.kinds}
        self._known: dict[tuple[type[api.Object], str], api.Object] = {}
        self._expected = _decisions(contents.steps)
        self._attempt = -1
        self._cycles: list[asyncio.Task[bool]] = []
        self._same = 0
        self._placed = 0
        self._differences: list[DecisionDifference] = []

    # --- what the recording says --------------------------------------------------------------------------------------

    def change(self, event: Event, item: Item) -> None:
        """Let the scheduler handle a cluster event."""
        kind = self._client.kinds.get((item.version, item.kind))
        if kind is None:
            return
        data = item.data if isinstance(item.data, bytes) else dict(item.data)
        obj = decode_as(kind, data)
        key = (kind, obj.key)
        old = self._known.get(key)
        if event is Event.DELETE:
            self._known.pop(key, None)
            self._scheduler.receive(old or obj, None)
        else:
            self._known[key] = obj
            self._scheduler.receive(old, obj)

    async def step(self, step: SchedulerStep) -> None:
        """Let the scheduler try a pod, get a response, or go on with a task."""
        await self._clock.settle()
        body: JSON = msgspec.json.decode(step.data)
        if step.kind is StepKind.ATTEMPT:
            await self._try(body)
        elif step.kind is StepKind.CALL:
            self._client.respond(body)
            await self._clock.settle()
        elif step.kind is StepKind.TURN:
            self._turns.grant(body)
            await self._clock.settle()

    async def _try(self, body: JSON) -> None:
        self._attempt += 1
        self._random.seed(body["seed"])
        cycle = asyncio.create_task(self._scheduler.try_pod(body["uid"]))
        await self._clock.settle()
        if cycle.done() and not cycle.result():
            for expected in self._expected[self._attempt].values():
                self._differ(expected, {"outcome": NOT_TRIED})
        self._cycles = [each for each in (*self._cycles, cycle) if not each.done()]

    async def close(self) -> None:
        """End the scheduler."""
        for cycle in self._cycles:
            cycle.cancel()
        await self._scheduler.close()

    # --- what is decided here -----------------------------------------------------------------------------------------

    def searched(self, attempt: Attempt) -> None:
        expected = self._expected[self._attempt].get(attempt.pod.uid)
        found = decision_of(attempt)
        if expected is None:
            if self._attempt < len(self._expected) - 1:  # the recording may end in the middle of an attempt
                self._differ({"pod": attempt.pod.key, "outcome": NOT_TRIED}, found)
            return
        if found == expected:
            self._same += 1
            self._placed += attempt.outcome is Outcome.SCHEDULED
            return
        self._differ(expected, found)
        if attempt.outcome is Outcome.SCHEDULED and expected["node"]:
            attempt.chosen = expected["node"]
        elif attempt.outcome is Outcome.SCHEDULED:
            self._client.refused.add(attempt.pod.uid)
            self._turns.free.add(attempt.pod.uid)

    def _differ(self, recorded: JSON, here: JSON) -> None:
        self._differences.append(
            DecisionDifference(
                round(self._clock.monotonic() - self._began, 3), recorded["pod"], _words(recorded), _words(here)
            )
        )

    def result(self) -> Decisions:
        """How many decisions were as recorded, and which were not."""
        return Decisions(self._same, self._placed, self._differences)


def _decisions(steps: list[SchedulerStep]) -> list[dict[str, JSON]]:
    """For each attempt, the decisions by UID. There are several in the cycle of a pod group."""
    found: list[dict[str, JSON]] = []
    for step in steps:
        if step.kind is StepKind.ATTEMPT:
            found.append({})
        elif step.kind is StepKind.DECISION and found:
            body = msgspec.json.decode(step.data)
            found[-1][body["uid"]] = body
    return found


def _words(decision: JSON) -> str:
    """A decision in a few words."""
    if node := decision.get("node"):
        best = decision.get("best", 1)
        return f"{node} (of {best} best, {decision['feasible']} feasible, {decision['evaluated']} seen)"
    if nominated := decision.get("nominated"):
        return f"no node; preempts {', '.join(decision['victims'])} on {nominated}"
    said = decision.get("message", "")
    return f"{decision['outcome']}: {said}" if said else str(decision["outcome"])
