"""What code may ask of a log. `kubesched.logs` renders messages in klog's formats."""

from __future__ import annotations

from typing import Final, Protocol

ERROR: Final = -1
"""The level of a message that is always logged: something went wrong."""


class Log(Protocol):
    """Takes a structured message: a level (klog's verbosity, or `ERROR`), upstream's message, upstream's keys.

    Values are objects, not text: a pod, a node name, an exception under `err`. One key is not a field of upstream's:
    `logger` names klog's logger ("Bind.DefaultBinder"). File and line of upstream's source (``schedule_one.go:96``)
    follow from the message; the renderer looks them up.
    """

    @property
    def verbosity(self) -> int:
        """Messages above this level need not be composed. May change at run time."""
        ...

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        """Log a message."""
        ...


class SilentLog:
    """Logs nothing."""

    verbosity = -2

    def __call__(self, level: int, message: str, /, **fields: object) -> None: ...


SILENT: Final[Log] = SilentLog()
