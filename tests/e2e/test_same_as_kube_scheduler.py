"""The same scenario with the real kube-scheduler and with kubesched: what they leave in the API is the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.control_plane import ControlPlane
from tests.e2e.left import differences, left_in
from tests.e2e.scenarios import CONFIGURATIONS, SCENARIOS
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, start
from tests.e2e.stage import Stage


def played(scenario: Callable[[Stage], None], program: str, folder: Path) -> dict[str, Any]:
    """What is left after a scenario with one of the two, on an API server of its own."""
    folder.mkdir()
    plane = ControlPlane(folder)
    try:
        plane.start()
        start(program, plane, config=CONFIGURATIONS.get(scenario))
        scenario(Stage(plane))
        return left_in(plane.admin)
    finally:
        plane.stop()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_leaves_the_same(scenario: Callable[[Stage], None], folder: Path) -> None:
    """Nodes, conditions, nominations, claims, volumes and events are the same, field by field."""
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(played, scenario, KUBE_SCHEDULER, folder / KUBE_SCHEDULER)
        ours = pool.submit(played, scenario, KUBESCHED, folder / KUBESCHED)
        found = differences(ours.result(), theirs.result())
    assert not found, "\n".join(found)
