"""The interface to a log. `kubesched.logs` renders messages in klog's formats."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol

ERROR: Final = -1
"""The level of an error, which is always logged."""


POD_GROUP: Final[ContextVar[str]] = ContextVar("pod_group", default="")
"""The pod group whose cycle is running. Every message of the cycle, and of the bindings that it starts, has it."""


LONGEST: Final = 10_000
"""Characters of an exception's or a value's own text."""


def text_of(value: object, render: Callable[[object], str] = str) -> str:
    """The text of an object, perhaps a plugin's. Its own methods make it: they may raise anything, or say too much."""
    try:
        text = render(value)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return f"<{render.__name__}() raised {type(problem).__name__}>"
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return shown if shown.isascii() else shown.encode("utf-8", "replace").decode()


class Log(Protocol):
    """Takes structured messages: a level (klog's verbosity, or `ERROR`), upstream's message, upstream's keys.

    Values are objects, not text: a pod, a node name, an exception under `err`. The key `logger` is not a field: it is
    the name of klog's logger ("Bind.DefaultBinder"). The renderer looks up upstream's file and line
    (``schedule_one.go:96``) by the message.
    """

    @property
    def verbosity(self) -> int:
        """Messages above this level are dropped, so they need not be composed. It may change at run time."""
        ...

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        """Log a message."""
        ...


class SilentLog:
    """Logs nothing."""

    verbosity = -2

    def __call__(self, level: int, message: str, /, **fields: object) -> None: ...


SILENT: Final[Log] = SilentLog()
