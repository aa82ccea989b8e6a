"""A pytest plugin: the fixture `cluster`, and explained decisions in the reports of failed tests that use it.

pytest loads this wherever kubesched is installed, so it imports nothing else of kubesched until a test needs it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kubesched.testing.virtual_cluster import VirtualCluster


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    """An empty cluster in memory, with the real scheduler, on virtual time."""
    from kubesched.testing.virtual_cluster import VirtualCluster

    with VirtualCluster() as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the explained decisions to the report of a failed test."""
    report = yield
    decisions = getattr(getattr(item, "funcargs", {}).get("cluster"), "decisions", None)
    if report.when == "call" and report.failed and isinstance(decisions, list) and decisions:
        report.sections.append(("decisions", "\n\n".join(each.explain() for each in decisions)))
    return report
