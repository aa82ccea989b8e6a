"""File and line of a plugin, for error messages."""

from __future__ import annotations

import inspect
import os
from collections.abc import Hashable
from functools import lru_cache
from types import TracebackType


def place_of(thing: object) -> str:
    """File and line of a class or function, in the form that editors open; the dotted name if there is no file."""
    thing = getattr(thing, "function", thing)
    file, line = _source(thing) if isinstance(thing, Hashable) else (None, 0)
    if not file:
        return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', thing)}"
    return f"{short_path(file)}:{line}"


@lru_cache(maxsize=128)  # check_plugin asks a thousand times, and for a class inspect parses the whole file
def _source(thing: object) -> tuple[str | None, int]:
    try:
        written = inspect.unwrap(thing)  # type: ignore[arg-type]  # what has no source raises TypeError
        code = getattr(written, "__code__", None)
        line = inspect.findsource(written)[1] + 1 if code is None else code.co_firstlineno
        return inspect.getsourcefile(written), line
    except (OSError, TypeError, SyntaxError):  # if the file was changed since and cannot be parsed now
        return None, 0


def place_of_error(error: BaseException, thing: object) -> str:
    """The deepest line of the plugin's own file in a traceback; the start of the plugin if there is none.

    An error raised deep in a library is usually caused by the line that called it.
    """
    try:
        file = inspect.getsourcefile(getattr(thing, "function", thing))  # type: ignore[arg-type]  # TypeError is caught
    except TypeError:
        file = None
    found = ""
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file:
            found = f"{short_path(file)}:{frame.tb_lineno}"
        frame = frame.tb_next
    return found or place_of(thing)


def short_path(path: str) -> str:
    """A path relative to the current folder where that is shorter."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path.startswith(here + os.sep) else path
