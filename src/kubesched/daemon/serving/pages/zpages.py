"""/configz, /statusz and /flagz: the configuration, the state and the flags of this process."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import yaml
from aiohttp import web

from kubesched.base.types import JSON
from kubesched.daemon.serving.pages import responses

COMPONENT: Final = "kube-scheduler"
KUBERNETES: Final = "1.36"
GROUP: Final = "config.k8s.io"
WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
ACCEPTED: Final = "only the following media types are accepted: application/json, application/yaml, text/plain"
DEPRECATED: Final = '299 - "This version of the {} endpoint is deprecated. Please use a newer version."'


class ZPage:
    """A page that is plain text by default, and a JSON or YAML object if the Accept header asks for its exact kind."""

    def __init__(self, kind: str, text: Callable[[], str], fields: Callable[[], JSON]) -> None:
        self._kind = kind
        self._text = text
        self._fields = fields

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Respond in the format that the request accepts."""
        for media_type, parameters in _accepted(request.headers.get("Accept", "")):
            if media_type in ("*/*", "text/*", "text/plain"):
                name = self._kind.lower()
                return responses.text(f"\n{COMPONENT} {name}\n{WARNING}\n{self._text()}")
            version = parameters.get("v", "")
            wanted = (parameters.get("g"), parameters.get("as")) == (GROUP, self._kind)
            if wanted and version in ("v1alpha1", "v1beta1") and media_type in _ENCODINGS:
                return self._structured(request, media_type, version)
        return responses.status(request, 406, "NotAcceptable", ACCEPTED)

    def _structured(self, request: web.BaseRequest, media_type: str, version: str) -> web.Response:
        body: JSON = {
            "kind": self._kind,
            "apiVersion": f"{GROUP}/{version}",
            "metadata": {"name": COMPONENT},
            **self._fields(),
        }
        headers = {"Content-Type": f"{media_type};g={GROUP};v={version};as={self._kind}"}
        if version == "v1alpha1":
            headers["Warning"] = DEPRECATED.format(self._kind.lower())
        return web.Response(body=_ENCODINGS[media_type](request, body), headers=headers)


def _yaml(_: web.BaseRequest, body: JSON) -> bytes:
    return yaml.safe_dump(body).encode()


_ENCODINGS: Final[Mapping[str, Callable[[web.BaseRequest, JSON], bytes]]] = {
    "application/json": lambda request, body: responses.encoded(request, body),
    "application/yaml": _yaml,
}


def _accepted(header: str) -> Iterable[tuple[str, dict[str, str]]]:
    """The media types of an Accept header in order, with their parameters. An empty header means text."""
    for part in (header.strip() or "text/plain").split(","):
        media_type, *parameters = (item.strip() for item in part.split(";"))
        yield media_type.lower(), dict(item.split("=", 1) for item in parameters if "=" in item)


def statusz(started: float, paths: Iterable[str]) -> ZPage:
    """The version, the uptime and the paths."""
    served = sorted({f"/{path.split('/')[1]}" for path in paths if path.strip("/")} - {"/debug"})
    python = f"python{platform.python_version()}"
    moment = datetime.fromtimestamp(int(started), UTC)

    def text() -> str:
        seconds = int(time.time() - started)
        up = f"{seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec"
        return (
            f"\nStarted: {moment:%a %b} {moment.day:>2} {moment:%H:%M:%S} UTC {moment.year}\n"
            f"Up: {up}\n"
            f"Python version: {python}\n"
            f"Binary version: {KUBERNETES}\n"
            f"Emulation version: {KUBERNETES}\n"
            f"Paths: {' '.join(served)}\n"
        )

    def fields() -> JSON:
        return {
            "startTime": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": int(time.time() - started),
            "goVersion": python,
            "binaryVersion": KUBERNETES,
            "emulationVersion": KUBERNETES,
            "paths": served,
        }

    return ZPage("Statusz", text, fields)


def flagz(flags: Mapping[str, str]) -> ZPage:
    """All flags and their values."""
    shown = dict(sorted(flags.items()))
    return ZPage(
        "Flagz",
        lambda: "".join(f"{name}={value}\n" for name, value in shown.items()),
        lambda: {"flags": shown},
    )


def configz(config: JSON) -> Callable[[web.BaseRequest], web.Response]:
    """The configuration in use."""

    def answer(request: web.BaseRequest) -> web.Response:
        body = responses.encoded(request, {"componentconfig": config}, person=False).rstrip(b"\n")
        return web.Response(body=body, content_type="application/json", headers=dict(responses.NO_SNIFF))

    return answer
