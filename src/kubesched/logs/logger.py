"""The log: a callable that is passed to everything else in the scheduler.

A message above the verbosity costs one comparison. Code that would have to compose a message checks `verbosity` (or
`enabled`) first.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping

from kubesched.base.log import POD_GROUP
from kubesched.logs.callers import WITHOUT_CONTEXT, upstream_caller
from kubesched.logs.formats import Format
from kubesched.logs.levels import ERROR as ERROR
from kubesched.logs.levels import VModule
from kubesched.logs.output import Output


class Logger:
    """Writes structured messages. Its verbosity may be changed at any time."""

    __slots__ = ("_errors", "_format", "_info", "_level", "_now", "_vmodule", "verbosity")

    def __init__(
        self,
        line: Format,
        info: Output,
        errors: Output | None = None,
        *,
        verbosity: int = 0,
        vmodule: VModule | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._format = line
        self._info = info
        self._errors = errors or info
        self._vmodule = vmodule or VModule()
        self._now = now
        self.verbosity: int
        """Messages above this level are never written."""
        self.set_verbosity(verbosity)

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        """Log a message: `ERROR` or a verbosity, upstream's text if it has one for this, and fields."""
        if level > self.verbosity:
            return
        caller = upstream_caller(message, fields)
        if caller is None or self._vmodule:
            own = _own_caller()
            if level > self._level and level > max(map(self._vmodule.level_of, (caller or own, own))):
                return
            caller = caller or own
        if (group := POD_GROUP.get()) and "podGroup" not in fields and not caller.startswith(WITHOUT_CONTEXT):
            fields = {"podGroup": group, **fields}
        self.write(level, message, caller, fields)

    def write(self, level: int, message: str, caller: str, fields: Mapping[str, object]) -> None:
        """Log a message on behalf of `caller`, regardless of verbosity."""
        output = self._errors if level < 0 else self._info
        output.write(self._format(self._now(), level, caller, message, fields))

    def enabled(self, level: int) -> bool:
        """Whether a message of this level may be written."""
        return level <= self.verbosity

    @property
    def level(self) -> int:
        """The verbosity that was set; single files may have a higher one."""
        return self._level

    def set_verbosity(self, level: int) -> None:
        """Change the verbosity."""
        self._level = level
        self.verbosity = max(level, self._vmodule.highest) if self._vmodule else level

    def flush(self) -> None:
        """Write buffered lines."""
        self._info.flush()
        self._errors.flush()

    async def flush_every(self, seconds: float) -> None:
        """Flush periodically, until cancelled."""
        try:
            while True:
                await asyncio.sleep(seconds)
                self.flush()
        finally:
            self.flush()


_FILES: dict[str, str] = {}
"""Folder and file of a path, cached."""


def _own_caller() -> str:
    """Folder, file and line of the caller."""
    frame = sys._getframe(2)
    path = frame.f_code.co_filename
    file = _FILES.get(path)
    if file is None:
        file = _FILES[path] = "/".join(path.replace("\\", "/").rsplit("/", 2)[-2:])
    return f"{file}:{frame.f_lineno}"
