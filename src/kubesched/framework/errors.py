"""What goes wrong in plugins, as errors that name the plugin, the extension point and the line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubesched.base.log import text_of
from kubesched.framework.answers import AnswerError
from kubesched.framework.places import place_of_error
from kubesched.framework.plugin import Plugin


class PluginError(Exception):
    """A plugin failed: it raised, returned an error, or broke the contract."""

    def __init__(self, plugin: str, point: str, message: str, place: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.point = point
        self.place = place
        """File and line, for the plugin's author; the message is for the owner of the pod."""


class PluginStartError(ValueError):
    """A plugin that cannot be created, or cannot tell which events its pods wait for: the scheduler does not start."""


@contextmanager
def start_of(plugin: type[Plugin], method: str) -> Iterator[None]:
    """Call a plugin before the first pod comes. What it raises becomes an error for its author."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        said = str(problem) if isinstance(problem, AnswerError) else f"{method} raised {described(problem)}"
        where = place_of_error(problem, getattr(plugin, "written_as", plugin))
        place = "" if isinstance(problem, AnswerError) else f" ({where})"
        raise PluginStartError(f'plugin "{plugin.name}": {said}{place}') from problem


def plugin_error(plugin: Any, point: str, problem: BaseException) -> PluginError:
    """An exception of a plugin, or a wrong return value, as the failure of that plugin."""
    return PluginError(
        plugin.name, point, f'running {point} plugin "{plugin.name}": {described(problem)}', place_in(plugin, problem)
    )


def described(problem: BaseException) -> str:
    """What went wrong, for a message. An `AnswerError` describes itself."""
    return str(problem) if isinstance(problem, AnswerError) else f"{type(problem).__name__}: {text_of(problem)}"


def place_in(plugin: Any, problem: BaseException) -> str:
    """The line of the plugin's own file that failed; the start of the plugin if there is no such line."""
    return problem.place if isinstance(problem, AnswerError) else place_of_error(problem, source_of(plugin))


def source_of(plugin: Any) -> object:
    """What a plugin was written as: its class, or the function that it was made from."""
    kind = type(getattr(plugin, "plugin", plugin))
    return getattr(kind, "written_as", kind)
