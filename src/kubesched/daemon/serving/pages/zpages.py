"""/configz, /statusz and /flagz: the configuration, the state and the flags of this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from aiohttp import web

from kubesched.base import component_pages
from kubesched.base.component_pages import ACCEPTED, ComponentPage
from kubesched.base.types import JSON
from kubesched.daemon.serving.pages import responses

COMPONENT: Final = "kube-scheduler"
Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


def statusz(started: float, paths: Iterable[str]) -> Handler:
    """The version, the uptime and the paths."""
    return _served(component_pages.statusz(COMPONENT, started, paths))


def flagz(flags: Mapping[str, str]) -> Handler:
    """All flags and their values."""
    return _served(component_pages.flagz(COMPONENT, flags))


def _served(page: ComponentPage) -> Handler:
    async def answer(request: web.BaseRequest) -> web.Response:
        found = page.answer(request.headers.get("Accept", ""))
        if found is None:
            return responses.status(request, 406, "NotAcceptable", ACCEPTED)
        if isinstance(found.body, str):
            return responses.text(found.body)
        body = found.body if isinstance(found.body, bytes) else responses.encoded(request, found.body)
        return web.Response(body=body, headers={"Content-Type": found.content_type, **found.headers})

    return answer


def configz(config: JSON) -> Callable[[web.BaseRequest], web.Response]:
    """The configuration in use."""

    def answer(request: web.BaseRequest) -> web.Response:
        body = responses.encoded(request, {"componentconfig": config}, person=False).rstrip(b"\n")
        return web.Response(body=body, content_type="application/json", headers=dict(responses.NO_SNIFF))

    return answer
