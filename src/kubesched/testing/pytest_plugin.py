"""What pytest gets from kubesched: the fixture `cluster`, and decisions explained where a test that uses it fails.

pytest loads this wherever kubesched is installed, so it imports nothing of kubesched until a test asks for it.
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
    """Adds what was decided, and why, to the report of a test that failed."""
    report = yield
    decisions = getattr(getattr(item, "funcargs", {}).get("cluster"), "decisions", None)
    if report.when == "call" and report.failed and isinstance(decisions, list) and decisions:
        report.sections.append(("decisions", "\n\n".join(each.explain() for each in decisions)))
    return report
