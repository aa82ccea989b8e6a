"""Pools: the slices of one driver under one name, and what a node sees of them.

A driver replaces a pool's slices one by one. Slices of an older generation are out of date; a pool whose newest
generation is not complete yet is not allocated from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api import selectors
from kubesched.api.quantity import nanos
from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources.kinds import DeviceKind, DeviceKinds
from kubesched.plugins.dynamic_resources.ledger import PoolId, PoolUsage
from kubesched.plugins.dynamic_resources.states import CounterKey, PoolState, States


class PoolError(Exception):
    """A slice that cannot be matched with nodes; the text is upstream's."""


@dataclass(slots=True, eq=False)
class PoolView:
    """A pool as some nodes see it: the slices that are for them."""

    pool: PoolId
    devices: tuple[tuple[dra.ResourceSlice, dra.Device], ...] = ()
    kinds: tuple[DeviceKind, ...] = ()
    visible: tuple[bool, ...] = ()
    others: tuple[tuple[str, DeviceKind], ...] = ()
    """Devices for other nodes only, which consume the same counters."""
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""
    has_binding_conditions: bool = False
    current: PoolState | None = None
    """Its state, until something of the pool is taken or given back."""

    @property
    def matters(self) -> bool:
        """Whether there is anything to see: devices, or a pool that cannot be allocated from."""
        return bool(self.devices) or self.incomplete or bool(self.invalid)

    @property
    def order(self) -> tuple[bool, str, str]:
        """Pools are searched in this order: those with binding conditions last, then by driver and name."""
        return (self.has_binding_conditions, *self.pool)

    def state(self, usage: PoolUsage, states: States) -> PoolState:
        """What the view amounts to while this much of the pool is taken."""
        used, shared, consumed = 0, 0, {}
        for index, (_, device) in enumerate(self.devices):
            if device.name in usage.dedicated:
                used |= 1 << index
            if device.name in usage.shares:
                shared |= 1 << index
            if device.name in usage.consumed:
                consumed[index] = usage.consumed[device.name]
        counters = self._available(usage) if self.counters else {}
        key = (
            tuple(kind.number for kind in self.kinds),
            self.visible,
            used,
            shared,
            tuple((index, tuple(sorted(amounts.items()))) for index, amounts in consumed.items()),
            tuple(counters.items()),
            self.incomplete,
            bool(self.invalid),
        )
        state = PoolState(
            kinds=self.kinds,
            visible=self.visible,
            used=used,
            shared=shared,
            consumed={index: dict(amounts) for index, amounts in consumed.items()},
            counters=counters,
            incomplete=self.incomplete,
            invalid=bool(self.invalid),
        )
        return states.pool(key, state)

    def _available(self, usage: PoolUsage) -> dict[CounterKey, int]:
        left = dict(self.counters)
        here = ((device.name, kind) for (_, device), kind in zip(self.devices, self.kinds, strict=True))
        for name, kind in (*here, *self.others):
            if usage.is_allocated(name):
                for key, amount in kind.counters:
                    left[key] -= amount
        return left


