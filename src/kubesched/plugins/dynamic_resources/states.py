"""What the search for devices sees of a node: kinds of device and what is taken of them, without any names.

Nodes with the same kinds of device in the same order, and the same ones taken, are in the same state. A search is done
once per state, not once per node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from kubesched.plugins.dynamic_resources.capacity import Consumed
from kubesched.plugins.dynamic_resources.kinds import DeviceKind

CounterKey = tuple[str, str]
"""A counter set and a counter in it."""


@dataclass(slots=True, eq=False)
class PoolState:
    """A pool as one node sees it."""

    kinds: tuple[DeviceKind, ...] = ()
    """The kinds of its devices, in order."""
    visible: tuple[bool, ...] = ()
    """Whether the node can use each device."""
    used: int = 0
    """Devices that a claim has to itself, as bits."""
    shared: int = 0
    """Devices that claims share, as bits."""
    consumed: Mapping[int, Consumed] = field(default_factory=dict)
    """What claims have taken of devices that they share."""
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    """What is left of each counter; negative if more was given out than there is."""
    incomplete: bool = False
    invalid: bool = False
    _places: dict[int, list[DevicePosition]] = field(default_factory=dict)

    def places(self, number: int) -> list[DevicePosition]:
        """The devices, for a node whose pool of this number it is. Other states of the node have the same ones."""
        found = self._places.get(number)
        if found is None:
            usable = () if self.incomplete or self.invalid else enumerate(self.kinds)
            found = self._places[number] = [DevicePosition(number, index, kind, self) for index, kind in usable]
        return found


@dataclass(slots=True, eq=False)
class NodeState:
    """All pools that a node sees, in the order in which they are searched."""

    pools: tuple[PoolState, ...]
    counter_pools: tuple[int, ...]
    """For each pool, the first one of the same name: upstream counts counters by the pool's name alone."""

    def places(self) -> list[DevicePosition]:
        """All devices of pools that may be allocated from."""
        return [place for number, pool in enumerate(self.pools) for place in pool.places(number)]


class DevicePosition:
    """A device by its position."""

    __slots__ = ("consumed", "device", "kind", "pool", "shared", "used", "visible")

    def __init__(self, pool: int, device: int, kind: DeviceKind, state: PoolState) -> None:
        self.pool = pool
        self.device = device
        self.kind = kind
        self.visible = state.visible[device]
        self.used = bool(state.used >> device & 1)
        self.shared = bool(state.shared >> device & 1)
        self.consumed = state.consumed.get(device)


class States:
    """Numbers states, so that equal ones are found by comparing numbers."""

    def __init__(self) -> None:
        self.nodes: list[NodeState] = []
        self._pools: dict[Hashable, PoolState] = {}
        self._numbers: dict[tuple[object, ...], int] = {}

    def pool(self, key: Hashable, state: PoolState) -> PoolState:
        """The one pool state with this content."""
        return self._pools.setdefault(key, state)

    def node(self, pools: tuple[PoolState, ...], counter_pools: tuple[int, ...]) -> int:
        """The number of a node state."""
        key = (counter_pools, *map(id, pools))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.nodes)
            self.nodes.append(NodeState(pools, counter_pools))
        return number
