"""Connections through a SOCKS5 proxy, which aiohttp does not support by itself."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from python_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError, ProxyType
from python_socks.async_.asyncio import Proxy
from yarl import URL

DEFAULT_PORT = 1080


class SocksConnector(aiohttp.TCPConnector):
    """Connects through a proxy. The proxy resolves host names, as for Go programs."""

    def __init__(self, url: str, prepare: Callable[[socket.socket], None], **options: Any) -> None:
        super().__init__(resolver=_Unresolved(), **options)
        self._address = URL(url)
        self._prepare = prepare

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: list[Any],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        kwargs.pop("client_error", None)
        try:
            host, port, *_ = addr_infos[0][4]
            opened = await self._open(host, port, timeout.sock_connect or timeout.total)
            self._prepare(opened)
            made: Any = await self._loop.create_connection(*args, **kwargs, sock=opened)
            return made  # type: ignore[no-any-return]  # its second part is what the factory among `args` makes
        except (ProxyError, ProxyConnectionError, ProxyTimeoutError) as error:
            where = f"{self._address.host}:{self._address.port or DEFAULT_PORT}"
            raise aiohttp.ClientProxyConnectionError(
                req.connection_key, OSError(f"SOCKS proxy {where}: {error}")
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error

    async def _open(self, host: str, port: int, seconds: float | None) -> socket.socket:
        address = self._address
        proxy = Proxy(
            proxy_type=ProxyType.SOCKS5,
            host=address.host or "",
            port=address.port or DEFAULT_PORT,
            username=address.user,
            password=address.password,
            rdns=True,
        )
        return await proxy.connect(host, port, timeout=seconds)


class _Unresolved(AbstractResolver):
    """Resolves nothing: passes host names on as they are."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [{"hostname": host, "host": host, "port": port, "family": family, "proto": 0, "flags": 0}]

    async def close(self) -> None: ...
