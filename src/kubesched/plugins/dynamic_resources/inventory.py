"""Every node's devices, kept up to date: a number per node that says which state its devices are in.

Slices, nodes and claims change one at a time. Only what a change touches is looked at again: the pool, the nodes that
see it, and of those the state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints
from kubesched.plugins.dynamic_resources.kinds import DeviceKinds
from kubesched.plugins.dynamic_resources.ledger import Ledger, PoolId
from kubesched.plugins.dynamic_resources.pools import Pool, PoolError, PoolView, with_taints
from kubesched.plugins.dynamic_resources.states import PoolState, States

MOST_STATES = 20_000
"""States that are remembered, at least, before all are forgotten and counted anew."""


@dataclass(slots=True, eq=False)
class NodeView:
    """The pools that some nodes see, in the order in which they are searched."""

    number: int
    pools: tuple[PoolView, ...]
    counter_pools: tuple[int, ...]
    rows: set[int] = field(default_factory=set)


class Inventory:
    """The devices of all nodes."""

    def __init__(self, cluster: ClusterState, ledger: Ledger, features: Features) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._features = features
        self._kinds = DeviceKinds()
        self.states = States()
        self.epoch = 0
        """Moves when state numbers get a new meaning."""
        self._slices: dict[str, dra.ResourceSlice] = {}
        self._names: dict[PoolId, set[str]] = defaultdict(set)
        """The names of each pool's slices."""
        self._pools: dict[PoolId, Pool] = {}
        self._local: dict[str, set[PoolId]] = defaultdict(set)
        self._shared: set[PoolId] = set()
        self._seen_slices = self._seen_rules = self._seen_nodes = -1
        self._nodes: list[api.Node | None] = []
        self._seen_by: list[dict[PoolId, PoolView]] = []
        """What each row sees of each pool."""
        self.problems: dict[int, str] = {}
        """Rows whose pools cannot be determined, with the reason."""
        self._views: dict[tuple[int, ...], NodeView] = {}
        self._by_pool: dict[PoolId, set[NodeView]] = defaultdict(set)
        self._view_list: list[NodeView | None] = []
        self._free: list[int] = []
        self._view_of: Ints = np.zeros(0, dtype=np.int64)
        self._state_of: Ints = np.zeros(0, dtype=np.int64)
        self._stale: set[NodeView] = set()

    def state_numbers(self, rows: slice | Ints) -> Ints:
        """The state of the devices of each of these rows."""
        numbers: Ints = self._state_of[self._view_of[rows]]
        return numbers

    def view(self, row: int) -> NodeView:
        """The pools that a node sees."""
        view = self._view_list[int(self._view_of[row])]
        assert view is not None  # rows point at views that exist
        return view

    def sync(self) -> None:
        """Take in what happened since the last time."""
        pools = self._changed_pools()
        self._sync_nodes(pools)
        self._ledger.sync()
        self._sync_states()

    # Slices

    def _changed_pools(self) -> set[PoolId]:
        """Bring pools up to date with slices and taint rules; returns those that changed."""
        cluster = self._cluster
        names = None if self._seen_slices < 0 else cluster.changed_since(api.ResourceSlice, self._seen_slices)
        if self._features.dra_device_taint_rules and self._seen_rules != cluster.version(api.DeviceTaintRule):
            self._seen_rules, names = cluster.version(api.DeviceTaintRule), None
        self._seen_slices = cluster.version(api.ResourceSlice)
        if names is None:
            names = [*self._slices, *(each.name for each in cluster.all(api.ResourceSlice))]
        changed = {pool for name in set(names) for pool in self._take_in(name)}
        for pool in changed:
            self._rebuild(pool)
        return changed

    def _take_in(self, name: str) -> Iterable[PoolId]:
        """Store a slice's newest version; returns the pools that it was and is in."""
        old, new = self._slices.pop(name, None), self._cluster.get(api.ResourceSlice, name)
        if old is not None:
            self._names[_pool_of(old)].discard(name)
            yield _pool_of(old)
        if new is not None:
            rules = self._cluster.all(api.DeviceTaintRule) if self._features.dra_device_taint_rules else ()
            self._slices[name] = with_taints(new, rules)
            self._names[_pool_of(new)].add(name)
            yield _pool_of(new)

    def _rebuild(self, identity: PoolId) -> None:
        old = self._pools.pop(identity, None)
        if old is not None:
            self._shared.discard(identity)
            for node in old.nodes:
                self._local[node].discard(identity)
        names = self._names[identity]
        if not names:
            del self._names[identity]
            return
        pool = self._pools[identity] = Pool(
            identity, [self._slices[name] for name in names], self._kinds, self._features
        )
        if not _is_local(pool):
            self._shared.add(identity)
        for node in pool.nodes:
            self._local[node].add(identity)

    # Nodes

    def _sync_nodes(self, pools: set[PoolId]) -> None:
        table = self._cluster.nodes
        if len(self._nodes) < table.size:
            missing = table.size - len(self._nodes)
            self._nodes += [None] * missing
            self._seen_by += [{} for _ in range(missing)]
            fresh = np.full(missing, self._view_for({}).number, dtype=np.int64)
            self._view_of = np.concatenate((self._view_of, fresh))
        rows = self._rows_seeing(pools)
        if self._seen_nodes != table.node_version:
            self._seen_nodes = table.node_version
            for row in range(table.size):
                if _differs(self._nodes[row], table.nodes[row]):
                    self._look(row, None)
                    rows.discard(row)
        for row in rows:
            self._look(row, pools)

    def _rows_seeing(self, pools: set[PoolId]) -> set[int]:
        """Rows that see one of these pools, or saw it before."""
        row_of, rows = self._cluster.nodes.row_of, set()
        for identity in pools:
            for view in self._by_pool.get(identity, ()):
                rows |= view.rows
            if identity in self._shared:
                return {row for row, node in enumerate(self._nodes) if node is not None} | rows
            pool = self._pools.get(identity)
            rows |= {row_of[name] for name in (pool.nodes if pool is not None else ()) if name in row_of}
        return rows | set(self.problems)

    def _look(self, row: int, pools: set[PoolId] | None) -> None:
        """See what a node sees of some pools, or of all."""
        node = self._nodes[row] = self._cluster.nodes.nodes[row]
        candidates = set() if node is None else self._local.get(node.name, set()) | self._shared
        problem_before = self.problems.pop(row, None)
        if pools is None or problem_before is not None:
            self._seen_by[row], pools = {}, candidates
        seen = self._seen_by[row]
        try:
            for identity in pools:
                view = self._pools[identity].view_for(node) if node is not None and identity in candidates else None
                if view is None:
                    seen.pop(identity, None)
                else:
                    seen[identity] = view
        except PoolError as problem:
            self.problems[row] = str(problem)
            seen.clear()
        self._point(row, self._view_for(seen))

    def _point(self, row: int, view: NodeView) -> None:
        old = self._view_list[int(self._view_of[row])]
        if old is view:
            view.rows.add(row)
            return
        view.rows.add(row)
        self._view_of[row] = view.number
        if old is not None:
            old.rows.discard(row)
            if not old.rows and old.pools:
                self._drop(old)

    def _view_for(self, seen: dict[PoolId, PoolView]) -> NodeView:
        pools = tuple(sorted(seen.values(), key=lambda view: view.order))
        key = tuple(map(id, pools))
        view = self._views.get(key)
        if view is None:
            number = self._free.pop() if self._free else len(self._view_list)
            view = self._views[key] = NodeView(number, pools, _counter_pools(pools))
            if number == len(self._view_list):
                self._view_list.append(view)
                self._state_of = np.append(self._state_of, -1)
            self._view_list[number] = view
            for pool in pools:
                self._by_pool[pool.pool].add(view)
            self._stale.add(view)
        return view

    def _drop(self, view: NodeView) -> None:
        del self._views[tuple(map(id, view.pools))]
        self._view_list[view.number] = None
        self._free.append(view.number)
        self._stale.discard(view)
        for pool in view.pools:
            views = self._by_pool[pool.pool]
            views.discard(view)
            if not views:
                del self._by_pool[pool.pool]

    # States

    def _sync_states(self) -> None:
        changed, self._ledger.changed = self._ledger.changed, set()
        for identity in changed:
            for view in self._by_pool.get(identity, ()):
                self._stale.add(view)
                for pool in view.pools:
                    if pool.pool == identity:
                        pool.current = None
        if len(self.states.nodes) > max(MOST_STATES, 4 * len(self._views)):
            self._forget_states()
        for view in self._stale:
            pools = tuple(self._pool_state(pool) for pool in view.pools)
            self._state_of[view.number] = self.states.node(pools, view.counter_pools)
        self._stale.clear()

    def _pool_state(self, view: PoolView) -> PoolState:
        if view.current is None:
            view.current = view.state(self._ledger.usage(view.pool), self.states)
        return view.current

    def _forget_states(self) -> None:
        self.states = States()
        self.epoch += 1
        self._stale.update(self._views.values())
        for view in self._stale:
            for pool in view.pools:
                pool.current = None


def _pool_of(each: dra.ResourceSlice) -> PoolId:
    return each.spec.driver, each.spec.pool.name


def _is_local(pool: Pool) -> bool:
    try:
        return pool.is_local
    except PoolError:
        return False


def _differs(old: api.Node | None, new: api.Node | None) -> bool:
    """Whether devices may be for another node than before."""
    if old is None or new is None:
        return old is not new
    return old is not new and (old.name != new.name or old.labels != new.labels)


def _counter_pools(pools: tuple[PoolView, ...]) -> tuple[int, ...]:
    first: dict[str, int] = {}
    return tuple(
        first.setdefault(view.pool[1], number) if view.counters else number for number, view in enumerate(pools)
    )
