"""The objects of a cluster and the engines that decide about them.

`Cluster` is the public interface to this. The questions of this package (capacity, what-if, consolidation, sizing) work
on the core: they schedule and place pods without the checks and copies that callers from outside need.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.cluster.pods import identified
from kubesched.cluster.state import ClusterState
from kubesched.engine.decision import Decision as Attempt
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.framework.registry import PluginSource
from kubesched.library.admission import admitted, defaulted, with_storage_class
from kubesched.library.claims import claims_of, released, written
from kubesched.library.configuration import Config, configuration, known_plugins
from kubesched.library.decision import Decision
from kubesched.library.manifests import Manifests, completed, decoded
from kubesched.library.results import Fate, Placement
from kubesched.snapshots.contents import Item
from kubesched.snapshots.implied import implied, is_workload

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"

CONTEXT = (api.Namespace, api.Node, api.PriorityClass, api.StorageClass)
"""What the pods of new workloads depend on."""


class ClusterCore:
    """A cluster that can be changed, copied and asked for decisions."""

    def __init__(self, config: Config = None, plugins: Iterable[PluginSource] = (), seed: int = 0) -> None:
        self.config = config
        self.plugins = tuple(plugins)
        self.state = ClusterState()
        self.ignored: dict[str, int] = {}
        self._seed = seed
        self._random = Random(seed)
        self._objects: dict[tuple[type[api.Object], str], api.Object] = {}
        """In the order in which they came. A copy keeps it: rows of nodes, and so ties, depend on it."""
        self._by_kind: dict[type[api.Object], dict[str, api.Object]] = {}
        self._changes = 0
        self._made = 0
        registry = known_plugins(self.plugins)
        checked = configuration(config, registry, self.plugins)
        if checked.extenders:
            warnings.warn("extenders are not called: decisions are made without them", stacklevel=3)
        self.engines = build_engines(checked, registry, self.state, self._random)

    def copy(self) -> ClusterCore:
        """The same objects and the same configuration."""
        return self.reconfigured(self.config, self.plugins)

    def reconfigured(self, config: Config, plugins: Iterable[PluginSource]) -> ClusterCore:
        """The same objects with another configuration and other plugins."""
        made = ClusterCore(config, plugins, self._seed)
        for each in self._objects.values():
            made.set(each)
        made._made, made.ignored = self._made, dict(self.ignored)
        return made

    # --- objects ------------------------------------------------------------------------------------------------------

    @property
    def objects(self) -> list[api.Object]:
        """All objects, in the order in which they came."""
        return list(self._objects.values())

    def all(self, kind: type[O]) -> list[O]:
        """All objects of a kind."""
        return cast(list[O], list(self._by_kind.get(kind, {}).values()))

    def get(self, kind: type[O], key: str) -> O | None:
        """An object by its key, which is the UID for a pod, else namespace and name."""
        return cast(O | None, self._by_kind.get(kind, {}).get(key))

    def node(self, name: str) -> api.Node:
        """A node by its name; raises LookupError if there is none."""
        found = self.get(api.Node, name)
        if found is None:
            raise LookupError(f"the cluster has no node {name!r}")
        return found

    def pods_on(self, name: str) -> list[api.Pod]:
        """The pods that use a node; those that have ended do not count."""
        table = self.state.nodes
        row = table.row_of.get(name)
        return [] if row is None else [info.pod for info in table.pods[row].values()]

    @property
    def pending(self) -> list[api.Pod]:
        """The pods that have no node yet."""
        return [each for each in self.all(api.Pod) if not each.node_name and not each.is_terminal]

    def set(self, obj: api.Object) -> None:
        """Add an object, or replace the one with the same key. It is completed as an API server would do it."""
        if isinstance(obj, api.Pod):
            obj = admitted(identified(obj), self._priority_classes)
        elif isinstance(obj, api.PersistentVolumeClaim):
            obj = with_storage_class(obj, self.all(api.StorageClass))
        self._store(defaulted(obj))

    def remove(self, *objects: api.Object) -> None:
        """Remove objects; raises ValueError for one that is not there. Pods give their devices back."""
        for each in objects:
            obj = completed(each)
            obj = identified(obj) if isinstance(obj, api.Pod) else obj
            key = _key(obj)
            if self._objects.pop((type(obj), key), None) is None:
                raise ValueError(f"the cluster has no {obj.kind} {obj.key}")
            del self._by_kind[type(obj)][key]
            self.state.remove(obj)
            self._changes += 1
            if isinstance(obj, api.Pod):
                for claim in claims_of(self, obj):
                    self._store(released(claim, obj))

    def add(self, manifests: Manifests) -> None:
        """Add objects, and what they imply: the pods of a Deployment that do not exist yet."""
        classes = (api.PriorityClass, api.StorageClass)
        for each in sorted(manifests.objects, key=lambda each: not isinstance(each, classes)):
            self.set(each)  # pods and their claims refer to classes
        for each in decoded(implied(manifests.items, self._context(manifests.items))):
            self.set(each)
        written = Counter(each.kind for each in manifests.items if is_workload(each) and not each.was_read)
        for kind, number in (manifests.ignored - written).items():
            self.ignored[kind] = self.ignored.get(kind, 0) + number

    def _context(self, items: Sequence[Item]) -> list[Item]:
        if not any(is_workload(each) for each in items):
            return []
        found = (each for kind in CONTEXT for each in self.all(kind))
        return [Item(each.api_version, each.kind, msgspec.to_builtins(each)) for each in found]

    def _store(self, obj: api.Object) -> None:
        kind, key = type(obj), _key(obj)
        self._objects[kind, key] = self._by_kind.setdefault(kind, {})[key] = obj
        self.state.set(obj)
        self._changes += 1

    def _priority_classes(self) -> dict[str, api.PriorityClass]:
        return {each.name: each for each in self.all(api.PriorityClass)}

    # --- decisions ----------------------------------------------------------------------------------------------------

    def incoming(self, pod: api.Pod) -> api.Pod:
        """A pod to be scheduled, as the API server would have stored it, with a UID of its own."""
        running = self.state.pods.get(pod.uid)
        if pod.node_name or running is not None:
            node = pod.node_name if running is None else running.pod.node_name
            hint = "remove() it and leave out spec.nodeName to ask where it would go"
            raise ValueError(f"pod {pod.key} is on node {node} already; {hint}")
        if pod.scheduler_name not in self.engines:
            known = ", ".join(map(repr, self.engines))
            raise ValueError(f"pod {pod.key} wants scheduler {pod.scheduler_name!r}; the configuration has {known}")
        if not pod.uid:
            self._made += 1
            pod = replace(pod, metadata=replace(pod.metadata, uid=f"pod:{pod.key}:{self._made}"))
        return admitted(pod, self._priority_classes)

    def attempt(self, pod: api.Pod, *, record: bool = False) -> Attempt:
        """One try to schedule a pod. With `record`, all scores and rejections are kept."""
        engine = self.engines[pod.scheduler_name]
        self._random.seed(self._seed)
        info = self.state.classes.info(pod)
        gated = engine.framework.run_pre_enqueue(pod)
        if gated is not None:
            attempt = Attempt(info)
            attempt.outcome, attempt.message = Outcome.UNSCHEDULABLE, gated.message
            return attempt
        return engine.schedule(info, record=record)

    def decide(self, pod: api.Pod) -> Decision:
        """A decision with everything about it, which can be placed as long as nothing else changes."""
        attempt, made_at = self.attempt(pod, record=True), self._changes
        return Decision(attempt, lambda evict: self._place_decided(attempt, made_at, evict))

    def play(self, pods: Iterable[api.Pod]) -> Iterator[Placement]:
        """Schedule and place pods in this order."""
        for pod in pods:
            if pod.scheduler_name not in self.engines:
                yield Placement(pod, Fate.PENDING, message=f"no profile is called {pod.scheduler_name!r}")
                continue
            attempt = self.attempt(pod)
            if attempt.node:
                self.place(attempt, attempt.node)
            fate = Fate.PLACED if attempt.node else Fate.PENDING
            yield Placement(pod, fate, attempt.node, attempt.message)

    def place(self, attempt: Attempt, node: str) -> None:
        """Put a pod on a node, after Reserve."""
        pod = attempt.pod
        framework = self.engines[pod.scheduler_name].framework
        status = framework.run_reserve(attempt.state, pod, node)
        if status is not None and not status.is_success:
            raise ValueError(f"pod {pod.key} cannot be placed: plugin {status.plugin}: {status.message}")
        for claim in written(framework, attempt):
            self._store(claim)
        self._store(replace(pod, spec=replace(pod.spec, node_name=node)))

    def _place_decided(self, attempt: Attempt, made_at: int, evict: bool) -> None:
        pod = attempt.pod
        if self._changes != made_at:
            raise ValueError(f"the cluster has changed since the decision about pod {pod.key}; schedule it again")
        room = attempt.post_filter
        if attempt.node:
            self.place(attempt, attempt.node)
        elif evict and room is not None and room.nominated_node_name:
            self.remove(*(victim.pod for victim in room.victims))
            promised = replace(pod.status, nominated_node_name=room.nominated_node_name)
            again = self.attempt(replace(pod, status=promised))
            self.place(again, again.node)
        else:
            hint = "; place(evict=True) makes room for it" if room is not None and room.nominated_node_name else ""
            raise ValueError(f"pod {pod.key} has no node: {attempt.message}{hint}")


def _key(obj: api.Object) -> str:
    return obj.uid if isinstance(obj, api.Pod) else obj.key
