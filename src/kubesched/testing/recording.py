"""The events and log lines of a scheduler under test, recorded in memory."""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.api import objects as api


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event about a pod, as `kubectl get events` would show it."""

    profile: str
    pod: str
    kind: str
    reason: str
    note: str


class RecordedEvents(list[RecordedEvent]):
    """Every event, in order."""

    def event(
        self,
        profile: str,
        regarding: api.Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: api.Pod | None = None,
    ) -> None:
        """Record an event."""
        self.append(RecordedEvent(profile, regarding.name, kind, reason, note))

    def of(self, pod: str, reason: str = "") -> list[str]:
        """The notes of the events about a pod, of one reason or of all."""
        return [each.note for each in self if each.pod == pod and reason in ("", each.reason)]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log line of the scheduler or a plugin; a level below zero is an error."""

    level: int
    message: str
    fields: dict[str, object]


class LogLines(list[LogLine]):
    """Every log line up to a verbosity, in order."""

    def __init__(self, verbosity: int = 5) -> None:
        super().__init__()
        self.verbosity = verbosity

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        if level <= self.verbosity:
            self.append(LogLine(level, message, fields))

    def errors(self) -> list[str]:
        """The messages of errors, each with its cause."""
        return [f"{each.message}: {each.fields.get('err', '')}" for each in self if each.level < 0]
