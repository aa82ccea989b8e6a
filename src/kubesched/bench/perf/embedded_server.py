"""The embedded API server as a program: ``python -m kubesched.bench.perf.embedded_server KUBECONFIG``."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.bench.perf.in_process import PERF_ADMISSION


async def _serve(kubeconfig: Path) -> None:
    server = build_server(ServerOptions(admission=PERF_ADMISSION))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await server.start()
    written = kubeconfig.with_suffix(".new")
    server.write_kubeconfig(written)
    written.rename(kubeconfig)  # its appearance means that the server is ready
    await stop.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
