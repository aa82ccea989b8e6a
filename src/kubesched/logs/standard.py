"""Messages of Python's `logging`, redirected to our log.

asyncio, aiohttp and plugins use `logging`. By default they would write to the same stderr in another format, which
parsers of our log could not read.
"""

from __future__ import annotations

import logging
import traceback

from kubesched.logs.levels import ERROR, WARNING
from kubesched.logs.logger import Logger

INFO_LEVEL = 2
DEBUG_LEVEL = 6


class Bridge(logging.Handler):
    """A handler that writes every record to our log."""

    def __init__(self, log: Logger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level = _level(record.levelno)
            if level <= self._log.level:
                caller = "/".join(record.pathname.replace("\\", "/").rsplit("/", 2)[-2:])
                self._log.write(level, record.getMessage(), f"{caller}:{record.lineno}", _fields(record))
        except Exception:
            self.handleError(record)


def install(log: Logger) -> Bridge:
    """Send everything logged through `logging` to `log`, from the level that is enabled now."""
    bridge = Bridge(log)
    root = logging.getLogger()
    root.addHandler(bridge)
    root.setLevel(logging.INFO if log.level < DEBUG_LEVEL else logging.DEBUG)
    return bridge


def _level(number: int) -> int:
    if number >= logging.ERROR:
        return ERROR
    if number >= logging.WARNING:
        return WARNING
    return INFO_LEVEL if number >= logging.INFO else DEBUG_LEVEL


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = {"logger": record.name}
    if record.exc_info and record.exc_info[1] is not None:
        fields["err"] = record.exc_info[1]
        fields["traceback"] = "".join(traceback.format_exception(*record.exc_info))
    return fields
