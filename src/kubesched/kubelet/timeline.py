"""When a simulated container starts up, becomes ready or unready, and ends. Pure: all times follow from its spec.

Times are seconds after the start of the container. Probes run as a kubelet runs them: the first one after the initial
delay, but readiness and liveness probes only after the startup probe has succeeded, then one per period.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kubesched.kubelet.behavior import Behavior
from kubesched.reconcile.views import Container, Probe

KILLED = 137
"""The exit code of a container that was killed."""


class ProgramHealth(NamedTuple):
    """What a program that runs for a container says about itself."""

    started: bool
    ready: bool


class ContainerRun(NamedTuple):
    """One run of a container."""

    started: float = 0.0
    ready: float = 0.0
    unready: float = math.inf
    ends: float = math.inf
    exit_code: int = 0
    failed_probe: str = ""
    """The probe that ends the container: startup or liveness; empty if it ends by itself."""

    def is_started(self, elapsed: float) -> bool:
        return elapsed >= self.started

    def is_ready(self, elapsed: float) -> bool:
        return self.ready <= elapsed < self.unready

    def limited(self, health: ProgramHealth) -> ContainerRun:
        """The same run, but not started or ready unless its program is."""
        started = self.started if health.started else math.inf
        return self._replace(started=started, ready=self.ready if health.ready else math.inf)

    def next_change(self, elapsed: float) -> float:
        """Return the next time at which something changes, or has to: the end may be overdue."""
        return min((time for time in self[:3] if elapsed < time < self.ends), default=self.ends)


def timeline(container: Container, behavior: Behavior, run_time: float, exit_code: int) -> ContainerRun:
    """Plan a run that ends by itself after `run_time`, if no probe ends it earlier."""
    if container.startup_probe is container.readiness_probe is container.liveness_probe is None:
        return ContainerRun(ready=math.inf if behavior.not_ready else 0.0, ends=run_time, exit_code=exit_code)
    started, startup_kill = _startup(container.startup_probe, behavior.startup_fails)
    ready, unready = _readiness(container.readiness_probe, behavior.readiness_fails, started)
    if behavior.not_ready:
        ready = math.inf
    liveness_kill = _kill(container.liveness_probe, behavior.liveness_fails, started)
    kill = min(startup_kill, liveness_kill)
    if kill < run_time:
        probe = "startup" if startup_kill <= liveness_kill else "liveness"
        return ContainerRun(started, ready, unready, kill, KILLED, probe)
    return ContainerRun(started, ready, unready, run_time, exit_code)


def _startup(probe: Probe | None, fails: float | None) -> tuple[float, float]:
    """Return when the container counts as started and when it is killed; one of them is infinite."""
    if probe is None:
        return 0.0, math.inf
    first = float(probe.initial_delay_seconds)
    if fails is None or first < fails:
        return first, math.inf
    return math.inf, first + _more(probe, probe.failure_threshold)


def _readiness(probe: Probe | None, fails: float | None, started: float) -> tuple[float, float]:
    """Return when the container becomes ready, and when unready again."""
    if probe is None or started == math.inf:
        return started, math.inf
    first = max(float(probe.initial_delay_seconds), started)
    ready = first + _more(probe, probe.success_threshold)
    if fails is None:
        return ready, math.inf
    if ready >= fails:
        return math.inf, math.inf
    return ready, _check_from(probe, first, fails) + _more(probe, probe.failure_threshold)


def _kill(probe: Probe | None, fails: float | None, started: float) -> float:
    """Return when a failing liveness probe ends the container."""
    if probe is None or fails is None or started == math.inf:
        return math.inf
    first = max(float(probe.initial_delay_seconds), started)
    return _check_from(probe, first, fails) + _more(probe, probe.failure_threshold)


def _check_from(probe: Probe, first: float, time: float) -> float:
    """Return the first check at or after a time."""
    return first + max(0, math.ceil((time - first) / probe.period_seconds)) * probe.period_seconds


def _more(probe: Probe, threshold: int) -> float:
    """The time from the first of `threshold` results to the last."""
    return float((threshold - 1) * probe.period_seconds)
