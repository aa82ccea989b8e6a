"""Responses in the exact form of Go's HTTP server and Kubernetes' API machinery, which scripts depend on."""

from __future__ import annotations

import json

from aiohttp import web

from kubesched.base.types import JSON

NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_BROWSERS = ("curl/", "Wget/", "Mozilla/")
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def text(body: str, status: int = 200, *, content_type: str = "text/plain") -> web.Response:
    """Return plain text, or HTML."""
    return web.Response(text=body, status=status, content_type=content_type, charset="utf-8")


def error(body: str, status: int) -> web.Response:
    """Return what Go's ``http.Error`` sends."""
    return web.Response(text=f"{body}\n", status=status, content_type="text/plain", charset="utf-8", headers=NO_SNIFF)


def not_found() -> web.Response:
    """Return what Go's mux sends for an unknown path."""
    return error("404 page not found", 404)


def internal_error(request: web.BaseRequest, problem: object) -> web.Response:
    """Return upstream's response to an internal error."""
    return error(sanitized(f'Internal Server Error: "{request.path_qs}": {problem}'), 500)


def sanitized(message: str) -> str:
    """Escape HTML that a path may contain."""
    return message.translate(_ENTITIES)


def status(request: web.BaseRequest, code: int, reason: str, message: str, *, details: bool = False) -> web.Response:
    """Return a Kubernetes Status, as an API server sends it."""
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
    """Encode JSON: indented for people, in one line for programs. As upstream, the user agent decides."""
    if pretty(request) if person is None else person:
        content = json.dumps(body, indent=2, ensure_ascii=False)
    else:
        content = json.dumps(body, separators=(",", ":"), ensure_ascii=False) + "\n"
    return content.translate(_ESCAPES).encode()


def pretty(request: web.BaseRequest) -> bool:
    """Whether the response should be indented, for a person to read."""
    wish = request.query.get("pretty")
    if wish is not None:
        return wish not in ("0", "false")
    return request.headers.get("User-Agent", "").startswith(_BROWSERS)
