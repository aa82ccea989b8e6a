"""How the annotations of a pod make its simulated containers behave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kubesched.base import annotations as names
from kubesched.config.duration import Duration
from kubesched.config.errors import suggest
from kubesched.reconcile.usage import read_usage

_DURATIONS = {
    names.RUN_TIME: "run_time",
    names.INIT_RUN_TIME: "init_run_time",
    names.STARTUP_FAILS: "startup_fails",
    names.READINESS_FAILS: "readiness_fails",
    names.LIVENESS_FAILS: "liveness_fails",
    names.STOP_TIME: "stop_time",
}
_FLAGS = {names.NOT_READY: "not_ready", names.IMAGE_PULL_FAILS: "image_pull_fails"}
PREFIX = "kubesched.io/"
_LEFT_OUT = "kubesched.io/results-left-out"
"""Written by ``--annotate-results``."""
_KNOWN = (*_DURATIONS, *_FLAGS, names.EXIT_CODE, names.CPU_USAGE, names.MEMORY_USAGE)


@dataclass(frozen=True, slots=True)
class Behavior:
    """The values of a pod's annotations; None if not given. Times are seconds."""

    run_time: float | None = None
    init_run_time: float | None = None
    exit_code: int | None = None
    startup_fails: float | None = None
    """Seconds after the start of a container from which the probe fails."""
    readiness_fails: float | None = None
    liveness_fails: float | None = None
    stop_time: float | None = None
    not_ready: bool = False
    image_pull_fails: bool = False
    problems: tuple[str, ...] = ()
    """What is wrong with the annotations, for events. Wrong annotations have no effect."""


DEFAULT = Behavior()


def behavior_of(annotations: Mapping[str, str]) -> Behavior:
    """Read the annotations of a pod."""
    given = tuple(item for item in annotations.items() if item[0].startswith(PREFIX))
    return _behavior(given) if given else DEFAULT


@lru_cache(maxsize=1024)
def _behavior(given: tuple[tuple[str, str], ...]) -> Behavior:
    values: dict[str, float | int | bool] = {}
    problems: list[str] = []
    for name, text in given:
        try:
            _read(name, text.strip(), values)
        except ValueError as error:
            problems.append(f"annotation {name}: {error}")
    return Behavior(**values, problems=tuple(problems))  # type: ignore[arg-type]  # each field gets a value of its type


def _read(name: str, text: str, values: dict[str, float | int | bool]) -> None:
    if name in _DURATIONS:
        values[_DURATIONS[name]] = _seconds(text)
    elif name in _FLAGS:
        if text not in ("true", "false"):
            raise ValueError(f'expected true or false, got "{text}"')
        values[_FLAGS[name]] = text == "true"
    elif name == names.EXIT_CODE:
        if not text.isascii() or not text.isdecimal() or int(text) > 255:
            raise ValueError(f'expected a number from 0 to 255, got "{text}"')
        values["exit_code"] = int(text)
    elif name in (names.CPU_USAGE, names.MEMORY_USAGE):
        read_usage(text)  # `reconcile.usage` reads the value; here only a problem counts
    elif name != _LEFT_OUT:
        hint = suggest(name, _KNOWN)
        raise ValueError(f"pods have no such annotation{f'; {hint}' if hint else ''}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text) if text.replace(".", "", 1).isdecimal() else Duration.parse(text).seconds
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f'expected a duration such as 90s or 1h30m, got "{text}"')
    return seconds
