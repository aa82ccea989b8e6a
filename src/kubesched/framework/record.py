"""What ran in one attempt to schedule a pod: every extension point, and on request every plugin call, with its result
and duration.

The framework's runner writes it. `engine.decision.Decision` extends it with what was decided. Logs, metrics, events and
everything else that reports on attempts read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kubesched.framework.status import Code, Status

SUCCESS = "Success"
ERROR = "Error"


class PointRun(NamedTuple):
    """All plugins of an extension point have run. `status` is kube-scheduler's name of the result."""

    point: str
    status: str
    seconds: float


class PluginCall(msgspec.Struct, frozen=True, gc=False):
    """One plugin has run at a point."""

    plugin: str
    point: str
    status: str
    seconds: float


class Objection(msgspec.Struct, frozen=True):
    """A plugin ended the attempt after a node had been chosen: it rejected the pod, or it failed."""

    plugin: str
    point: str
    status: Status
    reason: str
    """What the plugin itself said; the status's message may have a prefix."""
    place: str = ""
    """File and line of the exception, for the plugin's author."""


def no_time() -> float:
    """The timer of a record without a clock."""
    return 0.0


class CycleRecord:
    """What ran, in order."""

    __slots__ = ("_began", "_timer", "calls", "objections", "runs", "times_plugins", "wait_reason")

    def __init__(self, timer: Callable[[], float] = no_time, *, times_plugins: bool = False) -> None:
        self.runs: list[tuple[str, str, float]] = []
        """The fields of `points`; there are ten in each attempt."""
        self.calls: list[PluginCall] = []
        """Calls of single plugins; recorded only with `times_plugins`."""
        self.objections: list[Objection] = []
        self.times_plugins = times_plugins
        self.wait_reason = ""
        """Why the last Permit plugin that waits does so."""
        self._timer = timer
        self._began = 0.0

    @property
    def points(self) -> list[PointRun]:
        """The extension points that have run."""
        return [PointRun(*run) for run in self.runs]

    @property
    def is_cancelled(self) -> bool:
        """Whether the current task is being cancelled or closed. Otherwise a CancelledError or GeneratorExit is the
        plugin's own."""
        return False

    def begin_point(self) -> None:
        """Start timing an extension point."""
        self._began = self._timer()

    def end_point(self, point: str, status: str = SUCCESS) -> None:
        """An extension point has run. The next one begins, unless `begin_point` is called later."""
        now = self._timer()
        self.runs.append((point, status, now - self._began))
        self._began = now

    def now(self) -> float:
        """The record's time."""
        return self._timer()

    def add_call(self, plugin: str, point: str, started: float, answer: object) -> None:
        """A plugin has run and returned `answer`; an exception counts as an error."""
        self.calls.append(PluginCall(plugin, point, _result(answer), self._timer() - started))


def _result(answer: object) -> str:
    """The name of a plugin's result. PostFilter and Permit return a status together with something else."""
    if isinstance(answer, BaseException):
        return ERROR
    found = (each for each in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(each, Status))
    return next((status.code.upstream if isinstance(status.code, Code) else ERROR for status in found), SUCCESS)
