"""The store on disk: what was acknowledged is there after the process was killed."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.apiserver.support import CONFIG_MAPS, PATIENCE, PODS, config_map, failing_observer, pod, take, upcoming

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, _load_keys, build_server
from kubesched.apiserver.storage.durable import DataDirectoryError, DurableStore, Row
from kubesched.apiserver.wire.status import StatusError


async def test_everything_comes_back(tmp_path: Path) -> None:
    """Objects, deletions, selectable fields and versions survive a restart; old watches are 410."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    for name in ("a", "b", "c"):
        await client.create(PODS, pod(name, nodeName=f"n-{name}"))
    await client.delete(f"{PODS}/b?gracePeriodSeconds=0")
    version = store.version
    await store.close()

    again = DurableStore(tmp_path)
    client = LocalClient(ApiServer(again))
    found = await client.get(PODS, query={"fieldSelector": "spec.nodeName=n-c"})
    assert [item["metadata"]["name"] for item in found["items"]] == ["c"]
    assert len((await client.get(PODS))["items"]) == 2
    assert again.version > version
    event = await upcoming(client.watch(PODS, resourceVersion=str(version)))
    assert event["object"]["code"] == 410
    await again.close()


async def test_watchers_hear_only_of_what_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is busy a write is neither acknowledged nor shown to watchers; afterwards it is both."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    await store.durable()
    before, write, may_write = str(store.version), store._write, threading.Event()

    def wait_and_write(rows: list[Row]) -> int:
        may_write.wait(PATIENCE)
        return write(rows)

    monkeypatch.setattr(store, "_write", wait_and_write)
    writing = asyncio.create_task(client.create(CONFIG_MAPS, config_map("slow")))
    while store.version == store.visible:
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await take(client.watch(CONFIG_MAPS, resourceVersion=before), 1)
    assert not writing.done()
    may_write.set()
    await writing
    assert store.visible == store.version
    assert await take(client.watch(CONFIG_MAPS, resourceVersion=before), 1) == [("ADDED", "slow")]
    await store.close()


async def test_many_writes_at_once_are_all_told(tmp_path: Path) -> None:
    """A hundred writers are answered when their writes are on disk, and a watcher sees each one."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    events = client.watch(CONFIG_MAPS, resourceVersion=str(store.version))
    names = [f"c{number}" for number in range(100)]
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(name)) for name in names))
    assert store.visible == store.version
    assert sorted(name for _, name in await take(events, 100)) == sorted(names)
    await store.close()


async def test_the_last_of_a_batch_counts(tmp_path: Path) -> None:
    """Of several writes to one object in a batch the last one is on disk."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    await asyncio.gather(
        client.create(CONFIG_MAPS, config_map("back", n="1")),
        client.delete(f"{CONFIG_MAPS}/back"),
        client.create(CONFIG_MAPS, config_map("back", n="2")),
        client.create(CONFIG_MAPS, config_map("gone")),
        client.replace(f"{CONFIG_MAPS}/gone", config_map("gone", n="3")),
        client.delete(f"{CONFIG_MAPS}/gone"),
    )
    await store.close()
    again = DurableStore(tmp_path)
    found = (await LocalClient(ApiServer(again)).get(CONFIG_MAPS))["items"]
    assert [(item["metadata"]["name"], item["data"]) for item in found] == [("back", {"n": "2"})]
    await again.close()


_WRITER = """
import asyncio, sys
from pathlib import Path
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.storage.durable import DurableStore
from kubesched.apiserver.inprocess.local import LocalClient

async def main():
    client = LocalClient(ApiServer(DurableStore(Path(sys.argv[1]))))

    async def write(worker):
        for number in range(10_000):
            name = f"w{worker}-{number}"
            await client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
            print(name, flush=True)

    await asyncio.gather(*(write(worker) for worker in range(8)))

asyncio.run(main())
"""


def test_kill_minus_nine(tmp_path: Path) -> None:
    """Whatever was acknowledged before the kill is there afterwards."""
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(500)]
    process.kill()
    acknowledged += process.stdout.read().splitlines()[:-1]
    process.stdout.close()
    process.wait()
    with sqlite3.connect(tmp_path / "cluster.db") as database:
        keys = {key for (key,) in database.execute("SELECT key FROM objects WHERE resource = '/configmaps'")}
    database.close()
    assert [name for name in acknowledged if f"default/{name}" not in keys] == []


def test_another_format_is_refused(tmp_path: Path) -> None:
    """A directory of another version says so and what to do."""
    with sqlite3.connect(tmp_path / "cluster.db") as database:
        database.execute("CREATE TABLE x (y)")
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(DataDirectoryError, match=r"holds data of format 99.*choose another --data-dir"):
        DurableStore(tmp_path)


