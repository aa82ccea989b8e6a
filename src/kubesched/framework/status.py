"""What plugins return: upstream's status codes, with reasons for people."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """Outcomes of a plugin, numbered as upstream numbers them."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def upstream(self) -> str:
        """The name as kube-scheduler prints it."""
        return _UPSTREAM[self]


_UPSTREAM: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_SUCCESS: Final = Code.SUCCESS
_SKIP: Final = Code.SKIP
"""Members of an enumeration are slow to look up, and these are for every pod."""
_REJECTED: Final = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


class Status:
    """A code, its reasons, and the plugin that returned it. `None` means success everywhere."""

    __slots__ = ("code", "plugin", "reasons")

    def __init__(self, code: Code, *reasons: str, plugin: str = "") -> None:
        self.code = code
        self.reasons = reasons
        self.plugin = plugin

    @property
    def message(self) -> str:
        """All reasons in one line."""
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        return self.code is _SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is _SKIP

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected, as opposed to an error."""
        return self.code in _REJECTED

    def by(self, plugin: str) -> Status:
        """The same status, as that of `plugin`."""
        return self if self.plugin == plugin else Status(self.code, *self.reasons, plugin=plugin)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.reasons, self.plugin) == (other.code, other.reasons, other.plugin)

    def __hash__(self) -> int:
        return hash((self.code, self.reasons, self.plugin))

    def __repr__(self) -> str:
        return f"Status({self.code.upstream}, {self.message!r}, plugin={self.plugin!r})"


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """The pod cannot go there now; freeing something may help."""
    return Status(Code.UNSCHEDULABLE, *reasons)


def unresolvable(*reasons: str) -> Status:
    """The pod cannot go there, and removing other pods would not change that."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, *reasons)


def error(*reasons: str) -> Status:
    """Something went wrong; the attempt fails and is tried again."""
    return Status(Code.ERROR, *reasons)
