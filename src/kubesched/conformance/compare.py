"""Finds the differences between recorded decisions and ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubesched.conformance.replay import RecordedScenario, Result, read_scenarios, replay


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one attempt that differs."""

    scenario: str
    pod: str
    attempt: int
    field: str
    expected: Any
    got: Any


@dataclass(slots=True)
class ConformanceReport:
    """The result of one file, or the sum of several."""

    scenarios: int = 0
    attempts: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: ConformanceReport) -> None:
        """Add another report."""
        self.scenarios += other.scenarios
        self.attempts += other.attempts
        self.differences += other.differences


def check_file(path: Path) -> ConformanceReport:
    """Replay every scenario of a file and compare."""
    report = ConformanceReport()
    for scenario in read_scenarios(path):
        report.scenarios += 1
        report.attempts += len(scenario.expect.results)
        try:
            report.differences += check(scenario)
        except ValueError as problem:
            raise ValueError(f"{path}, scenario {scenario.name}: {problem}") from problem
    return report


def check(scenario: RecordedScenario) -> list[Difference]:
    """Replay one scenario and compare every field of every attempt."""
    got = replay(scenario)
    name, expect = scenario.name, scenario.expect
    if (expect.error is None) != (got.error is None):
        return [Difference(name, "", 0, "error", expect.error, got.error)]
    recorded, ours = expect.results, got.results
    differences: list[Difference] = []
    for old, new in zip(recorded, ours, strict=False):
        differences += _compare(name, old, new)
    if len(recorded) != len(ours):
        differences.append(Difference(name, "", 0, "number of attempts", len(recorded), len(ours)))
    return differences


def _compare(scenario: str, old: Result, new: Result) -> list[Difference]:
    keys = dict.fromkeys((*old, *new))
    if "error" in old and "error" in new:
        # The wording of internal errors is not part of any contract, nor are the results before them.
        keys = dict.fromkeys(("pod", "attempt"))
    differences = []
    for key in keys:
        expected, got = _normal(old.get(key)), _normal(new.get(key))
        if expected != got:
            differences.append(Difference(scenario, old["pod"], old["attempt"], key, expected, got))
    return differences


def _normal(value: Any) -> Any:
    """Remove empty parts, which a recording may omit."""
    if isinstance(value, dict):
        return {key: _normal(each) for key, each in value.items() if each not in (None, "", [], {})} or None
    return None if value in ("", []) else value
