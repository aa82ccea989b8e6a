"""What a pod's claims get on every node: the search's answer for each state that nodes are in.

Pods whose claims have equal specs share a plan, and a state is searched once per plan. For the next pod of a kind,
usually one node is in a state that is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints
from kubesched.plugins.dynamic_resources.inventory import Inventory
from kubesched.plugins.dynamic_resources.requests import AllocationError, CompiledClaim, compile_claims
from kubesched.plugins.dynamic_resources.search import Search, Solution
from kubesched.plugins.dynamic_resources.selectors import Selectors
from kubesched.plugins.dynamic_resources.states import NodeState

UNKNOWN, FITS, IMPOSSIBLE, INVALID_POOL = -1, 0, 1, 2
FIRST_ERROR = 3
"""Codes from here on are errors, numbered in `Plan.errors`."""
MOST_PLANS = 256
Timer = Callable[[int], Callable[[], None] | None]


class FilterTimeout(Exception):  # noqa: N818  # upstream's name for the limit
    """The search in one state takes too long."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class AllocationPlan:
    """Some claims, and what becomes of them in each state."""

    def __init__(self, claims: tuple[CompiledClaim, ...], selectors: Selectors, features: Features) -> None:
        self.claims = claims
        self._selectors = selectors
        self._features = features
        self._codes: Ints = np.zeros(0, dtype=np.int64)
        self._scores: Ints = np.zeros(0, dtype=np.int64)
        self._solutions: dict[int, Solution] = {}
        self.errors: list[AllocationError] = []

    def codes(self, numbers: Ints, states: Sequence[NodeState], timer: Timer) -> Ints:
        """A code per state number. `timer` makes a check for a search, which raises when it has taken too long."""
        if len(self._codes) < len(states):
            more = len(states) + 64 - len(self._codes)
            self._codes = np.concatenate((self._codes, np.full(more, UNKNOWN, dtype=np.int64)))
            self._scores = np.concatenate((self._scores, np.zeros(more, dtype=np.int64)))
        codes = self._codes[numbers]
        if (codes == UNKNOWN).any():
            for number in np.unique(numbers[codes == UNKNOWN]).tolist():
                self._codes[number] = self._search(number, states[number], timer(number))
            codes = self._codes[numbers]
        return codes

    def _search(self, number: int, state: NodeState, check: Callable[[], None] | None) -> int:
        try:
            solution = Search(state, self.claims, self._selectors, self._features, check).run()
        except AllocationError as problem:
            self.errors.append(problem)
            return FIRST_ERROR + len(self.errors) - 1
        if solution is None:
            return INVALID_POOL if any(pool.invalid for pool in state.pools) else IMPOSSIBLE
        self._solutions[number] = solution
        self._scores[number] = sum(solution.score(self.claims))
        return FITS

    def solution(self, number: int) -> Solution:
        """The devices in a state that fits."""
        return self._solutions[number]

    def scores(self, numbers: Ints) -> Ints:
        """How good the chosen alternatives are, per state number; 0 where nothing fits."""
        return self._scores[numbers]


class Plans:
    """Plans by the specs of claims."""

    def __init__(self, cluster: ClusterState, inventory: Inventory, features: Features) -> None:
        self._cluster = cluster
        self._inventory = inventory
        self._features = features
        self._selectors = Selectors(features)
        self._encode = msgspec.json.Encoder(order="deterministic").encode
        self._plans: OrderedDict[bytes, AllocationPlan | AllocationError] = OrderedDict()
        self._valid_for = (-1, -1)

    def plan_for(self, claims: Sequence[dra.ResourceClaim]) -> AllocationPlan | AllocationError:
        """The plan for these claims, or what is wrong with one of them."""
        valid_for = (self._cluster.version(api.DeviceClass), self._inventory.epoch)
        if valid_for != self._valid_for:
            self._plans.clear()
            self._valid_for = valid_for
        key = self._encode([claim.spec for claim in claims])
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
            return plan
        try:
            compiled = compile_claims(claims, self._find_class, self._features)
            plan = AllocationPlan(compiled, self._selectors, self._features)
        except AllocationError as problem:
            plan = problem
        self._plans[key] = plan
        if len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        return plan

    def _find_class(self, name: str) -> dra.DeviceClass | None:
        return self._cluster.get(api.DeviceClass, name)
