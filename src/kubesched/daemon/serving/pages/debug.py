"""The pages /debug/flags and /debug/pprof."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterator

from aiohttp import web

from kubesched.daemon.serving.auth.guard import Handler
from kubesched.daemon.serving.pages import profiling, responses
from kubesched.logs.levels import LoggingProblem, verbosity

LONGEST = 600.0
DEFAULT_SECONDS = {"profile": 30.0, "heap": 5.0}

FLAGS_PAGE = """\
<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""


def flag_routes(set_verbosity: Callable[[int], None]) -> Iterator[tuple[str, Handler]]:
    """The paths of /debug/flags. A path that ends in a slash matches everything below it."""

    async def change(request: web.BaseRequest) -> web.Response:
        if request.method != "PUT":
            return _plain("unsupported http method", 406)
        given = (await request.read()).decode("utf-8", "replace")
        try:
            level = verbosity(given)
        except LoggingProblem:
            problem = "value out of range" if given.isdecimal() else "invalid syntax"
            return _plain(f'strconv.ParseUint: parsing "{given}": {problem}', 400)
        set_verbosity(level)
        return _plain(f"successfully set klog.logging.verbosity to {given}", 200)

    async def index(_: web.BaseRequest) -> web.Response:
        return responses.text(FLAGS_PAGE, content_type="text/html")

    yield "/debug/flags/v", change
    yield "/debug/flags", index
    yield "/debug/flags/", index


def _plain(text: str, status: int) -> web.Response:
    headers = {"Content-Type": "text/plain", **responses.NO_SNIFF}
    return web.Response(body=f"{text}\n".encode(), status=status, headers=headers)


def profile_routes() -> Iterator[tuple[str, Handler]]:
    """The paths of /debug/pprof."""
    yield "/debug/pprof", _redirect
    yield "/debug/pprof/", _index
    yield "/debug/pprof/cmdline", _cmdline
    yield "/debug/pprof/goroutine", _tasks
    yield "/debug/pprof/heap", _heap
    yield "/debug/pprof/profile", _profile
    yield "/debug/pprof/threadcreate", _threads


async def _redirect(_: web.BaseRequest) -> web.Response:
    body = '<a href="/debug/pprof/">Found</a>.\n\n'
    return web.Response(text=body, status=302, content_type="text/html", headers={"Location": "/debug/pprof/"})


async def _index(request: web.BaseRequest) -> web.Response:
    if request.path != "/debug/pprof/":
        known = ", ".join(profiling.describe())
        return responses.error(f"Unknown profile; available profiles are {known}", 404)
    rows = "".join(
        f"<tr><td><a href='{name}'>{name}</a></td><td>{html.escape(text)}</td></tr>\n"
        for name, text in profiling.describe().items()
    )
    title = "<title>/debug/pprof/</title>"
    page = f"<html>\n<head>\n{title}\n</head>\n<body>\n/debug/pprof/\n<table>\n{rows}</table>\n</body>\n</html>\n"
    return responses.text(page, content_type="text/html")


async def _cmdline(_: web.BaseRequest) -> web.Response:
    return responses.text("\0".join(sys.argv))


async def _tasks(_: web.BaseRequest) -> web.Response:
    return responses.text(profiling.tasks())


async def _threads(_: web.BaseRequest) -> web.Response:
    return responses.text(profiling.threads())


async def _heap(request: web.BaseRequest) -> web.Response:
    return responses.text(await profiling.heap(_seconds(request, "heap")))


async def _profile(request: web.BaseRequest) -> web.Response:
    seconds = _seconds(request, "profile")
    match request.query.get("format", "collapsed"):
        case "collapsed":
            return responses.text(profiling.collapsed(await profiling.sample(seconds)))
        case "speedscope":
            body = profiling.speedscope(await profiling.sample(seconds))
            return web.Response(text=body, content_type="application/json", headers=_attached("speedscope.json"))
        case "pstats":
            data = await profiling.exact(seconds)
            return web.Response(body=data, content_type="application/octet-stream", headers=_attached("pstats"))
        case other:
            return responses.error(f"unknown format {other}; use collapsed, speedscope or pstats", 400)


def _attached(suffix: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="profile.{suffix}"'}


def _seconds(request: web.BaseRequest, name: str) -> float:
    """Return the requested duration. As in Go, anything but a positive number means the default."""
    try:
        wanted = float(request.query.get("seconds", ""))
    except ValueError:
        wanted = 0.0
    return min(wanted, LONGEST) if wanted > 0 else DEFAULT_SECONDS[name]
