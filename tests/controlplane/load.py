"""Load on the embedded API server: ``python -m tests.controlplane.load [NODES PODS]``.

32 clients create nodes and pods while 20 watchers follow, all over TLS; the server is a process of its own. The clients
are as lean as can be, because on a small machine it is mostly they who take the time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml
from tests.controlplane.support import NODES, PODS, node, pod

from kubesched.client.protocol import JSON

CLIENTS = 32
WATCHERS = 20
_ADDED = b'{"type":"ADDED"'

_SERVER = """
import asyncio, sys
from pathlib import Path
from kubesched.controlplane.launch import ServerOptions, build_server

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
        while chunk := await reader.read(1 << 20):
            data = rest + chunk
            self.seen[number] += data.count(_ADDED)
            rest = b"" if data.endswith(_ADDED) else data[-len(_ADDED) + 1 :]

    async def create(self, path: str, bodies: Iterator[bytes]) -> None:
        reader, writer = await self._connect()
        for body in bodies:
            writer.write(f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b" 201 " in head[:20], head
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
        writer.close()

    async def create_all(self, path: str, objects: list[JSON]) -> float:
        bodies = iter([json.dumps(obj).encode() for obj in objects])
        start = time.perf_counter()
        await asyncio.gather(*(self.create(path, bodies) for _ in range(CLIENTS)))
        return time.perf_counter() - start


async def run(kubeconfig: Path, nodes: int, pods: int) -> str:
    """Create everything; answers with what it took."""
    load = Load(kubeconfig)
    paths = [PODS if number < 15 else NODES for number in range(WATCHERS)]
    watchers = [asyncio.create_task(load.watch(number, path)) for number, path in enumerate(paths)]
    await asyncio.sleep(1)
    took = await load.create_all(NODES, [node(f"node-{number}") for number in range(nodes)])
    took += await load.create_all(PODS, [pod(f"pod-{number}") for number in range(pods)])
    start = time.perf_counter()
    while any(seen < (pods if path == PODS else nodes) for seen, path in zip(load.seen, paths, strict=True)):
        await asyncio.sleep(0.002)
        if time.perf_counter() - start > 10:
            return f"watchers are behind: {load.seen}"
    behind = time.perf_counter() - start
    for watcher in watchers:
        watcher.cancel()
    return f"{(nodes + pods) / took:.0f} creates/s, watchers {behind * 1000:.0f} ms behind"


def main(nodes: int = 5000, pods: int = 10_000) -> None:
    """Measure in memory and on disk."""
    for durable in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            data = [str(Path(folder) / "data")] if durable else []
            command = [sys.executable, "-c", _SERVER, str(kubeconfig), *data]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                server.stdout.readline()
                result = asyncio.run(run(kubeconfig, nodes, pods))
                status = Path(f"/proc/{server.pid}/status")
                lines = status.read_text().splitlines() if status.exists() else []
                peak = next((line.split()[1] for line in lines if line.startswith("VmHWM")), "0")
                server.terminate()
            print(f"{'on disk' if durable else 'in memory'}: {result}, {int(peak) // 1024} MB at most")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
