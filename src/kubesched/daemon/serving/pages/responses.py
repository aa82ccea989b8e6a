"""Answers in the form that Go's HTTP server and Kubernetes' API machinery give them; people's scripts compare them."""

from __future__ import annotations

import json

from aiohttp import web

from kubesched.base.types import JSON

NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_BROWSERS = ("curl/", "Wget/", "Mozilla/")
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def text(body: str, status: int = 200, *, content_type: str = "text/plain", charset: str = "utf-8") -> web.Response:
    """Plain text, or HTML."""
    return web.Response(text=body, status=status, content_type=content_type, charset=charset)


def error(body: str, status: int) -> web.Response:
    """What Go's ``http.Error`` sends."""
    return web.Response(text=f"{body}\n", status=status, content_type="text/plain", charset="utf-8", headers=NO_SNIFF)


def not_found() -> web.Response:
    """What Go's mux says of a path that it does not know."""
    return error("404 page not found", 404)


def internal_error(request: web.BaseRequest, problem: object) -> web.Response:
    """Something went wrong on the way to an answer."""
    return error(sanitized(f'Internal Server Error: "{request.path_qs}": {problem}'), 500)


def sanitized(message: str) -> str:
    """Not HTML, whatever a path may contain."""
    return message.translate(_ENTITIES)


def status(request: web.BaseRequest, code: int, reason: str, message: str, *, details: bool = False) -> web.Response:
    """A Kubernetes Status, as an API server would send it."""
    body: JSON = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {}} if details else {}),
        "code": code,
    }
    return web.Response(
        body=encoded(request, body), status=code, content_type="application/json", headers=dict(NO_SNIFF)
    )


def encoded(request: web.BaseRequest, body: JSON, *, person: bool | None = None) -> bytes:
    """JSON: in many lines for people, in one for programs, told apart by their user agents as upstream does."""
    if pretty(request) if person is None else person:
        content = json.dumps(body, indent=2, ensure_ascii=False)
    else:
        content = json.dumps(body, separators=(",", ":"), ensure_ascii=False) + "\n"
    return content.translate(_ESCAPES).encode()


def pretty(request: web.BaseRequest) -> bool:
    """Whether somebody reads this with their own eyes."""
    wish = request.query.get("pretty")
    if wish is not None:
        return wish not in ("0", "false")
    return request.headers.get("User-Agent", "").startswith(_BROWSERS)
