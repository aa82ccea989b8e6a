"""Load on the embedded API server: ``python -m tests.apiserver.load [NODES PODS]``.

32 clients create nodes and pods while 20 watchers follow, all over TLS; the server is a process of its own. The clients
are as lean as can be, because on a small machine it is mostly they who take the time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.apiserver.support import NODES, PODS, node, pod

from kubesched.base.types import JSON

CLIENTS = 32
WATCHERS = 20
POD_WATCHERS = 15
PATIENCE = 120.0
"""Seconds after which a watcher counts as lost."""
_ADDED = b'{"type":"ADDED"'

_SERVER = """
import asyncio, sys
from pathlib import Path
from kubesched.apiserver.launch import ServerOptions, build_server

async def main():
    data = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    server = build_server(ServerOptions(data_dir=data))
    await server.start()
    server.write_kubeconfig(Path(sys.argv[1]))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Load:
    """Clients and watchers of one server."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._port = int(cluster["server"].rpartition(":")[2])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        token = config["users"][0]["user"]["token"]
        self._head = f"Host: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self.seen = [0] * WATCHERS

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context, limit=1 << 22)

    async def watch(self, number: int, path: str) -> None:
        reader, writer = await self._connect()
        writer.write(f"GET {path}?watch=1&resourceVersion=1 HTTP/1.1\r\n{self._head}\r\n".encode())
        rest = b""
        try:
            while chunk := await reader.read(1 << 20):
                data = rest + chunk
                self.seen[number] += data.count(_ADDED)
                rest = b"" if data.endswith(_ADDED) else data[-len(_ADDED) + 1 :]
        finally:
            # A watch has no end to wait for.
            writer.transport.abort()

    async def create(self, path: str, bodies: Iterator[bytes]) -> None:
        reader, writer = await self._connect()
        for body in bodies:
            writer.write(f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b" 201 " in head[:20], head
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
        writer.close()
        await writer.wait_closed()

    async def create_all(self, path: str, objects: list[JSON]) -> float:
        bodies = iter([json.dumps(obj).encode() for obj in objects])
        start = time.perf_counter()
        await asyncio.gather(*(self.create(path, bodies) for _ in range(CLIENTS)))
        return time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Result:
    """What a load took."""

    rate: float
    """Objects created per second."""
    behind: float
    """Seconds from the last answer until every watcher had seen everything."""
    seen: list[int]
    """How many additions each watcher saw: the pods, and after them the nodes."""
    cpu: float
    """Seconds that the server computed."""
    peak: int
    """The server's peak memory in MB, or 0 if unknown."""

    def __str__(self) -> str:
        speed = f"{self.rate:.0f} creates/s, watchers {self.behind * 1000:.0f} ms behind"
        return f"{speed}, {self.cpu:.1f} s of CPU, {self.peak} MB at most"


async def run(server: int, kubeconfig: Path, nodes: int, pods: int) -> Result:
    """Create everything on the server with this process id, and wait until the watchers have seen it."""
    load = Load(kubeconfig)
    paths = [PODS] * POD_WATCHERS + [NODES] * (WATCHERS - POD_WATCHERS)
    watchers = [asyncio.create_task(load.watch(number, path)) for number, path in enumerate(paths)]
    await asyncio.sleep(1)
    before = _cpu(server)
    took = await load.create_all(NODES, [node(f"node-{number}") for number in range(nodes)])
    took += await load.create_all(PODS, [pod(f"pod-{number}") for number in range(pods)])
    start = time.perf_counter()
    while any(seen < (pods if path == PODS else nodes) for seen, path in zip(load.seen, paths, strict=True)):
        await asyncio.sleep(0.002)
        if time.perf_counter() - start > PATIENCE:
            break
    behind = time.perf_counter() - start
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return Result((nodes + pods) / took, behind, load.seen, _cpu(server) - before, _peak(server))


def _cpu(process: int) -> float:
    path = Path(f"/proc/{process}/stat")
    if not path.exists():
        return 0.0
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak(process: int) -> int:
    path = Path(f"/proc/{process}/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def measure(folder: Path, nodes: int, pods: int, *, durable: bool) -> Result:
    """Load on a new server, which is killed afterwards; with `durable` its data is in ``folder/data``."""
    kubeconfig = folder / "kubeconfig"
    data = [str(folder / "data")] if durable else []
    command = [sys.executable, "-c", _SERVER, str(kubeconfig), *data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            server.stdout.readline()
            return asyncio.run(run(server.pid, kubeconfig, nodes, pods))
        finally:
            server.kill()


def main(nodes: int = 5000, pods: int = 10_000) -> None:
    """Measure in memory and on disk."""
    for durable in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            result = measure(Path(folder), nodes, pods, durable=durable)
            late = f"; watchers are behind: {result.seen}" if result.behind > PATIENCE else ""
            print(f"{'on disk' if durable else 'in memory'}: {result}{late}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
