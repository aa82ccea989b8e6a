"""All paths and their handlers."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from kubesched.base.log import Log
from kubesched.base.types import JSON
from kubesched.daemon.serving.pages import debug, responses, zpages
from kubesched.daemon.serving.pages.health import Check, HealthPage
from kubesched.daemon.serving.pages.slis import Slis

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

AnyHandler = Callable[[web.BaseRequest], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The data behind the pages."""

    log: Log
    config: Callable[[], JSON]
    """The configuration in use, for /configz."""
    metrics: Callable[[str], tuple[bytes, str]]
    """Takes an Accept header; returns the metrics in that format, and its content type."""
    reset_metrics: Callable[[], None]
    resource_metrics: Callable[[], str]
    """Requests and limits of all pods; empty unless this process is the leader."""
    set_verbosity: Callable[[int], None]
    flags: Mapping[str, str] | None = None
    """For /flagz; None turns that page off."""
    statusz: bool = True
    profiling: bool = True
    healthz: Sequence[Check] = ()
    readyz: Sequence[Check] = ()
    alone: Sequence[Check] = ()
    """Checks that are served under their own paths only."""
    more: Iterable[tuple[str, AnyHandler]] = ()
    """Further paths and their handlers."""
    started: float = field(default_factory=time.time)


class Endpoints:
    """Finds the handler of a path. An entry that ends in a slash matches everything below it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._slis = Slis(served.started)
        self._started = {"Process-Start-Time-Unix": str(int(served.started))}
        self._routes: dict[str, AnyHandler] = {}
        pages = {"healthz": served.healthz, "livez": (), "readyz": served.readyz}
        for name, checks in pages.items():
            page = HealthPage(name, checks, self._slis, served.log, served.alone)
            self._routes.update(page.routes())
        self._routes["/configz"] = lambda request: zpages.configz(served.config())(request)
        self._routes["/metrics"] = self._metrics
        self._routes["/metrics/resources"] = self._resource_metrics
        self._routes["/metrics/slis"] = self._slis_page
        if served.profiling:
            self._routes.update(debug.profile_routes())
            self._routes.update(debug.flag_routes(served.set_verbosity))
        self._routes.update(served.more)
        if served.flags is not None:
            self._routes["/flagz"] = zpages.flagz(served.flags)
        if served.statusz:
            self._routes["/statusz"] = zpages.statusz(served.started, tuple(self._routes))

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths that are served."""
        return tuple(self._routes)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond to an authorized request."""
        handler = self._find(request.path)
        if handler is None:
            return responses.not_found()
        answer = handler(request)
        return await answer if inspect.isawaitable(answer) else answer

    def _find(self, path: str) -> AnyHandler | None:
        found = self._routes.get(path)
        while found is None and path.strip("/"):
            path = path.rstrip("/").rpartition("/")[0] + "/"
            found = self._routes.get(path)
        return found

    def _metrics(self, request: web.BaseRequest) -> web.Response:
        if request.method == "DELETE":
            self._served.reset_metrics()
            return responses.text("metrics reset\n")
        body, content_type = self._served.metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type, **self._started})

    def _resource_metrics(self, _: web.BaseRequest) -> web.Response:
        text = self._served.resource_metrics()
        headers = {"Content-Type": TEXT_FORMAT, **self._started} if text else None
        return web.Response(body=text.encode(), headers=headers)

    def _slis_page(self, request: web.BaseRequest) -> web.Response:
        if request.method == "DELETE":
            self._slis.reset()
            return responses.text("metrics reset\n")
        return web.Response(body=self._slis.render().encode(), headers={"Content-Type": TEXT_FORMAT, **self._started})
