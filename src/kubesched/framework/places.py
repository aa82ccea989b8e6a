"""Where a plugin is written, for errors that its author can follow."""

from __future__ import annotations

import inspect
import os
from collections.abc import Hashable
from functools import lru_cache
from types import TracebackType


def place_of(thing: object) -> str:
    """File and line of a class or function, as editors and terminals open them; its dotted name if there is none."""
    thing = getattr(thing, "function", thing)
    file, line = _source(thing) if isinstance(thing, Hashable) else (None, 0)
    if not file:
        return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', thing)}"
    return f"{short_path(file)}:{line}"


@lru_cache(maxsize=128)  # a search for mistakes asks a thousand times, and for a class inspect parses the whole file
def _source(thing: object) -> tuple[str | None, int]:
    try:
        written = inspect.unwrap(thing)  # type: ignore[arg-type]  # what has no source raises TypeError
        code = getattr(written, "__code__", None)
        line = inspect.findsource(written)[1] + 1 if code is None else code.co_firstlineno
        return inspect.getsourcefile(written), line
    except (OSError, TypeError, SyntaxError):  # the last if the file was changed since, and cannot be parsed now
        return None, 0


def place_of_error(error: BaseException, thing: object) -> str:
    """The deepest line in the plugin's own file that an exception came through; where the plugin is if there is none.

    What a library deeper down complains of is usually the fault of the line that called it.
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
    """A path as somebody in this folder would type it."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path.startswith(here + os.sep) else path
