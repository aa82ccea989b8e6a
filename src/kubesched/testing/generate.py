"""Small clusters for `check_plugin`, with combinations that a plugin's author may not think of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.builders import HOSTNAME, ZONE, node, owner, pod, toleration
from kubesched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
)
from kubesched.queue.changes import node_changes, pod_changes
from kubesched.scheduler.handlers import RESOURCES
from kubesched.testing.chance import Chance
from kubesched.testing.related import claim, namespace, volume

Labels = Mapping[str, Sequence[str]]
"""Label keys and the values that they may have."""

COMMON: Labels = {ZONE: ("a", "b"), "disktype": ("ssd", "hdd"), "size": ("1", "20", "many")}
APPS = ("web", "db")
TAINTS = ("dedicated=gpu:NoSchedule", "flaky:PreferNoSchedule", "leaving:NoExecute")
GPU = "example.com/gpu"
CLAIM = "data"
SCRATCH = api.Volume(name="scratch")
INLINE = api.Volume(name="inline", csi=api.CSIVolumeSource(driver="csi.example.com"))
KINDS_OF_PODS: Sequence[dict[str, Any]] = (
    {},
    {"namespace": "team-a"},
    {"priority": 0, "owner": owner("ReplicaSet", "web")},
    {"priority": 1000, "volumes": (SCRATCH,)},
    {"namespace": "team-a", "priority": -5, "owner": owner("Job", "batch", "batch/v1")},
    {"claims": (CLAIM,), "owner": owner("StatefulSet", "db")},
    {"namespace": "team-a", "claims": (CLAIM,), "volumes": (SCRATCH, INLINE)},
    {"owner": owner("ReplicationController", "old", "v1"), "priority": 1000},
    {"namespace": "kube-system", "priority": 2_000_001_000, "owner": owner("DaemonSet", "agent"), "volumes": (INLINE,)},
)
"""Namespaces, priorities, owners and volumes as they come together in clusters. One choice, so that all are tried."""


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change of the cluster, and the example after it."""

    words: str
    events: Sequence[ClusterEvent]
    old: api.Object | None
    new: api.Object | None
    then: Example


