"""The large example: a day of arrivals and completions, small in every run of the tests and whole on request."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import time
from pathlib import Path
from types import FrameType

import pytest
from tests.measuring import seconds_of_encoding

from kubesched.simulator.loading import load
from kubesched.simulator.report import Report
from kubesched.simulator.run import run

DAY = Path(__file__).parents[2] / "examples" / "scenarios" / "day.py"
MOST = 600
"""A pod's whole life may cost as much as encoding and decoding it so many times; it costs some 250."""
MOST_CALLS = 1_210
"""Python functions that a pod's whole life may call; it calls some 1,180."""


def check(report: Report, pods: int) -> None:
    """All pods had a place, those whose time was over gave it back, and the nodes know."""
    assert report.passed, report.expectations
    assert report.bindings == pods
    running = [each for each in report.placements if each.phase == "Running"]
    assert {each.phase for each in report.placements} == {"Running", "Succeeded"}
    assert 0 < len(running) < pods / 10
    assert sum(each.pods for each in report.utilisation) == len(running)


def test_a_small_day_costs_little_per_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 nodes and 3,000 pods, in CPU time and beside a peer, since other programs share the machine."""
    scenario = load(DAY)
    module = inspect.getmodule(scenario.act)
    monkeypatch.setattr(module, "NODES", 500)
    monkeypatch.setattr(module, "PODS", 3_000)
    peer = seconds_of_encoding()
    began = time.process_time()
    report = run(scenario)
    per_pod = (time.process_time() - began) / 3_000
    check(report, 3_000)
    assert per_pod / peer < MOST


def calls_of_a_day(monkeypatch: pytest.MonkeyPatch, pods: int) -> int:
    """How many functions in Python are called in an hour of a small cluster."""
    scenario = load(DAY)
    module = inspect.getmodule(scenario.act)
    for name, value in (("NODES", 20), ("PODS", pods), ("HOURS", 1)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "arrivals", lambda chance: sorted(chance.uniform(0, 3000) for _ in range(pods)))
    scenario.duration = 3600.0
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()  # what other tests have left is not cleared away, and counted, in the middle
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        report = run(scenario)
    finally:
        sys.setprofile(before)
    assert report.bindings == pods
    return calls


def test_a_pod_takes_a_limited_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The life of a pod from its creation to its end, in function calls: the same on every machine, however busy."""
    calls_of_a_day(monkeypatch, 60)  # fills caches
    few, many = calls_of_a_day(monkeypatch, 10), calls_of_a_day(monkeypatch, 60)
    assert (many - few) / 50 < MOST_CALLS


@pytest.mark.skipif("KUBESCHED_DAY" not in os.environ, reason="takes a minute; KUBESCHED_DAY=1 runs it")
def test_a_whole_day_takes_a_minute() -> None:
    """5,000 nodes and 50,000 pods, in CPU time; on a machine that has nothing else to do."""
    began = time.process_time()
    report = run(load(DAY))
    spent = time.process_time() - began
    check(report, 50_000)
    assert spent < 60
