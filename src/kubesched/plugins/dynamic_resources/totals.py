"""How many devices of a class a node has, and how many of them are allocated: for scoring extended resources."""

from __future__ import annotations

import numpy as np

from kubesched.api import devices as dra
from kubesched.cluster.table import Ints
from kubesched.plugins.dynamic_resources.inventory import Inventory
from kubesched.plugins.dynamic_resources.kinds import DeviceKind
from kubesched.plugins.dynamic_resources.selectors import ExpressionError, Selectors
from kubesched.plugins.dynamic_resources.states import NodeState


class Totals:
    """The devices of one class, counted once per state that nodes are in."""

    def __init__(self, device_class: dra.DeviceClass, inventory: Inventory, selectors: Selectors) -> None:
        self._class = device_class
        self._inventory = inventory
        self._selectors = selectors
        self._matches: dict[DeviceKind, bool] = {}
        self._counts: dict[int, tuple[int, int]] = {}

    def of(self, rows: slice | Ints) -> tuple[Ints, Ints]:
        """Per row, the devices that there are and those that claims have."""
        distinct, positions = np.unique(self._inventory.state_numbers(rows), return_inverse=True)
        counts = np.array([self._count(number) for number in distinct.tolist()], dtype=np.int64).reshape(-1, 2)
        return counts[positions, 0], counts[positions, 1]

    def _count(self, number: int) -> tuple[int, int]:
        found = self._counts.get(number)
        if found is None:
            found = self._counts[number] = self._counted(self._inventory.states.nodes[number])
        return found

    def _counted(self, state: NodeState) -> tuple[int, int]:
        total = allocated = 0
        try:
            for place in state.places():
                if place.visible and self._is_of_class(place.kind):
                    total += 1
                    allocated += place.used or place.shared
        except ExpressionError:
            return 0, 0  # as upstream: a class that fails for a device scores nothing on that node
        return total, allocated

    def _is_of_class(self, kind: DeviceKind) -> bool:
        answer = self._matches.get(kind)
        if answer is None:
            expressions = (each.cel.expression for each in self._class.spec.selectors if each.cel is not None)
            answer = all(self._selectors.matches(expression, kind) for expression in expressions)
            self._matches[kind] = answer
        return answer
