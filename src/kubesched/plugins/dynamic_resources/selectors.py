"""CEL selectors of device classes and requests. CEL is loaded when it is needed: most clusters have no devices."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources.kinds import DeviceKind

if TYPE_CHECKING:
    from kubesched.plugins.dynamic_resources.expressions import DeviceExpressions


class ExpressionError(Exception):
    """An expression that does not compile, or that fails for a device; the text is upstream's."""


class Selectors:
    """Evaluates expressions."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._expressions: DeviceExpressions | None = None

    def matches(self, expression: str, kind: DeviceKind) -> bool:
        """Whether an expression is true for a kind of device."""
        if self._expressions is None:
            # Not at the top: it imports CEL, a fifth of the time that the daemon takes to start.
            from kubesched.plugins.dynamic_resources.expressions import DeviceExpressions

            self._expressions = DeviceExpressions(self._features)
        return self._expressions.matches(expression, kind)


def prepare_in_background() -> None:
    """Load CEL and build its parser in a thread, so that the first expression does not block the event loop.

    A process that ends meanwhile waits for the thread: CEL has parts in C++, which abort if Python abandons them.
    """
    Thread(target=_prepare, name="CEL grammar").start()


def _prepare() -> None:
    from kubesched.cel.parser import prepare  # not at the top, for the same reason

    prepare()
