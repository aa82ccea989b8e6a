"""A port of the API server without authentication, for clients of kube-scheduler-simulator.

Everybody who reaches it is the administrator, so it listens on loopback only. Web pages may not use it, unless their
origin is allowed: a browser names the page's origin, and a name that leads to loopback is not accepted as the host.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.http_server import ADMIN, AddressInUseError, make_web_server, respond

_ADDRESS = "127.0.0.1"
_HOSTS = ("localhost", "127.0.0.1", "::1")


class OpenPort:
    """Serves an API server over plain HTTP."""

    def __init__(self, api: ApiServer, port: int, origins: Collection[str] = ()) -> None:
        self.port = port
        self._api = api
        self._origins = frozenset(origins)
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Listen. Raises `AddressInUseError` if the port is in use."""
        runner = web.ServerRunner(make_web_server(self._api, self._handle), handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, _ADDRESS, self.port).start()
        except OSError as error:
            await runner.cleanup()
            raise AddressInUseError(f"cannot listen on {_ADDRESS}:{self.port}: {error.strerror or error}") from error
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        origin = raw.headers.get("Origin", "")
        if urlsplit(f"//{raw.host}").hostname not in _HOSTS or (origin and origin not in self._origins):
            return web.Response(
                status=403, text="use this port as localhost, and pages only with --simulator-origins\n"
            )
        if not origin:
            return await respond(self._api, raw, ADMIN)
        allowed = {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Credentials": "true",
            "Vary": "Origin",
        }
        if raw.method == "OPTIONS":
            asked = raw.headers.get("Access-Control-Request-Headers", "")
            methods = {"Access-Control-Allow-Methods": "GET, HEAD, PUT, PATCH, POST, DELETE"}
            return web.Response(status=204, headers=allowed | methods | {"Access-Control-Allow-Headers": asked})
        return await respond(self._api, raw, ADMIN, allowed)
