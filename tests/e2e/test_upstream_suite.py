"""Upstream's own end-to-end suite against `kubesched up`: the quick specs, in parallel."""

from __future__ import annotations

import pytest
from tests.e2e.parts import SUITE, find
from tests.e2e.upstream_suite import run, specs

CLUSTERS = 4


@pytest.mark.skipif(find(SUITE) is None, reason=f"no {SUITE}: make parts builds it, where it has the time")
def test_quick_specs_pass() -> None:
    """Specs that need few seconds each pass; make upstream-suite runs all."""
    quick = [spec for spec in specs() if spec.verdict == "quick"]
    results = run(quick, clusters=CLUSTERS)
    assert {result.name for result in results} == {spec.name for spec in quick}
    failed = [f"{result.state}: {result.name}: {result.message}" for result in results if result.state != "passed"]
    assert failed == []
