"""Lists that are longer than memory."""

from __future__ import annotations

import pickle

import pytest

from kubesched.simulator import ScenarioClient, long_list, machine
from kubesched.simulator.long_list import LongList
from kubesched.simulator.simulating import simulate
from kubesched.simulator.timeline import TimelineEntry
from kubesched.testing import node, pod


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write after six items, in blocks of three."""
    monkeypatch.setattr(long_list, "BLOCK", 3)
    monkeypatch.setattr(long_list, "MOST_IN_MEMORY", 6)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("length", [0, 5, 6, 20])
def test_it_is_a_list(length: int) -> None:
    """Whether items are in memory or in the file, it gives the same items as a list, also while it grows."""
    plain: list[TimelineEntry] = []
    long = LongList(TimelineEntry)
    for number in range(length):
        entry = TimelineEntry(number / 7, "bound", "Pod", f"a/p{number}", "n1", number, 5)
        plain.append(entry)
        long.append(entry)
        assert list(long) == plain
    assert long == plain
    assert len(long) == length
    assert long != [*plain, TimelineEntry(0.0, "note", "", "")]
    for part in (slice(None), slice(2, 11), slice(-4, None), slice(None, None, -3), slice(5, 2)):
        assert long[part] == plain[part]
    assert [long[at] for at in range(-length, length)] == [plain[at] for at in range(-length, length)]
    with pytest.raises(IndexError):
        long[length]
    assert pickle.loads(pickle.dumps(long)) == plain


def test_few_items_stay_in_memory(small_blocks: None) -> None:
    """Of any number of items, at most as many as said are objects in memory."""
    long = LongList(TimelineEntry)
    for number in range(1000):
        long.append(TimelineEntry(number, "bound", "Pod", "a/p", "n1"))
        assert len(long._recent) < 6


@pytest.mark.parametrize("reports", [1, 2])
def test_json_is_written_in_parts(reports: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is written in several parts, which together are the whole report."""
    report = simulate(_three_pods)
    whole = machine.as_json([report] * reports)
    monkeypatch.setattr(machine, "SOME", 4)
    parts = list(machine.json_parts([report] * reports))
    assert "".join(parts) == whole
    assert max(part.count('"time"') for part in parts) == 4
    bodies = [report.to_dict()] * reports
    assert machine._formatted(bodies[0] if reports == 1 else bodies) == whole


async def _three_pods(client: ScenarioClient) -> None:
    await client.create(node("n1"))
    for number in range(3):
        await client.create(pod(f"p{number}", run_time="1s"))
    await client.sleep("10s")
