"""What a story's author knows while making it up, and the form of an action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, NamedTuple

Params = dict[str, Any]


@dataclass(slots=True)
class Plan:
    """The world of a story, and the names used so far."""

    nodes: int
    replicas: int
    extender: bool
    async_calls: bool
    async_preemption: bool
    batching: bool
    gangs: bool
    liar: bool = False
    """Whether a plugin of the second profile lies about what it reads."""
    binds: bool = False
    """Whether the extender binds pods."""
    preempts: bool = False
    """Whether the extender is asked about preemptions."""
    node_names: list[str] = field(default_factory=list)
    workloads: list[tuple[str, str]] = field(default_factory=list)
    """Storage and name."""
    count: int = 0

    @classmethod
    def of(cls, random: Random) -> Plan:
        return cls(
            nodes=random.randint(2, 6),
            replicas=random.choice((1, 2, 2, 3)),
            extender=random.random() < 0.2,
            async_calls=random.random() < 0.3,
            async_preemption=random.random() < 0.8,
            batching=random.random() < 0.7,
            gangs=random.random() < 0.25,
            liar=random.random() < 0.15,
            binds=random.random() < 0.5,
            preempts=random.random() < 0.5,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What decides about the world, without the names."""
        return {key: value for key, value in asdict(self).items() if key not in ("node_names", "workloads", "count")}

    def name(self, kind: str) -> str:
        """A name that was not used before."""
        self.count += 1
        return f"{kind}-{self.count}"


class Act(NamedTuple):
    """An action: how its details are made up, and how it is done."""

    make: Callable[[Random, Plan], tuple[Params, str]]
    do: Callable[[Any, Params], None]
