"""Upstream's own end-to-end suite against `kubesched up`: the quick specs, in parallel."""

from __future__ import annotations

import pytest
from tests.e2e.parts import SUITE, find
from tests.e2e.upstream_suite import run, specs

CLUSTERS = 4


@pytest.mark.skipif(find(SUITE) is None, reason=f"no {SUITE}: make parts builds it, where it has the time")
def test_quick_specs_pass() -> None:
    """Specs that need few seconds each pass; make upstream-suite runs all. They have upstream's time limits, so those
    that fail beside others on a busy machine run once more, with a cluster for themselves."""
    quick = [spec for spec in specs() if spec.verdict == "quick"]
    results = run(quick, clusters=CLUSTERS)
    assert {result.name for result in results} == {spec.name for spec in quick}
    failed = {result.name for result in results if result.state != "passed"}
    again = run([spec for spec in quick if spec.name in failed])
    words = [f"{result.state}: {result.name}: {result.message}" for result in again if result.state != "passed"]
    assert (words, {result.name for result in again}) == ([], failed)
