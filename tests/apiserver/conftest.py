"""An API server for each test, inside the process or behind TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.apiserver.support import FixedClock

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server


@pytest.fixture
def clock() -> FixedClock:
    """A clock that the test moves."""
    return FixedClock()


@pytest.fixture
def api(clock: FixedClock) -> ApiServer:
    """A server without a socket."""
    return ApiServer(clock=clock)


@pytest.fixture
def client(api: ApiServer) -> LocalClient:
    """A client that may do everything."""
    return LocalClient(api)


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    """A server on a socket with TLS."""
    running = build_server(ServerOptions())
    await running.start()
    try:
        yield running
    finally:
        await running.stop()