class Pool:
    """All slices of a pool, of every generation."""

    def __init__(
        self, identity: PoolId, slices: Iterable[dra.ResourceSlice], kinds: DeviceKinds, features: Features
    ) -> None:
        self.identity = identity
        self.slices = sorted(slices, key=lambda each: each.name)
        self._usable = [
            each for each in self.slices if features.dra_partitionable_devices or not _needs_partitions(each)
        ]
        self.nodes = frozenset(each.spec.node_name for each in self._usable if each.spec.node_name)
        """Nodes that slices name."""
        self._per_device = any(each.spec.per_device_node_selection for each in self.slices)
        self._kinds = kinds
        self._features = features
        self._views: dict[tuple[object, ...], PoolView | None] = {}
        self._selectors: dict[int, selectors.CompiledNodeSelector] = {}

    @property
    def is_local(self) -> bool:
        """Whether only the nodes that slices name need to look at it.

        Slices with counters are for every node. Seen from elsewhere they say nothing, unless the pool is broken.
        """
        if any(not each.spec.node_name and not each.spec.shared_counters for each in self._usable):
            return False
        return self.view_for(api.Node()) is None

    def view_for(self, node: api.Node) -> PoolView | None:
        """What a node sees of the pool; None if nothing of it is for the node."""
        relevant = [each for each in self._usable if self._is_relevant(each, node)]
        if not relevant:
            return None
        generation = max(each.spec.pool.generation for each in relevant)
        newest = [each for each in relevant if each.spec.pool.generation == generation]
        visible = tuple(self._visible(newest, node)) if self._per_device else ()
        key = (*(each.name for each in newest), visible)
        if key not in self._views:
            view = self._build(newest, generation, visible)
            self._views[key] = view if view is None or view.matters else None
        return self._views[key]

    # Which slices and devices are for a node

    def _is_relevant(self, each: dra.ResourceSlice, node: api.Node) -> bool:
        spec = each.spec
        if spec.shared_counters:
            return True  # devices of other slices need them, wherever they are
        if spec.node_name:
            return spec.node_name == node.name
        if spec.all_nodes or spec.node_selector is not None:
            return self._matches(spec, node, f"slice {each.name}")
        if spec.per_device_node_selection:
            return any(self._is_visible(each, device, node) for device in spec.devices)
        return False

    def _visible(self, slices: Iterable[dra.ResourceSlice], node: api.Node) -> Iterable[bool]:
        for each in slices:
            if not each.spec.shared_counters:
                chosen = bool(each.spec.per_device_node_selection)
                yield from (not chosen or self._is_visible(each, device, node) for device in each.spec.devices)

    def _is_visible(self, each: dra.ResourceSlice, device: dra.Device, node: api.Node) -> bool:
        return self._matches(device, node, f"device {device.name} in slice {each.name}")

    def _matches(self, place: dra.ResourceSliceSpec | dra.Device, node: api.Node, what: str) -> bool:
        if place.node_name:
            return place.node_name == node.name
        if place.all_nodes:
            return True
        if place.node_selector is None:
            return False
        compiled = self._selectors.get(id(place))
        if compiled is None:
            compiled = self._selectors[id(place)] = selectors.node_selector(place.node_selector)
        if compiled.error:
            problem = f"failed to perform node selection for {what}: failed to parse node selector: {compiled.error}"
            raise PoolError(f"gather pool information: {problem}")
        return compiled.matches(node.labels, node.name)

    # Making a view

    def _build(
        self, newest: Sequence[dra.ResourceSlice], generation: int, visible: tuple[bool, ...]
    ) -> PoolView | None:
        # Should slices disagree about their number, upstream believes one that is for this very node.
        first = next((each for each in newest if each.spec.node_name and not each.spec.shared_counters), newest[0])
        wanted = first.spec.pool.resource_slice_count
        others: Sequence[dra.ResourceSlice] = ()
        if len(newest) != wanted:
            if any(each.spec.pool.generation > generation for each in self.slices):
                return None  # a newer generation has nothing for the node
            present = [each for each in self.slices if each.spec.pool.generation == generation]
            if len(present) != wanted:
                return PoolView(self.identity, incomplete=True)
            names = {each.name for each in newest}
            others = [each for each in present if each.name not in names]
        return self._complete(newest, others, visible)

    def _complete(
        self, newest: Sequence[dra.ResourceSlice], others: Sequence[dra.ResourceSlice], visible: tuple[bool, ...]
    ) -> PoolView:
        devices = tuple(
            (each, device) for each in newest if not each.spec.shared_counters for device in each.spec.devices
        )
        problem = _repeated("device name", (device.name for _, device in devices))
        counters: dict[CounterKey, int] = {}
        if self._features.dra_partitionable_devices and not problem:
            sets = [counter_set for each in newest for counter_set in each.spec.shared_counters]
            problem = _repeated("counter set name", (counter_set.name for counter_set in sets))
            counters = {(s.name, name): nanos(counter.value) for s in sets for name, counter in s.counters.items()}
            known = {counter_set.name for counter_set in sets}
            problem = problem or _unknown_counter((*newest, *others), known, counters)
        if problem:
            return PoolView(self.identity, invalid=problem)
        return PoolView(
            self.identity,
            devices=devices,
            kinds=tuple(self._kind(device) for _, device in devices),
            visible=visible or (True,) * len(devices),
            others=tuple((device.name, self._kind(device)) for each in others for device in each.spec.devices),
            counters=counters,
            has_binding_conditions=any(device.binding_conditions for _, device in devices),
        )

    def _kind(self, device: dra.Device) -> DeviceKind:
        return self._kinds.of(self.identity[0], device)


def _needs_partitions(each: dra.ResourceSlice) -> bool:
    return each.spec.per_device_node_selection is not None or bool(each.spec.shared_counters)


def _repeated(what: str, names: Iterable[str]) -> str:
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    return "" if repeated is None else f"duplicate {what} {repeated}"


def _unknown_counter(slices: Iterable[dra.ResourceSlice], sets: set[str], counters: Mapping[CounterKey, int]) -> str:
    """What is wrong with a device that consumes counters which the pool does not have."""
    for each in slices:
        for device in each.spec.devices:
            for consumed in device.consumes_counters:
                if consumed.counter_set not in sets:
                    return f"counter set {consumed.counter_set} not found"
                for name in consumed.counters:
                    if (consumed.counter_set, name) not in counters:
                        return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""


def with_taints(each: dra.ResourceSlice, rules: Iterable[dra.DeviceTaintRule]) -> dra.ResourceSlice:
    """The slice with the taints that rules put on its devices."""
    matching = [rule for rule in rules if _is_about(rule, each)]
    if not matching:
        return each
    devices = tuple(_tainted(device, matching) for device in each.spec.devices)
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, devices=devices))


def _is_about(rule: dra.DeviceTaintRule, each: dra.ResourceSlice) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return True
    return selector.driver in (None, each.spec.driver) and selector.pool in (None, each.spec.pool.name)


def _tainted(device: dra.Device, rules: Iterable[dra.DeviceTaintRule]) -> dra.Device:
    meant = (None, device.name)
    taints = [
        rule.spec.taint
        for rule in rules
        if rule.spec.device_selector is None or rule.spec.device_selector.device in meant
    ]
    return msgspec.structs.replace(device, taints=(*device.taints, *taints)) if taints else device
