"""Appends attempts to files, from a thread of its own: the event loop never waits for a disk.

What comes faster than it can be written is dropped and counted. A file that cannot be written is reported once, and
tried again with the next attempts.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kubesched.base.log import ERROR, Log
from kubesched.base.private_files import create_private, open_private
from kubesched.base.types import JSON
from kubesched.history.record import AttemptRecord
from kubesched.history.schema import PRUNE, SCHEMA, USER_VERSION
from kubesched.history.view import VERSION, summary

BACKLOG: Final = 32 << 20
"""Bytes of attempts that may wait for the thread."""
BATCH: Final = 256
STOP_SECONDS: Final = 10.0


class HistoryOutput(Protocol):
    """Something that attempts are written to. Called in the writer's thread only; may raise."""

    def write(self, batch: Sequence[JSON]) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """A file with one attempt per line. At `max_size` it becomes FILE.1, and so on, up to `backups`."""

    def __init__(self, path: str, max_size: int, backups: int) -> None:
        self.path = Path(path)
        self._max_size = max_size
        self._backups = backups
        self._file = open_private(self.path, "ab")

    def write(self, batch: Sequence[JSON]) -> None:
        """Append lines. None is ever split between two files."""
        if self._file.closed:
            self._file = open_private(self.path, "ab")
        for each in batch:
            line = msgspec.json.encode({"apiVersion": VERSION, "kind": "Attempt", **each}) + b"\n"
            if self._file.tell() and self._file.tell() + len(line) > self._max_size:
                self._rotate()
            self._file.write(line)
        self._file.flush()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._backups, 0, -1):
            older = self._backup(number - 1)
            if older.exists():
                os.replace(older, self._backup(number))
        if not self._backups:
            self.path.unlink(missing_ok=True)
        self._file = open_private(self.path, "ab")

    def _backup(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def close(self) -> None:
        self._file.close()


class Database:
    """An SQLite database with the newest attempts. `schema` describes its tables."""

    def __init__(self, path: str, keep: int) -> None:
        self._keep = keep
        create_private(path)
        self._connection = sqlite3.connect(path, check_same_thread=False)
        try:
            self._prepare(path)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, path: str) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, USER_VERSION):
            raise OSError(f"{path} has a schema of version {version}, not {USER_VERSION}; name another file")
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(SCHEMA)

    def write(self, batch: Sequence[JSON]) -> None:
        """Add attempts in one transaction, and drop the oldest."""
        with self._connection as database:
            for each in batch:
                self._add(database, each)
            (newest,) = database.execute("SELECT max(id) FROM attempts").fetchone()
            for statement in PRUNE:
                database.execute(statement, (newest - self._keep,))

    def _add(self, database: sqlite3.Connection, each: JSON) -> None:
        identity = database.execute(
            "INSERT INTO attempts (time, namespace, pod, uid, profile, attempt, outcome, binding, node, message,"
            " seconds, evaluated_nodes, feasible_nodes, nominated_node, victims)"
            " VALUES (:time, :namespace, :pod, :uid, :profile, :attempt, :outcome, :binding, :node, :message,"
            " :seconds, :evaluatedNodes, :feasibleNodes, :nominatedNode, :victims)",
            each | {"victims": msgspec.json.encode(each["victims"]).decode()},
        ).lastrowid
        database.executemany(
            "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?)",
            [
                (identity, place, scored["node"], plugin, both["score"], both["final"])
                for place, scored in enumerate(each["scores"])
                for plugin, both in scored["plugins"].items()
            ],
        )
        rejected = [] if each["preFilter"] is None else [each["preFilter"] | {"count": None, "nodes": []}]
        database.executemany(
            "INSERT INTO rejections VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    identity,
                    one["plugin"],
                    one["code"],
                    msgspec.json.encode(one["reasons"]).decode(),
                    one["count"],
                    msgspec.json.encode(one["nodes"]).decode(),
                )
                for one in (*rejected, *each["rejections"])
            ],
        )

    def close(self) -> None:
        self._connection.close()


class HistoryWriter:
    """A thread that writes attempts to outputs."""

    def __init__(self, outputs: Sequence[HistoryOutput], log: Log) -> None:
        self.dropped = 0
        """Attempts that could not be queued: the thread did not keep up."""
        self.failed = 0
        """Attempts that could not be written."""
        self._outputs = outputs
        self._log = log
        self._waiting: deque[tuple[AttemptRecord, int]] = deque()
        self._queued = self._taken = 0  # bytes; each is written by one thread only
        self._wake = threading.Event()
        self._stopping = False
        self._broken: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)
        self._thread.start()

    def put(self, record: AttemptRecord, _: object = None) -> None:
        """Write an attempt that has ended, soon. Never waits."""
        size = record.own_bytes()
        if self._queued - self._taken + size > BACKLOG:
            if not self.dropped:
                self._log(ERROR, "Attempts are missing in the decision log: it cannot be written fast enough")
            self.dropped += 1
            return
        self._queued += size
        self._waiting.append((record, size))
        self._wake.set()

    def close(self) -> None:
        """Write what is left, and close the files; gives up after a while."""
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not (self._stopping and not self._waiting):
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]
                self._write([record for record, _ in taken])
                self._taken += sum(size for _, size in taken)
        for output in self._outputs:
            output.close()

    def _write(self, records: Sequence[AttemptRecord]) -> None:
        batch = [made for record in records if (made := self._summary(record)) is not None]
        for number, output in enumerate(self._outputs):
            try:
                output.write(batch)
                self._broken.discard(number)
            except Exception as problem:  # whatever is wrong with a file, the thread goes on
                self.failed += len(batch)
                if number not in self._broken:
                    self._broken.add(number)
                    self._log(ERROR, "The decision log cannot be written", err=problem)

    def _summary(self, record: AttemptRecord) -> JSON | None:
        try:
            return summary(record)
        except Exception as problem:  # a mistake of ours must not end the thread
            self.failed += 1
            self._log(ERROR, "An attempt cannot be written to the decision log", pod=record.key, err=problem)
            return None
