"""The pages /flagz and /statusz that every Kubernetes component has, without the HTTP around them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import yaml

from kubesched.base.types import JSON

KUBERNETES: Final = "1.36"
GROUP: Final = "config.k8s.io"
WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
ACCEPTED: Final = "only the following media types are accepted: application/json, application/yaml, text/plain"
DEPRECATED: Final = '299 - "This version of the {} endpoint is deprecated. Please use a newer version."'


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page in the form that a client accepts."""

    content_type: str
    body: str | bytes | JSON
    """Text, YAML, or an object to encode as JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)


class ComponentPage:
    """A page that is plain text by default, and a JSON or YAML object if the Accept header asks for its exact kind."""

    def __init__(self, component: str, kind: str, text: Callable[[], str], fields: Callable[[], JSON]) -> None:
        self._component = component
        self._kind = kind
        self._text = text
        self._fields = fields

    def answer(self, accept: str) -> RenderedPage | None:
        """The page in the format that an Accept header asks for; None if there is no such format."""
        for media_type, parameters in _accepted(accept):
            if media_type in ("*/*", "text/*", "text/plain"):
                return RenderedPage(
                    "text/plain", f"\n{self._component} {self._kind.lower()}\n{WARNING}\n{self._text()}"
                )
            version = parameters.get("v", "")
            wanted = (parameters.get("g"), parameters.get("as")) == (GROUP, self._kind)
            if wanted and version in ("v1alpha1", "v1beta1") and media_type in ("application/json", "application/yaml"):
                return self._structured(media_type, version)
        return None

    def _structured(self, media_type: str, version: str) -> RenderedPage:
        body: JSON = {
            "kind": self._kind,
            "apiVersion": f"{GROUP}/{version}",
            "metadata": {"name": self._component},
            **self._fields(),
        }
        return RenderedPage(
            f"{media_type};g={GROUP};v={version};as={self._kind}",
            yaml.safe_dump(body).encode() if media_type == "application/yaml" else body,
            {"Warning": DEPRECATED.format(self._kind.lower())} if version == "v1alpha1" else {},
        )


def _accepted(header: str) -> Iterable[tuple[str, dict[str, str]]]:
    """The media types of an Accept header in order, with their parameters. An empty header means text."""
    for part in (header.strip() or "text/plain").split(","):
        media_type, *parameters = (item.strip() for item in part.split(";"))
        yield media_type.lower(), dict(item.split("=", 1) for item in parameters if "=" in item)


def statusz(component: str, started: float, paths: Iterable[str]) -> ComponentPage:
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

    return ComponentPage(component, "Statusz", text, fields)


def flagz(component: str, flags: Mapping[str, str]) -> ComponentPage:
    """All flags and their values."""
    shown = dict(sorted(flags.items()))
    return ComponentPage(
        component,
        "Flagz",
        lambda: "".join(f"{name}={value}\n" for name, value in shown.items()),
        lambda: {"flags": shown},
    )
