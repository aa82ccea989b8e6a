"""Attempts in files: what is written can be read back, files stay within their limits, and nothing waits for them."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.builders import node, pod
from tests.scheduler.world import Lines, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.log import SILENT
from kubesched.history import reader, writer
from kubesched.history.reader import HistoryError, LoggedAttempt, load
from kubesched.history.record import AttemptRecord, FilterColumn, Names, RecordedVerdict, ScoreColumn
from kubesched.history.recorder import HistoryRecorder
from kubesched.history.view import summary
from kubesched.history.writer import Database, HistoryWriter, JsonLines

NAMES = Names(("a", "b", "c"), 100)


REJECTED = RecordedVerdict("Unschedulable", ("no cpu", "no disk"))


def attempt(number: int = 1, name: str = "web") -> AttemptRecord:
    """One that chose b of a and b; c was rejected."""
    fit = FilterColumn(
        "Fit", np.array([0, 0, 3], dtype=np.uint8), {3: RecordedVerdict("Unschedulable", ("no cpu", "no disk"))}
    )
    scores = [ScoreColumn("Least", 2, np.array([10, 40, 0], dtype=np.uint8), whole=True), ScoreColumn("Flat", 1, 7)]
    mask = bytes([0b11000000])
    return AttemptRecord(
        number, "default", name, f"uid-{name}", "default-scheduler", 1, 1e9, NAMES, "scheduled", "bound", "b",
        evaluated=3, feasible=2, mask=mask, filters=[fit], scores=scores, finished=True,
    )  # fmt: skip


@virtual_time
async def test_both_files_read_back_alike(clock: VirtualClock, tmp_path: Path) -> None:
    """A log and a database of a real scheduler give the same attempts: scores, reasons, victims and all."""
    lines, database = tmp_path / "decisions.jsonl", tmp_path / "decisions.db"
    outputs = HistoryWriter([JsonLines(str(lines), 1 << 20, 1), Database(str(database), 100)], SILENT)
    recorder = HistoryRecorder(clock, sinks=[outputs.put])
    nodes = [node("n1", cpu="2"), node("n2", cpu="1"), node("n3", cpu="4", taints=["a=b:NoSchedule"])]
    async with world(clock, *nodes, subscribers=[recorder], check=False) as here:
        for each in (
            pod("web", cpu="1"),
            pod("low", cpu="1"),
            pod("high", cpu="2", priority=10),
            pod("huge", cpu="64"),
        ):
            here.create(each)
            await here.settle(2)
    outputs.close()
    first, second = load(lines), load(database)
    assert first == second
    assert {each.pod for each in first} == {"web", "low", "high", "huge"}
    web = load(database, "default", "web")[-1]
    assert (web.outcome, web.binding, web.scores[0].node) == ("scheduled", "bound", web.node)
    huge = load(lines, pod="huge")[0]
    assert {each.plugin: each.nodes for each in huge.rejections} == {
        "TaintToleration": ["n3"],
        "NodeResourcesFit": ["n1", "n2"],
    }
    assert any(each.victims for each in first)


def test_the_json_has_the_documented_shape() -> None:
    """A line has exactly the fields of the reader's types, besides number, finished, points and plugins."""
    shown = summary(attempt())
    decoded = reader.decode(json.dumps(shown).encode())
    known = {field.encode_name for field in msgspec.structs.fields(LoggedAttempt)}
    assert known <= shown.keys()
    assert shown.keys() - known == {"number", "finished", "points", "unschedulablePlugins"}
    assert (decoded.scores[0].node, decoded.scores[0].total) == ("b", 87)
    assert decoded.runner_up is not None
    assert (decoded.runner_up.node, decoded.runner_up.total) == ("a", 27)
    assert decoded.rejections[0].reasons == ["no cpu", "no disk"]


def test_people_can_query_the_database(tmp_path: Path) -> None:
    """Plain SQL answers which plugin decided, and why nodes were refused; only the newest attempts stay."""
    path = tmp_path / "decisions.db"
    database = Database(str(path), 3)
    database.write([summary(attempt(number, f"p{number}")) for number in range(5)])
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT pod FROM attempts ORDER BY id").fetchall()
        plugin = connection.execute(
            "SELECT plugin FROM scores WHERE place = 0 GROUP BY plugin ORDER BY sum(final) DESC LIMIT 1"
        ).fetchone()
        refused = connection.execute("SELECT sum(count) FROM rejections WHERE reasons LIKE '%no cpu%'").fetchone()
    assert (kept, plugin, refused) == ([("p2",), ("p3",), ("p4",)], ("Least",), (3,))
    again = Database(str(path), 3)
    again.write([summary(attempt(9, "p9"))])
    again.close()
    assert [each.pod for each in load(path)] == ["p9", "p4", "p3"]


def test_the_log_is_rotated_by_size(tmp_path: Path) -> None:
    """No file is larger than the limit, no line is split, and only so many old files stay."""
    path = tmp_path / "log"
    line = len(json.dumps(summary(attempt()))) + 100
    output = JsonLines(str(path), 3 * line, 2)
    for number in range(30):
        output.write([summary(attempt(number))])
    output.close()
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["log", "log.1", "log.2"]
    assert all(each.stat().st_size <= 3 * line for each in files)
    numbers = [json.loads(text)["number"] for each in reversed(files) for text in each.read_text().splitlines()]
    assert numbers == list(range(30))[-len(numbers) :]
    assert len(load(path)) == len(path.read_text().splitlines())


def test_a_slow_disk_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a write hangs, attempts are queued up to a bound of bytes, then dropped and counted; none waits."""
    release = threading.Event()
    written: list[Any] = []

    class Slow:
        def write(self, batch: Sequence[Any]) -> None:
            release.wait()
            written.extend(batch)

        def close(self) -> None: ...

    monkeypatch.setattr(writer, "BACKLOG", 50 * attempt().own_bytes())
    log = Lines()
    output = HistoryWriter([Slow()], log)
    for number in range(200):
        output.put(attempt(number))
    assert not written, "the disk still hangs: none of the calls can have waited for it"
    release.set()
    output.close()
    assert len(written) + output.dropped == 200
    assert 100 < output.dropped < 200
    assert len(log.errors()) == 1


def test_a_file_that_fails_is_reported_once_and_tried_again() -> None:
    """The thread survives errors of any kind, and other files get everything."""
    good: list[Any] = []

    class Bad:
        def write(self, batch: Sequence[Any]) -> None:
            raise OSError("disk full")

        def close(self) -> None: ...

    class Good(Bad):
        def write(self, batch: Sequence[Any]) -> None:
            good.extend(batch)

    log = Lines()
    output = HistoryWriter([Bad(), Good()], log)
    for number in range(3):
        output.put(attempt(number))
    output.close()
    assert (len(good), output.failed) == (3, 3)
    assert len(log.errors()) == 1


@pytest.mark.parametrize("content", [b"SQLite format 3\x00junk", b"kind: Pod\n", b'{"kind": "Pod"}\n'])
def test_other_files_are_refused_with_a_hint(tmp_path: Path, content: bytes) -> None:
    """What is not a decision file is named, with the flag that writes one."""
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"other.*--decision-"):
        load(path)


def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    """A newer schema is not written to."""
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(OSError, match="schema of version 7"):
        Database(str(path), 1)