class Example:
    """Nodes, pods on them, objects that pods refer to, and a pod to schedule."""

    def __init__(self, chance: Chance, labels: Labels, nodes: Sequence[api.Node], pods: Sequence[api.Pod]) -> None:
        self._chance = chance
        self._own_labels = labels
        self._labels = {**COMMON, **labels}
        self._given_nodes = nodes
        self._given_pods = pods
        self.pod = self._pod(chance.choice(["pod-1", "pod-2", "pod"]), pods)  # first: the rest is made to suit it
        count = chance.number(1, 5)
        self.nodes = [self._node(f"node-{number}", nodes) for number in range(count)]
        self.running = [self._running(f"running-{number}") for number in range(chance.number(0, 4))]
        self.related: list[api.Object] = [*self._namespaces(), *self._storage()]
        """Namespaces, claims and volumes."""

    # --- changes ------------------------------------------------------------------------------------------------------

    def changes(self) -> Iterator[ClusterChange]:
        """Changes that may make the pod fit."""
        yield self._with_node(self._node("node-9", self._given_nodes))
        was = self._chance.choice(self.nodes)
        for changed in self._changed(was):
            yield self._with_node(changed, was)
        yield ClusterChange(f"the deletion of node {was.name}", [NODE_DELETE], was, None, self)
        comes = self._running("running-9")
        yield self._with_running(f"a new pod {_shown(comes.labels)} on a node", [ASSIGNED_POD_ADD], None, comes)
        for goes in self.running[:1]:
            yield self._with_running(f"the deletion of pod {goes.name}", [ASSIGNED_POD_DELETE], goes, None)
        others = [{**self.pod.labels, "app": app} for app in ("new", *APPS)] + [
            each.labels for each in self._given_pods
        ]
        for labels in others:
            yield self._with_pod(labels=labels)
        yield self._with_pod(tolerations=(*self.pod.spec.tolerations, toleration("*")))
        for related in (self._namespace(), claim(CLAIM, volume="disk", namespace=self.pod.namespace), volume("disk")):
            yield self._with_related(related)

    def unrelated(self) -> Iterator[ClusterChange]:
        """Changes of kinds whose effect on the plugin is not known here; its hints must still work."""
        for kind, resource in RESOURCES.items():
            if resource is None:
                continue
            old = kind(metadata=api.ObjectMeta(name="other", uid="other"))
            new = kind(metadata=api.ObjectMeta(name="other", uid="other", labels={"app": "new"}))
            for action, before, after in (
                (Action.ADD, None, new),
                (Action.UPDATE, old, new),
                (Action.DELETE, old, None),
            ):
                event = ClusterEvent(resource, action)
                yield ClusterChange(f"a change of a {resource.value}", [event], before, after, self)

    def only(self, name: str) -> Example:
        """The same with one of its nodes, and the pods there."""
        then = copy(self)
        then.nodes = [each for each in self.nodes if each.name == name]
        then.running = [each for each in self.running if each.node_name == name]
        return then

    def without_related(self) -> Example:
        """The same without namespaces, claims and volumes."""
        then = copy(self)
        then.related = []
        return then

    def _changed(self, was: api.Node) -> Iterator[api.Node]:
        """The node, each time different in one respect."""
        other = self._node(was.name, self._given_nodes)
        yield replace(was, metadata=replace(was.metadata, labels=other.labels))
        yield replace(was, metadata=replace(was.metadata, annotations=other.annotations))
        yield replace(was, spec=replace(was.spec, taints=other.spec.taints))
        yield replace(was, spec=replace(was.spec, unschedulable=not was.spec.unschedulable))
        yield replace(was, status=other.status)

    def _with_node(self, new: api.Node, old: api.Node | None = None) -> ClusterChange:
        then = copy(self)
        then.nodes = [*(each for each in self.nodes if each is not old), new]
        if old is None:
            return ClusterChange(f"a new node {_shown(new.labels)}", [NODE_ADD], None, new, then)
        events = node_changes(old, new)
        what = ", ".join((event.action.name or "").lower().removeprefix("update_node_") for event in events)
        return ClusterChange(f"a change of node {new.name} ({what or 'nothing'})", events, old, new, then)

    def _with_running(
        self, words: str, events: Sequence[ClusterEvent], old: api.Pod | None, new: api.Pod | None
    ) -> ClusterChange:
        then = copy(self)
        then.running = [*(each for each in self.running if each is not old), *([] if new is None else [new])]
        return ClusterChange(words, events, old, new, then)

    def _with_pod(
        self, labels: Mapping[str, str] | None = None, tolerations: Sequence[api.Toleration] | None = None
    ) -> ClusterChange:
        """A change of the pod itself, in one of the few fields that can change."""
        then, old, new = copy(self), self.pod, self.pod
        if labels is not None:
            new = replace(new, metadata=replace(new.metadata, labels=dict(labels)))
        if tolerations is not None:
            new = replace(new, spec=replace(new.spec, tolerations=tuple(tolerations)))
        then.pod = new
        what = "labels" if labels is not None else "tolerations"
        return ClusterChange(f"a change of the pod's own {what}", pod_changes(old, new), old, new, then)

    def _with_related(self, new: api.Object) -> ClusterChange:
        """An object that the pod may refer to comes, or changes if it exists."""
        then = copy(self)
        old = next((each for each in self.related if type(each) is type(new) and each.key == new.key), None)
        then.related = [*(each for each in self.related if each is not old), new]
        resource = RESOURCES[type(new)]
        assert resource is not None
        action, words = (Action.ADD, "a new") if old is None else (Action.UPDATE, "a change of")
        return ClusterChange(f"{words} {new.kind} {new.key}", [ClusterEvent(resource, action)], old, new, then)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _node(self, name: str, given: Sequence[api.Node]) -> api.Node:
        chance = self._chance
        if given and chance.number(0, 2):
            return renamed(chance.choice(given), name)
        return node(
            name,
            cpu=chance.choice(["4", "1", "250m", "0"]),
            memory=chance.choice(["8Gi", "512Mi", "0"]),
            pods=chance.choice([110, 1, 0]),
            resources=chance.choice([{}, {GPU: 2}]),
            labels=self._some(self._labels),
            taints=chance.choice([(), TAINTS[:1], TAINTS[1:2], TAINTS[1:]]),
            unschedulable=chance.choice([False, False, True]),
        )

    def _running(self, name: str) -> api.Pod:
        chance = self._chance
        return pod(
            name,
            node=chance.choice(self.nodes).name,
            cpu=chance.choice(["100m", None, "2"]),
            labels={"app": chance.choice(APPS)},
            **chance.choice(KINDS_OF_PODS),
        )

    def _pod(self, name: str, given: Sequence[api.Pod]) -> api.Pod:
        chance = self._chance
        if given and chance.number(0, 2):
            return chance.choice(given)
        return pod(
            name,
            **chance.choice(KINDS_OF_PODS),
            cpu=chance.choice([None, "100m", "2"]),
            memory=chance.choice([None, "1Gi"]),
            requests=chance.choice([{}, {GPU: 1}]),
            labels=chance.choice([{}, {"app": APPS[0]}, {"app": APPS[1]}]),
            tolerations=[toleration(each) for each in chance.choice([(), ("dedicated",), ("*",)])],
            node_selector=chance.choice([{}, {ZONE: "a"}]),
        )

    def _namespaces(self) -> Iterator[api.Namespace]:
        """The pod's namespace and another; the plugin's labels are namespaces' too."""
        if self._chance.choice([True, True, False]):
            yield self._namespace()
        yield namespace("elsewhere", labels=self._some(self._own_labels))

    def _namespace(self) -> api.Namespace:
        return namespace(self.pod.namespace, labels=self._some(self._own_labels))

    def _storage(self) -> Iterator[api.Object]:
        """The claim that pods refer to: missing, unbound or bound."""
        match self._chance.choice(["missing", "unbound", "bound"]):
            case "unbound":
                yield claim(CLAIM, namespace=self.pod.namespace)
            case "bound":
                yield claim(CLAIM, volume="disk", namespace=self.pod.namespace)
                yield volume("disk")

    def _some(self, labels: Labels) -> dict[str, str]:
        chosen = {key: self._chance.choice([None, *values]) for key, values in labels.items()}
        return {key: value for key, value in chosen.items() if value is not None}

    def __str__(self) -> str:
        nodes = ", ".join(f"{each.name} {_shown(each.labels)}" for each in self.nodes)
        running = ", ".join(f"{_described(each)} on {each.node_name}" for each in self.running)
        related = ", ".join(f"{each.kind} {each.key} {_shown(each.labels)}" for each in self.related)
        about = f"pod {_described(self.pod)} {_shown(self.pod.labels)}; nodes: {nodes}; running: {running or 'nothing'}"
        return f"{about}; other objects: {related or 'none'}"


def renamed(original: api.Node, name: str) -> api.Node:
    """The same node under another name."""
    labels = original.labels | ({HOSTNAME: name} if HOSTNAME in original.labels else {})
    meta = replace(original.metadata, name=name, uid=f"node.{name}", labels=labels)
    return replace(original, metadata=meta)


def _described(each: api.Pod) -> str:
    """A pod's name and what is special about it."""
    owners = [f"of {reference.kind} {reference.name}" for reference in each.metadata.owner_references]
    priority = [] if each.spec.priority is None else [f"priority {each.spec.priority}"]
    volumes = [f"volume {volume.name}" for volume in each.spec.volumes]
    special = ", ".join([*priority, *owners, *volumes])
    name = each.name if each.namespace == "default" else each.key
    return f"{name} ({special})" if special else name


def _shown(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in labels.items() if key != HOSTNAME) + "}"
