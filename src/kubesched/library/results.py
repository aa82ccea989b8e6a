"""Where many pods go: the answer to what-if questions about a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, overload

from kubesched.api import objects as api
from kubesched.library.tables import Row, as_frame, as_html


class Fate(Enum):
    """What happens to a pod."""

    PLACED = "placed"
    PENDING = "pending"
    """No node has room for it."""
    STAYS = "stays"
    """A drain leaves it where it is: it belongs to a DaemonSet or to the kubelet itself."""
    REFUSED = "refused"
    """A disruption budget does not allow its eviction."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One pod, its node, and why it has none."""

    pod: api.Pod
    fate: Fate
    node: str = ""
    message: str = ""
    origin: str = ""
    """The node from which it was moved; empty if it had none."""

    def moved_from(self, origin: str) -> Placement:
        """The same placement of a pod that was on another node before."""
        return Placement(self.pod, self.fate, self.node, self.message, origin)

    def to_dict(self) -> dict[str, str]:
        """The placement as a dict that can be written as JSON."""
        body = {"pod": self.pod.key, "fate": self.fate.value, "node": self.node, "message": self.message}
        return {**body, "origin": self.origin} if self.origin else body


class Placements(Sequence[Placement]):
    """Pods and their nodes, in the order in which they were scheduled."""

    def __init__(self, placements: Iterable[Placement]) -> None:
        self._placements = tuple(placements)

    @overload
    def __getitem__(self, index: int) -> Placement: ...
    @overload
    def __getitem__(self, index: slice) -> Placements: ...
    def __getitem__(self, index: int | slice) -> Placement | Placements:
        found = self._placements[index]
        return found if isinstance(found, Placement) else Placements(found)

    def __len__(self) -> int:
        return len(self._placements)

    def __iter__(self) -> Iterator[Placement]:
        return iter(self._placements)

    @property
    def ok(self) -> bool:
        """Whether every pod has a node and no eviction was refused."""
        return not self.pending and not any(each.fate is Fate.REFUSED for each in self)

    @property
    def pending(self) -> list[Placement]:
        """The pods without a node."""
        return [each for each in self if each.fate is Fate.PENDING]

    @property
    def pods_per_node(self) -> dict[str, int]:
        """How many of these pods each node got."""
        return dict(Counter(each.node for each in self if each.fate is Fate.PLACED))

    def to_dict(self) -> list[dict[str, str]]:
        """A list of dicts that can be written as JSON."""
        return [each.to_dict() for each in self]

    def to_frame(self) -> Any:
        """A data frame with a row per pod."""
        return as_frame(self.to_dict())

    def _repr_html_(self) -> str:
        return as_html(self._summary(), self.to_dict())

    def _summary(self) -> str:
        counts = Counter(each.fate.value for each in self)
        return ", ".join(f"{number} {fate}" for fate, number in sorted(counts.items())) or "no pods"

    def __str__(self) -> str:
        rows = [f"{each.pod.key}: {each.node or each.fate.value} {each.message}".rstrip() for each in self]
        return "\n".join([self._summary(), *rows])

    def __repr__(self) -> str:
        return f"<Placements: {self._summary()}>"


class Comparison:
    """The same pods under two configurations."""

    def __init__(self, a: Placements, b: Placements) -> None:
        self.a = a
        """Where the pods go with the first configuration."""
        self.b = b
        """Where they go with the second."""

    @property
    def changed(self) -> list[tuple[Placement, Placement]]:
        """The pods that go elsewhere, with both placements."""
        return [(a, b) for a, b in zip(self.a, self.b, strict=True) if a.node != b.node]

    def to_dict(self) -> list[dict[str, Any]]:
        """A list of dicts, one per pod, that can be written as JSON."""
        return [dict(row) for row in self._rows()]

    def to_frame(self) -> Any:
        """A data frame with a row per pod."""
        return as_frame(self._rows())

    def _rows(self) -> list[Row]:
        return [
            {
                "pod": a.pod.key,
                "a": a.node,
                "b": b.node,
                "changed": a.node != b.node,
                "message a": a.message,
                "message b": b.message,
            }
            for a, b in zip(self.a, self.b, strict=True)
        ]

    def _summary(self) -> str:
        pending = f"pending: {len(self.a.pending)} with a, {len(self.b.pending)} with b"
        return f"{len(self.changed)} of {len(self.a)} pods go elsewhere; {pending}"

    def _repr_html_(self) -> str:
        return as_html(self._summary(), self._rows())

    def __str__(self) -> str:
        rows = [f"{a.pod.key}: {a.node or 'pending'} with a, {b.node or 'pending'} with b" for a, b in self.changed]
        return "\n".join([self._summary(), *rows])

    def __repr__(self) -> str:
        return f"<Comparison: {self._summary()}>"
