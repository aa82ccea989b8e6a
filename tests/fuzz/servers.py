"""python -m tests.fuzz.servers: the embedded API server and a secure port in a process of limited memory.

It prints its ports and the administrator's token. For each line on standard input it prints the most memory that it has
ever used, in bytes. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from tests.daemon.serving.support import running
from tests.test_doors import Reviews

from kubesched.apiserver.launch import ServerOptions, build_server

SPARE = 1 << 30
"""Bytes of addresses that the process may take besides those it has after its start."""
WATCHES = 200


def limit_memory() -> None:
    """Make this process fail, rather than the machine, if something takes much more memory."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        most = int(statm.read_text().split()[0]) * resource.getpagesize() + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def most_bytes() -> int:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def main() -> None:
    """Serve until standard input ends."""
    server = build_server(ServerOptions(tls=False))
    server.api.watches.most = WATCHES
    await server.start()
    async with running(api=Reviews(allowed={("system:anonymous", "put", "/debug/flags/v")})) as secure:
        ports = {"api": server.port, "secure": int(secure.url.rpartition(":")[2])}
        print(json.dumps({**ports, "token": server.identity.admin_token}), flush=True)
        limit_memory()
        while await asyncio.to_thread(sys.stdin.readline):
            print(most_bytes(), flush=True)
    await server.stop()


if __name__ == "__main__":
    asyncio.run(main())
