"""The web page of `kubesched up`: the port is open from the start, and a process serves it once a browser connects."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import yaml

from kubesched.daemon.setup import Setup
from kubesched.framework.functions import PluginFunction
from kubesched.framework.loading import plugin_files
from kubesched.framework.registry import PluginSource
from kubesched.local.cluster import LocalCluster
from kubesched.local.scheduler import LocalScheduler
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.web.app import link_to, listen
from kubesched.web.child import ChildSettings

HOST = "127.0.0.1"
STOP_SECONDS = 3.0


class LocalUi:
    """Listens, and starts the serving process on the first connection."""

    def __init__(
        self,
        cluster: LocalCluster,
        scheduler: LocalScheduler,
        setup: Setup,
        port: int,
        plugins: Sequence[PluginSource],
    ) -> None:
        """Raises OSError if the port is in use."""
        self._cluster = cluster
        self._scheduler = scheduler
        self._setup = setup
        self._plugins = plugins
        self._log: Logger = setup.log
        self._socket = _listen(port)
        self._token = secrets.token_urlsafe(24)
        self._process: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._wait_for_browser()

    @property
    def link(self) -> str:
        """The link that opens the page."""
        return link_to(HOST, self._socket.getsockname()[1], self._token)

    async def stop(self) -> None:
        """Stop serving."""
        asyncio.get_running_loop().remove_reader(self._socket)
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
        self._socket.close()

    def _wait_for_browser(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._on_connection)

    def _on_connection(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._watch = asyncio.create_task(self._serve(), name="web page")

    async def _serve(self) -> None:
        """Run the process. If it ends by itself, the next connection starts another."""
        number = self._socket.fileno()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubesched.web.child", stdin=PIPE, pass_fds=(number,)
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._settings(number)) + b"\n")
        code = await self._process.wait()
        self._log(WARNING, "The web page's process has ended", code=code)
        await asyncio.sleep(1)
        self._wait_for_browser()

    def _settings(self, number: int) -> ChildSettings:
        options = self._setup.options
        port = options.serving.secure_port
        asked = port and self._setup.options.history.decision_history
        folders = options.plugins.plugin_dir
        return ChildSettings(
            socket=number,
            token=self._token,
            title=f"kubesched up on {self._cluster.server.url.partition('://')[2]}",
            kubeconfig=yaml.safe_dump(self._cluster.server.kubeconfig()),
            config=self._scheduler.config,
            plugins=[
                *options.plugins.plugin,
                *(str(file) for folder in folders for file in plugin_files(folder)),
                *(place for each in self._plugins if (place := _place(each))),
            ],
            scheduler=f"https://{HOST}:{port}" if asked else "",
            scheduler_authority=self._authority() if asked else "",
        )

    def _authority(self) -> str:
        """A certificate that the flags name must be trusted as it is; another comes from the cluster's authority."""
        tls = self._setup.tls
        return "" if tls is None or tls.main.made is not None else tls.main.read().certificate.decode()


def _listen(port: int) -> socket.socket:
    """The port, or a free one if it is in use: a second cluster must not fail because of the page."""
    try:
        return listen(HOST, port)
    except OSError:
        return listen(HOST, 0)


def _place(source: PluginSource) -> str:
    """Where another process finds a plugin that was passed as an object; empty if it cannot."""
    made = source.function if isinstance(source, PluginFunction) else source
    if made.__module__ != "__main__":
        return f"{made.__module__}:{made.__qualname__}"
    file = getattr(sys.modules["__main__"], "__file__", None)
    return f"{file}:{made.__qualname__}" if file and file.endswith(".py") else ""
