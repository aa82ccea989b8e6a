"""The store on disk: SQLite below the store in memory, so that no acknowledged write is lost with the process.

Reads never touch the disk. Writes are collected while the previous batch is being written, and a separate thread
commits them together. A write is acknowledged, and watchers see it, only when its batch is on disk.
After a restart versions continue well above the last one, and every earlier watch gets 410 and lists again. This
corrects clients that read a write before it was on disk.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import finalize

import msgspec

from kubesched.apiserver.storage.store import ChangeType, Record, Shelf, Store, StoreEvent, decode
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.private_files import create_private, make_folder

FORMAT = 1
_APPLICATION = 0x6B756265
_VERSION_GAP = 1000
_FILE = "cluster.db"
_LOG = "cluster.db-wal"
_OPEN = "cluster.db-open"
"""A file that is there while the database is open. After a kill it says that the write-ahead log belongs to it."""
_REMEDY = "make room or mend the disk, and start again: every acknowledged write is there"
_log = logging.getLogger(__name__)

Row = tuple[str, str, int, bytes | None]
"""A change: the kind, the key, the version, and the object or None for a deletion."""


class DataDirectoryError(RuntimeError):
    """A data directory that cannot be used; the message says why and what to do."""


class DurableStore(Store):
    """A store that survives its process."""

    def __init__(self, directory: Path, *, max_events: int = 16_384, max_bytes: int = 16 << 20) -> None:
        self.directory = directory
        self._database = _open(directory)
        with self._reading():
            saved = self._database.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
            version = saved[0] + _VERSION_GAP if saved else 1
        super().__init__(
            version=version,
            max_events=max_events,
            max_bytes=max_bytes,
        )
        self._pending: list[Row] = []
        self._touched: set[Shelf] = set()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    def load(self) -> None:
        """Read everything back. The selectable fields of all kinds must be set before."""
        with self._reading():
            (found,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            rows = self._database.execute("SELECT resource, key, version, data FROM objects ORDER BY resource, key")
            for resource, key, version, data in rows:
                shelf = self.shelf(resource)
                obj = decode(data)
                shelf.restore(Record(key, version, data, obj["metadata"].get("labels") or {}, shelf.fields_of(obj)))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Reports a database that cannot be read as damaged."""
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._database.close()
            raise _damaged(self.directory, str(error) or type(error).__name__) from error

    async def durable(self) -> None:
        """Return once everything done so far is on disk."""
        if self.failure is not None:
            raise self._refusal()
        if self.visible >= self.version:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self.version, waiter))
        await waiter

    async def close(self) -> None:
        """Write the remaining changes and close the files."""
        if self._flushing is not None:
            await self._flushing
        self._writer.shutdown()
        self._database.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    def _commit(self, resource: str, shelf: Shelf, event: StoreEvent) -> None:
        if self.failure is not None:
            raise self._refusal()
        record = event.record
        self.version = record.version
        data = None if event.change is ChangeType.DELETED else record.data
        self._pending.append((resource, record.key, record.version, data))
        self._touched.add(shelf)
        shelf.apply(event)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # While the server is being built there is no event loop yet, and blocking is harmless.
            self._finish(self._write(self._take()))
            return
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        # One turn of the loop lets all requests that have arrived add their writes to this batch.
        await asyncio.sleep(0)
        try:
            while self._pending:
                self._finish(await loop.run_in_executor(self._writer, self._write, self._take()))
        except sqlite3.Error as error:
            _log.error("cannot write to %s: %s; nothing is served from now on. %s", self.directory, error, _REMEDY)
            self._fail(error)
        except Exception as error:
            _log.exception("cannot write to %s", self.directory)
            self._fail(error)
        finally:
            self._flushing = None

    def _take(self) -> list[Row]:
        rows, self._pending = self._pending, []
        return rows

    def _write(self, rows: list[Row]) -> int:
        """Write a batch in one transaction. Returns the version reached."""
        reached = rows[-1][2] if rows else self.visible
        last = {row[:2]: row for row in rows}
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
                [row for row in last.values() if row[3] is not None],
            )
            self._database.executemany(
                "DELETE FROM objects WHERE resource = ? AND key = ?",
                [key for key, row in last.items() if row[3] is None],
            )
            self._database.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (reached,))
        return reached

    def _finish(self, reached: int) -> None:
        self.visible = max(self.visible, reached)
        touched, self._touched = self._touched, set()
        for shelf in touched:
            shelf.publish(self.visible)
            if self._pending:
                self._touched.add(shelf)
        still = []
        for version, waiter in self._waiters:
            if version > self.visible:
                still.append((version, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiters = still

    def _fail(self, error: Exception) -> None:
        self.failure = error
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(self._refusal())
        self._waiters = []

    def _refusal(self) -> StatusError:
        return StatusError(500, f"the store cannot write to its data directory: {self.failure}; {_REMEDY}")


def _damaged(directory: Path, why: str) -> DataDirectoryError:
    return DataDirectoryError(
        f"{directory / _FILE}: the database is damaged: {why}; restore the folder from a copy, or choose another one"
    )


def _check_files(directory: Path) -> None:
    """Refuses a folder in which a file of a cluster is missing or empty: a new cluster would hide the loss."""
    if not directory.is_dir():
        return
    there = {each.name: each.stat().st_size for each in directory.iterdir()}
    if there.get(_FILE) == 0 and len(there) > 1:
        raise _damaged(directory, "it is empty, but the folder has files of a cluster")
    if _FILE not in there and there.keys() & {_LOG, _OPEN}:
        raise _damaged(directory, "it is missing, but the folder has files of a cluster")
    if _OPEN in there and not there.get(_LOG):
        raise _damaged(directory, f"its write-ahead log {_LOG} is {'empty' if _LOG in there else 'missing'}")


class _Connection(sqlite3.Connection):
    """A connection that removes `_OPEN` before SQLite moves the log into the database and deletes it, also when the
    program ends and nobody has closed it."""

    _end: finalize[[Path], _Connection] | None = None

    def own(self, directory: Path) -> None:
        """This process has the database now."""
        self._end = finalize(self, _unmark, directory)

    def close(self) -> None:
        if self._end is not None:
            self._end()
        super().close()


def _unmark(directory: Path) -> None:
    with suppress(OSError):
        (directory / _OPEN).unlink(missing_ok=True)


def _open(directory: Path) -> _Connection:
    file = directory / _FILE
    try:
        _check_files(directory)
        make_folder(directory, 0o700)
        if not file.exists() and any(directory.iterdir()):
            raise DataDirectoryError(
                f"{directory}: has files in it, but no {_FILE};"
                " restore the folder from a copy, or name a new or an empty one"
            )
        # It contains secrets, and the directory may be readable for others.
        create_private(file)
        database = sqlite3.connect(file, check_same_thread=False, timeout=0.5, factory=_Connection)
        _check(database, directory)
        create_private(directory / _OPEN)
    except (OSError, sqlite3.DatabaseError) as error:
        hint = "is another kubesched using it?" if "locked" in str(error) else "choose another one"
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataDirectoryError(f"{directory}: cannot be used as a data directory: {reason}; {hint}") from error
    return database


def _check(database: _Connection, directory: Path) -> None:
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    (found,) = database.execute("PRAGMA user_version").fetchone()
    (application,) = database.execute("PRAGMA application_id").fetchone()
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    database.own(directory)
    if tables and (application != _APPLICATION or found != FORMAT):
        raise DataDirectoryError(
            f"{directory}: holds data of format {found}, this version of kubesched reads format {FORMAT};"
            " use the version that wrote it, or choose another --data-dir"
        )
    # The first write is synced, so that the log is never empty once `_OPEN` is there.
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA application_id = {_APPLICATION}")
    # The write-ahead log without a sync per commit survives the process; only losing power could cost the last writes.
    database.execute("PRAGMA synchronous = NORMAL")
    with database:
        database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute(
            "CREATE TABLE IF NOT EXISTS objects (resource TEXT, key TEXT, version INTEGER, data BLOB,"
            " PRIMARY KEY (resource, key)) WITHOUT ROWID"
        )
        database.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER)")