async def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A directory that is in use is refused."""
    store = DurableStore(tmp_path)
    with pytest.raises(DataDirectoryError, match="is another kubesched using it"):
        DurableStore(tmp_path)
    await store.close()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """A path that cannot be a directory is a clear error."""
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(DataDirectoryError, match="cannot be used as a data directory: File exists; choose another one"):
        DurableStore(file)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """What is in it is not mixed with a cluster's files."""
    (tmp_path / "letter.txt").write_text("x")
    with pytest.raises(DataDirectoryError, match=r"has files in it, but no cluster\.db; .*name a new or an empty one"):
        DurableStore(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


async def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """The files of a cluster are their owner's alone, also in a directory that others can look into."""
    tmp_path.chmod(0o755)
    server = build_server(ServerOptions(data_dir=tmp_path))
    await server.start()
    try:
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        await server.stop()
    assert modes == dict.fromkeys(("cluster.db", "cluster.db-open", "cluster.db-wal", "identity.json"), 0o600)


async def test_keys_stay_the_same(tmp_path: Path) -> None:
    """A restarted cluster has the same authority, admin and signing key, so kubeconfigs and tokens go on working."""
    options = ServerOptions(data_dir=tmp_path)
    first = build_server(options)
    identity, key = first.identity, first.api.tokens.key_pem
    await first.api.store.close()
    second = build_server(options)
    assert second.identity.admin_token == identity.admin_token
    assert second.identity.authority.certificate_pem == identity.authority.certificate_pem
    assert second.api.tokens.key_pem == key
    await second.api.store.close()
    assert (tmp_path / "identity.json").stat().st_mode & 0o777 == 0o600


def test_keys_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """Any broken key file is an error that names the file."""
    keys = tmp_path / "identity.json"
    keys.write_text("{}")
    with pytest.raises(DataDirectoryError, match=r"identity\.json: cannot be used: .*certificate"):
        _load_keys(tmp_path)
    keys.unlink()
    keys.mkdir()
    with pytest.raises(DataDirectoryError, match=r"identity\.json: cannot be used: .*[Dd]irectory"):
        _load_keys(tmp_path)


async def test_a_disk_that_fails_is_said(tmp_path: Path) -> None:
    """When the disk cannot be written, writes are refused rather than lost, and the server is not healthy."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    store._database.execute("DROP TABLE objects")
    with pytest.raises(StatusError, match="cannot write to its data directory"):
        await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(StatusError, match="cannot write to its data directory"):
        await client.create(CONFIG_MAPS, config_map("b"))
    answers = {path: await client.send("GET", path) for path in ("/readyz", "/livez/etcd", "/livez/ping")}
    assert {path: answer.status for path, answer in answers.items()} == {
        "/readyz": 500,
        "/livez/etcd": 500,
        "/livez/ping": 200,
    }
    assert answers["/readyz"].body == b"[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
    await store.close()


async def test_a_failing_observer_does_not_keep_a_write_from_the_disk(tmp_path: Path) -> None:
    """A write whose observer raises is answered, reaches its watchers and survives."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    before = str(store.version)
    store.shelf("/configmaps").observers.append(failing_observer)
    await client.create(CONFIG_MAPS, config_map("kept"))
    assert await take(client.watch(CONFIG_MAPS, resourceVersion=before), 1) == [("ADDED", "kept")]
    await store.close()
    again = DurableStore(tmp_path)
    assert await LocalClient(ApiServer(again)).get(f"{CONFIG_MAPS}/kept")
    await again.close()


async def test_readers_see_only_what_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is busy neither a get, a list nor the beginning of a watch shows a write; afterwards they do."""
    store = DurableStore(tmp_path)
    client = LocalClient(ApiServer(store))
    await client.create(CONFIG_MAPS, config_map("there"))
    write, may_write = store._write, threading.Event()

    def wait_and_write(rows: list[Row]) -> int:
        may_write.wait(PATIENCE)
        return write(rows)

    monkeypatch.setattr(store, "_write", wait_and_write)
    writing = asyncio.create_task(client.create(CONFIG_MAPS, config_map("slow")))
    while store.version == store.visible:
        await asyncio.sleep(0)
    reads = [asyncio.create_task(client.get(path)) for path in (f"{CONFIG_MAPS}/slow", CONFIG_MAPS)]
    watching = asyncio.create_task(take(client.watch(CONFIG_MAPS), 2))
    await asyncio.wait(reads, timeout=0.2)
    assert not any(each.done() for each in (*reads, watching, writing))
    may_write.set()
    one, listed = await asyncio.gather(*reads)
    assert one["metadata"]["name"] == "slow"
    assert len(listed["items"]) == 2
    assert await watching == [("ADDED", "there"), ("ADDED", "slow")]
    await writing
    await store.close()


async def _filled(directory: Path) -> Path:
    """The database of a cluster with some objects in it."""
    server = build_server(ServerOptions(data_dir=directory))
    client = LocalClient(server.api)
    for number in range(200):
        await client.create(CONFIG_MAPS, config_map(f"c{number}", text="x" * 500))
    await server.api.store.close()
    return directory / "cluster.db"


@pytest.mark.parametrize("part", [0, 1, 2, 3])
async def test_a_damaged_database_is_said(tmp_path: Path, part: int) -> None:
    """Wherever a database is overwritten with nonsense, it is refused with words, or nothing is missing."""
    file = await _filled(tmp_path)
    size = file.stat().st_size
    with file.open("r+b") as database:
        database.seek(part * size // 4)
        database.write(b"nonsense" * (size // 40))
    with pytest.raises(DataDirectoryError, match=r"damaged|cannot be used as a data directory"):
        build_server(ServerOptions(data_dir=tmp_path))


async def test_objects_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    """A row that holds no object, and a version that is no number, are refused with words."""
    file = await _filled(tmp_path)
    for statement in (
        "UPDATE objects SET data = x'ff00' WHERE key = 'default/c7'",
        "UPDATE objects SET data = '[]' WHERE key = 'default/c7'",
        "UPDATE meta SET value = 'many'",
    ):
        with sqlite3.connect(file) as database:
            database.execute(statement)
        database.close()
        with pytest.raises(DataDirectoryError, match=r"cluster\.db: the database is damaged: .*restore the folder"):
            build_server(ServerOptions(data_dir=tmp_path))


async def test_an_emptied_database_is_no_new_cluster(tmp_path: Path) -> None:
    """A database of no length beside the keys of a cluster is a loss, not a beginning."""
    file = await _filled(tmp_path)
    file.write_bytes(b"")
    with pytest.raises(DataDirectoryError, match=r"damaged: it is empty, but the folder has files of a cluster"):
        build_server(ServerOptions(data_dir=tmp_path))
