"""Comparisons of schedulers with what follows from their objects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubesched.scheduler.scheduler import Scheduler
from kubesched.torture import ending
from kubesched.torture import run as running
from kubesched.torture.rebuilding import Rebuilding
from kubesched.torture.run import run_story
from kubesched.torture.world import World


def test_a_difference_is_told_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong amount, tag or label id is told at each comparison, and nothing is once it is mended."""
    compared: list[list[str]] = []

    def check(world: World) -> None:
        leader = world.leader()
        assert leader is not None
        scheduler = leader.scheduler
        assert scheduler is not None
        compared.extend(_with_mistakes(world.rebuilding, scheduler))
        ending.check_end(world)

    monkeypatch.setattr(running, "check_end", check)
    assert run_story(7).violation is None
    first, again, mended, tagged, labelled = compared[:5]
    assert len(first) == 1
    assert "used cpu is" in first[0]
    assert again == first
    assert mended == []
    assert "tags is" in tagged[0]
    assert "label kubernetes.io/hostname is wrong" in labelled[0]


def _with_mistakes(rebuilding: Rebuilding, scheduler: Scheduler) -> Iterator[list[str]]:
    def differences() -> list[str]:
        scheduler.queue.scheduling_cycle += 1  # something has happened
        return list(rebuilding.differences(scheduler, caches=False))

    table = scheduler.cluster.nodes
    row = next(iter(table.row_of.values()))
    table.used[0, row] += 1
    yield differences()
    yield list(rebuilding.differences(scheduler, caches=False))
    table.used[0, row] -= 1
    yield differences()
    table.tagged["port", "TCP", 1, "*"] = {row: 1}
    yield differences()
    del table.tagged["port", "TCP", 1, "*"]
    ids = table.label("kubernetes.io/hostname").ids
    ids[row], kept = -1, ids[row]
    yield differences()
    ids[row] = kept
