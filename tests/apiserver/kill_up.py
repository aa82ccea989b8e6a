"""python -m tests.apiserver.kill_up [--times N]: `kubesched up --data-dir` under kill -9 while clients write.

Eight clients create, change and delete ConfigMaps. After each kill the cluster is started again on the same folder, and
everything in it is compared with what was acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import yaml
from tests.kubectl.local import Local

from kubesched.base.types import JSON

CLIENTS = 8
KEYS = 20
"""Objects of each client."""
MAPS = "/api/v1/namespaces/default/configmaps"
STILL = ("/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/serviceaccounts")
"""Objects that nobody writes while the clients do."""


@dataclass(slots=True)
class Book:
    """What clients know about their objects, by name."""

    acknowledged: dict[str, str | None] = field(default_factory=dict)
    """The last value whose write was acknowledged; None if that was a deletion."""
    unclear: dict[str, str | None] = field(default_factory=dict)
    """The value of a write that was sent and not answered."""
    writes: int = 0

    def problems(self, found: dict[str, str], untouched: dict[str, JSON], now: dict[str, JSON]) -> list[str]:
        """What is not as it should be after a restart."""
        said = []
        for name in {*found, *self.acknowledged}:
            value = self.acknowledged.get(name)
            if found.get(name) != value and not (name in self.unclear and found.get(name) == self.unclear[name]):
                said.append(f"{name} is {found.get(name)}, acknowledged was {value}")
        return said + [f"{name} has changed" for name, each in untouched.items() if now.get(name) != each]


class Api:
    """The cluster's API, with the administrator's token."""

    def __init__(self, kubeconfig: Path) -> None:
        read = yaml.safe_load(kubeconfig.read_text("utf-8"))
        self._url = read["clusters"][0]["cluster"]["server"]
        self.identity = (
            read["users"][0]["user"]["token"],
            read["clusters"][0]["cluster"]["certificate-authority-data"],
        )

    async def __aenter__(self) -> Api:
        headers = {"Authorization": f"Bearer {self.identity[0]}"}
        connector = aiohttp.TCPConnector(ssl=False)
        self._session = aiohttp.ClientSession(self._url, headers=headers, connector=connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, JSON]:
        async with self._session.request(method, path, json=body) as response:
            return response.status, await response.json()

    async def objects(self, path: str) -> dict[str, JSON]:
        """All objects at a path by name, whole."""
        status, body = await self.ask("GET", path)
        assert status == 200, body
        items = body["items"]
        return {f"{each['metadata'].get('namespace', '')}/{each['metadata']['name']}": each for each in items}


async def write(api: Api, book: Book, client: int, random: Random) -> None:
    """Write one's own objects until the server is gone."""
    while True:
        name = f"default/c{client}-{random.randrange(KEYS)}"
        there = book.acknowledged.get(name) is not None
        value = None if there and random.random() < 0.3 else str(book.writes)
        short = name.partition("/")[2]
        body = {"metadata": {"name": short}, "data": {"value": value, "more": "x" * random.choice((1, 5000))}}
        path = f"{MAPS}/{short}"
        call = ("DELETE", path, None) if value is None else ("PUT", path, body) if there else ("POST", MAPS, body)
        book.unclear[name] = value
        status, answer = await api.ask(*call)
        assert status < 300, answer
        book.acknowledged[name] = value
        del book.unclear[name]
        book.writes += 1


async def write_until_killed(cluster: Local, book: Book, random: Random) -> None:
    """Let clients write, and kill the cluster after some of the writes."""
    end = book.writes + random.randint(20, 400)
    async with Api(cluster.kubeconfig) as api:
        writers = [asyncio.create_task(write(api, book, number, Random(random.random()))) for number in range(CLIENTS)]
        while book.writes < end:
            await asyncio.sleep(0)
            for each in writers:
                if each.done():
                    each.result()
        cluster.process.kill()
        cluster.process.wait()
        for each in writers:
            with suppress(aiohttp.ClientError, OSError):
                await each


async def compare(cluster: Local, book: Book, before: dict[str, JSON]) -> dict[str, JSON]:
    """Check the restarted cluster. Returns all objects that nobody writes between a kill and the next comparison."""
    async with Api(cluster.kubeconfig) as api:
        maps = await api.objects(MAPS)
        still = {f"{path} {name}": each for path in STILL for name, each in (await api.objects(path)).items()}
    still["identity"] = {"credentials": api.identity}
    ours = {name: each["data"]["value"] for name, each in maps.items() if name.startswith("default/c")}
    problems = book.problems(ours, before, still)
    assert not problems, "\n".join(problems)
    book.acknowledged.update({name: ours.get(name) for name in book.unclear})
    book.unclear.clear()
    return still


def run(folder: Path, times: int, seed: int) -> int:
    """Kill a cluster so many times. Returns the number of acknowledged writes, all of which survived."""
    book, random, still = Book(), Random(seed), dict[str, JSON]()
    flags = (f"--data-dir={folder / 'data'}", "--nodes=0", "--no-scheduler", "--run-schedulers=false")
    for _ in range(times):
        cluster = Local(folder, *flags)
        try:
            still = asyncio.run(compare(cluster, book, still))
            asyncio.run(write_until_killed(cluster, book, random))
        finally:
            cluster.process.kill()
            cluster.process.wait()
    cluster = Local(folder, *flags)
    try:
        asyncio.run(compare(cluster, book, still))
    finally:
        cluster.stop()
    return book.writes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill `kubesched up --data-dir` under write load, and compare.")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kubesched-kill-") as made:
        writes = run(Path(made), options.times, options.seed)
    print(f"{options.times} kill -9, {writes} acknowledged writes: all there, nothing else changed")
