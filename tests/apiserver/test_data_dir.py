"""What can happen to a data directory: kill -9, a full or read-only disk, a torn file, two processes, another time.

`python -m tests.apiserver.kill_up --times 100` is the long form of the first test.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.apiserver import kill_up
from tests.apiserver.support import CONFIG_MAPS, FixedClock, config_map, upcoming

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.apiserver.storage.durable import DataDirectoryError, DurableStore
from kubesched.base.clock import Clock

WRITER = """
import asyncio, resource, sys
from pathlib import Path
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.apiserver.wire.status import StatusError

async def main(folder, most):
    if most:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    client = LocalClient(build_server(ServerOptions(data_dir=Path(folder))).api)
    for number in range(5000):
        body = {"metadata": {"name": f"c{number}"}, "data": {"x": "y" * 1000}}
        try:
            await client.create("/api/v1/namespaces/default/configmaps", body)
        except StatusError as error:
            print(error, (await client.send("GET", "/readyz")).status, flush=True)
            return
        print(f"c{number}", flush=True)
        if number == 40 and not most:
            import os; os._exit(0)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def written(folder: Path, most: int = 0) -> tuple[list[str], str]:
    """The writes that a process had acknowledged when it could write no more, and what else it said.

    `most` is the largest file that it may write. With 0 it is killed after some writes.
    """
    command = [sys.executable, "-c", WRITER, str(folder), str(most)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    lines = done.stdout.splitlines()
    acknowledged = [line for line in lines if line.startswith("c")]
    return acknowledged, "\n".join([*lines[len(acknowledged) :], done.stderr])


async def names_in(folder: Path, clock: Clock | None = None) -> list[str]:
    """The ConfigMaps of a cluster."""
    server = build_server(ServerOptions(data_dir=folder), clock)
    try:
        found = await LocalClient(server.api).get(CONFIG_MAPS)
    finally:
        await server.api.store.close()
    names = (each["metadata"]["name"] for each in found["items"])
    return sorted((name for name in names if name.startswith("c")), key=lambda name: int(name[1:]))


def test_killed_under_load(tmp_path: Path) -> None:
    """`up` is killed while clients write: every acknowledged write is there, and nothing else has changed."""
    assert kill_up.run(tmp_path, 1, seed=7)


def test_what_clients_may_find() -> None:
    """A write that was not answered may have taken effect or not, also the first one of an object."""
    book = kill_up.Book(
        acknowledged={"kept": "1", "gone": None, "changing": "1"}, unclear={"new": "1", "changing": "2"}
    )
    for found in ({"kept": "1", "changing": "1"}, {"kept": "1", "changing": "2", "new": "1"}):
        assert book.problems(found, {}, {}) == []
    for found in ({"changing": "1"}, {"kept": "2", "changing": "1"}, {"kept": "1", "changing": "1", "other": "1"}):
        assert len(book.problems(found, {}, {})) == 1
    assert len(book.problems({"kept": "1", "changing": "1", "gone": "1"}, {}, {})) == 1


async def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A write that does not fit is refused with what to do, all after it too, and the acknowledged ones are there."""
    acknowledged, said = await asyncio.to_thread(written, tmp_path / "data", 1 << 20)
    assert len(acknowledged) > 10
    assert "the store cannot write to its data directory:" in said
    assert "make room or mend the disk, and start again: every acknowledged write is there 500" in said
    assert "Traceback" not in said
    assert await names_in(tmp_path / "data") == acknowledged


@contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    """A small disk of its own, where the tests may mount one."""
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() or mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a disk of its own can be mounted only by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk(tmp_path: Path) -> None:
    """As with a file that may not grow; with more room, the cluster goes on."""
    with disk(tmp_path / "small", "size=2m") as small:
        (small / "filler").write_bytes(b"x" * (1 << 20))
        acknowledged, said = await asyncio.to_thread(written, small / "data", 1 << 30)
        assert "database or disk is full" in said
        assert "Traceback" not in said
        (small / "filler").unlink()
        assert await names_in(small / "data") == acknowledged
        assert acknowledged


def test_a_read_only_disk(tmp_path: Path) -> None:
    """It cannot be a data directory, which is said with the folder's name."""
    words = r"fixed/data: cannot be used as a data directory: .*Read-only"
    with disk(tmp_path / "fixed", "ro") as fixed, pytest.raises(DataDirectoryError, match=words):
        build_server(ServerOptions(data_dir=fixed / "data"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of a process that was killed, and its acknowledged writes."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    return folder, written(folder)[0]


async def test_a_torn_database_is_refused(tmp_path: Path, killed: tuple[Path, list[str]]) -> None:
    """A database whose end is missing is refused with words rather than served in part."""
    whole = tmp_path / "whole"
    shutil.copytree(killed[0], whole)
    await names_in(whole)  # moves the write-ahead log into the database
    for part in (1, 2, 3):
        torn = tmp_path / f"torn-{part}"
        shutil.copytree(whole, torn)
        os.truncate(torn / "cluster.db", (whole / "cluster.db").stat().st_size * part // 4)
        with pytest.raises(DataDirectoryError, match=r"the database is damaged|cannot be used as a data directory"):
            build_server(ServerOptions(data_dir=torn))


async def test_a_torn_log_has_all_before_the_tear(tmp_path: Path, killed: tuple[Path, list[str]]) -> None:
    """Of a write-ahead log whose end is missing, everything that is whole counts, in order; SQLite finds no damage."""
    folder, acknowledged = killed
    size, seen = (folder / "cluster.db-wal").stat().st_size, []
    assert size
    for part in (4, 3, 2):
        copy = tmp_path / f"copy-{part}"
        shutil.copytree(folder, copy)
        os.truncate(copy / "cluster.db-wal", size * part // 4 - (part < 4))
        seen.append(await names_in(copy))
        with closing(sqlite3.connect(copy / "cluster.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert seen[0] == acknowledged
    assert all(names == acknowledged[: len(names)] for names in seen)
    assert len(seen[2]) < len(seen[1]) < len(acknowledged)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("cluster.db-wal", "its write-ahead log cluster.db-wal is"),
        ("cluster.db", "it is"),
    ],
)
async def test_a_lost_file_is_no_new_cluster(
    tmp_path: Path, killed: tuple[Path, list[str]], file: str, words: str
) -> None:
    """After a kill, a database or log that is missing or empty is refused, again and again; put back, all is there."""
    folder, acknowledged = killed
    for keys in (True, False):
        copy = tmp_path / f"copy-{keys}"
        shutil.copytree(folder, copy)
        if not keys:
            (copy / "identity.json").unlink()
        content = (copy / file).read_bytes()
        (copy / file).unlink()
        for _ in range(2):
            with pytest.raises(
                DataDirectoryError, match=rf"cluster\.db: .*damaged: {words} missing.*restore the folder"
            ):
                build_server(ServerOptions(data_dir=copy))
        (copy / file).touch()
        for _ in range(2):
            with pytest.raises(DataDirectoryError, match=rf"cluster\.db: .*: {words} empty.*; restore the folder"):
                build_server(ServerOptions(data_dir=copy))
        (copy / file).write_bytes(content)
        assert await names_in(copy) == acknowledged
        assert not list(copy.glob("cluster.db-*"))
        assert await names_in(copy) == acknowledged  # nothing is missed after a clean end


async def test_a_log_that_was_just_begun_is_not_empty(tmp_path: Path) -> None:
    """A cluster that is killed before its first change, also after a restart, starts again."""
    for times in range(2):
        store = DurableStore(tmp_path / f"open-{times}")
        shutil.copytree(tmp_path / f"open-{times}", tmp_path / f"open-{times + 1}")
        await store.close()
        assert (tmp_path / f"open-{times + 1}" / "cluster.db-wal").stat().st_size
    await DurableStore(tmp_path / "open-2").close()


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """Another process on the folder is told that it is in use, and harms nothing."""
    server = build_server(ServerOptions(data_dir=tmp_path))
    client = LocalClient(server.api)
    await client.create(CONFIG_MAPS, config_map("c1"))
    command = [sys.executable, "-c", WRITER, str(tmp_path), "0"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "database is locked; is another kubesched using it?" in done.stderr
    await client.create(CONFIG_MAPS, config_map("c2"))
    await server.api.store.close()
    assert await names_in(tmp_path) == ["c1", "c2"]


async def test_a_clock_set_back(tmp_path: Path) -> None:
    """After a restart a day earlier everything is there, versions go on, and the administrator's token is valid."""
    clock, versions = FixedClock(), []
    for day in range(2):
        clock.time -= day * 24 * 3600
        server = build_server(ServerOptions(data_dir=tmp_path), clock)
        client = LocalClient(server.api)
        made = await client.create(CONFIG_MAPS, config_map(f"c{day}"))
        versions.append(int(made["metadata"]["resourceVersion"]))
        assert server.api.authenticator.user_of_token(server.identity.admin_token).name
        if day:
            event = await upcoming(client.watch(CONFIG_MAPS, resourceVersion=str(versions[0])))
            assert event["object"]["code"] == 410
        await server.api.store.close()
    assert versions[1] > versions[0]
    assert await names_in(tmp_path, clock) == ["c0", "c1"]
