"""When probes change a container, against a simulation of every single check."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.kubelet.behavior import DEFAULT, Behavior, behavior_of
from kubesched.kubelet.timeline import ContainerRun, timeline
from kubesched.reconcile.views import Container, Probe

PROBES = st.none() | st.builds(
    Probe,
    initial_delay_seconds=st.integers(0, 15),
    period_seconds=st.integers(1, 7),
    success_threshold=st.integers(1, 3),
    failure_threshold=st.integers(1, 4),
)
FAILS = st.none() | st.integers(0, 60).map(float)
HORIZON = 200


def _check_by_check(container: Container, behavior: Behavior) -> ContainerRun:
    """Run every check of every probe, second by second."""
    started = 0.0 if container.startup_probe is None else math.inf
    ready = unready = ends = math.inf
    if container.readiness_probe is None:
        ready = started
    cause, counts = "", {"startup": 0, "liveness": 0, "passed": 0, "failed": 0}
    first: dict[str, float] = {}

    def due(name: str, probe: Probe | None, time: int, since: float) -> bool:
        if probe is None or time < max(since, probe.initial_delay_seconds):
            return False
        return (time - first.setdefault(name, time)) % probe.period_seconds == 0

    for time in range(HORIZON):
        if started == math.inf and due("startup", container.startup_probe, time, 0):
            assert container.startup_probe is not None
            if behavior.startup_fails is None or time < behavior.startup_fails:
                started = float(time)
                ready = started if container.readiness_probe is None else ready
            else:
                counts["startup"] += 1
                if counts["startup"] == container.startup_probe.failure_threshold and ends == math.inf:
                    ends, cause = float(time), "startup"
        if started > time:
            continue
        if due("liveness", container.liveness_probe, time, started) and behavior.liveness_fails is not None:
            assert container.liveness_probe is not None
            counts["liveness"] += time >= behavior.liveness_fails
            if counts["liveness"] == container.liveness_probe.failure_threshold and ends == math.inf:
                ends, cause = float(time), "liveness"
        if due("readiness", container.readiness_probe, time, started):
            assert container.readiness_probe is not None
            failing = behavior.readiness_fails is not None and time >= behavior.readiness_fails
            counts["failed" if failing else "passed"] += 1
            if counts["passed"] == container.readiness_probe.success_threshold and ready == math.inf and not failing:
                ready = float(time)
            if counts["failed"] == container.readiness_probe.failure_threshold and unready == math.inf:
                unready = float(time)
    return ContainerRun(started, ready, unready if ready < math.inf else math.inf, ends, 137 if cause else 0, cause)


@given(PROBES, PROBES, PROBES, FAILS, FAILS, FAILS)
def test_probes_take_their_time(
    startup: Probe | None,
    readiness: Probe | None,
    liveness: Probe | None,
    startup_fails: float | None,
    readiness_fails: float | None,
    liveness_fails: float | None,
) -> None:
    """The formula gives the same times as running every check."""
    container = Container(startup_probe=startup, readiness_probe=readiness, liveness_probe=liveness)
    behavior = Behavior(startup_fails=startup_fails, readiness_fails=readiness_fails, liveness_fails=liveness_fails)
    assert timeline(container, behavior, math.inf, 0) == _check_by_check(container, behavior)


def test_a_container_that_ends_first_is_not_killed() -> None:
    """The run time counts if it is shorter than the time to a failed probe."""
    container = Container(liveness_probe=Probe(period_seconds=10, failure_threshold=3))
    behavior = Behavior(liveness_fails=0.0)
    assert timeline(container, behavior, 19.0, 3) == ContainerRun(ends=19.0, exit_code=3)
    assert timeline(container, behavior, 21.0, 3) == ContainerRun(ends=20.0, exit_code=137, failed_probe="liveness")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run-time", "soon", 'expected a duration such as 90s or 1h30m, got "soon"'),
        ("stop-time", "-3s", 'expected a duration such as 90s or 1h30m, got "-3s"'),
        ("exit-code", "256", 'expected a number from 0 to 255, got "256"'),
        ("not-ready", "yes", 'expected true or false, got "yes"'),
    ],
)
def test_a_wrong_annotation_has_no_effect_and_a_message(name: str, text: str, message: str) -> None:
    """The message names the annotation, the value and what is expected."""
    found = behavior_of({f"kubesched.io/{name}": text})
    assert found.problems == (f"annotation kubesched.io/{name}: {message}",)
    assert found == Behavior(problems=found.problems)


def test_other_annotations_are_ignored() -> None:
    """A pod without our annotations behaves as usual."""
    assert behavior_of({"example.com/run-time": "soon"}) is DEFAULT
