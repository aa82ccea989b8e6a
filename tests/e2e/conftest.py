"""Fixtures: a control plane that nobody has used before, and what to keep of it when a test fails."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import FAILED
from tests.e2e.control_plane import ControlPlane
from tests.e2e.parts import CACHE, VARIABLE, missing

LOGS = CACHE / "logs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the parts of a cluster there is nothing to test against."""
    lacking = missing()
    if lacking:
        reason = f"no {', '.join(lacking)}: make e2e builds them, or {VARIABLE} names a folder that holds them"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where a test's processes write. Kept, as text only, if the test fails."""
    made = Path(tempfile.mkdtemp(prefix="kubesched-e2e-"))
    yield made
    if request.node.stash.get(FAILED, False):
        kept = LOGS / request.node.name.replace("/", "-")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(made, kept, ignore=shutil.ignore_patterns("etcd", "*.key", "*.pem"))
        print(f"logs are in {kept}")
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def plane(folder: Path) -> Iterator[ControlPlane]:
    """A fresh control plane."""
    made = ControlPlane(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
