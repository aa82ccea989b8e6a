"""When tasks beside the scheduling cycles go on.

A task that binds a pod, writes a status or removes victims goes on some turns of the event loop after what it waited
for. Cluster events may be handled in between, and what the task does depends on them. So it takes its turn here first:
a journal notes when, and a replay lets it go on at the same point.
"""

from __future__ import annotations

from typing import Protocol


class Turns(Protocol):
    """Grants turns to tasks."""

    async def take(self, what: str, name: str) -> None:
        """Return when a task may do its next step; `name` says whose task it is."""


class FreeTurns:
    """Every task goes on at once."""

    async def take(self, what: str, name: str) -> None:
        """Return at once."""
