"""Hints that run once per class of pods: one result is right for all pods of the class."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace
from tests.builders import affinity, node, node_term, owner, pod, pod_term

from kubesched.api import objects as api
from kubesched.api.devices import DeviceClassSpec
from kubesched.cluster.state import ClusterState
from kubesched.config.load import default
from kubesched.engine.profiles import build_engines
from kubesched.framework.events import Action, ClusterEvent, EventHint, Hint, Resource, name_of
from kubesched.plugins import in_tree_registry
from kubesched.queue.registrations import event_map

FRAMEWORK = build_engines(default(), in_tree_registry(), ClusterState(), Random(0))["default-scheduler"].framework
PLUGINS = {plugin.name: plugin for at_point in FRAMEWORK.points.values() for plugin in at_point}
BY_CLASS = [(name, each) for name, plugin in PLUGINS.items() for each in plugin.events_to_register() if each.by_class]

TEMPLATES = [
    pod(),
    pod(cpu="2", memory="1Gi", labels={"app": "web"}),
    pod(requests={"example.com/gpu": "1"}, tolerations=["dedicated=gpu:NoSchedule"]),
    pod(node_selector={"disk": "ssd"}, host_ports=[80]),
    pod(affinity=affinity(nodes=[node_term(("disk", "In", "ssd"))]), host_ports=[443]),
    pod(affinity=affinity(near=[pod_term({"app": "web"})]), labels={"app": "api"}),
    pod(affinity=affinity(away=[pod_term({"app": "web"}, "zone")]), labels={"app": "web"}),
]
NODES = [
    None,
    node("n1"),
    node("n1", cpu="8", labels={"disk": "ssd", "zone": "a"}),
    node("n1", cpu="8", labels={"disk": "hdd", "zone": "b"}, taints=["dedicated=gpu:NoSchedule"]),
    node("n1", cpu="1", unschedulable=True),
    node("n1", cpu="8", labels={"disk": "ssd"}, resources={"example.com/gpu": "2"}),
]
GONE = [
    pod("other", node="n1", cpu="1", labels={"app": "web"}),
    pod("other", node="n1", host_ports=[80, 8080]),
    pod("other", nominated="n1", host_ports=[443]),
    pod("other", cpu="1"),
    pod("other", node="n1", affinity=affinity(away=[pod_term({"app": "web"})])),
]
CLASSES = [
    api.DeviceClass(metadata=api.ObjectMeta(name="gpu"), spec=DeviceClassSpec(extended_resource_name=name))
    for name in (None, "example.com/gpu", "example.com/nic")
]


def siblings(template: api.Pod) -> Iterator[api.Pod]:
    """Pods of one class that differ in everything else, and share no cached results."""
    yield replace(template, metadata=replace(template.metadata, name="first", uid="1"))
    yield replace(
        template,
        metadata=replace(
            template.metadata,
            name="second",
            uid="2",
            owner_references=(owner("ReplicaSet", "rs"),),
            creation_timestamp="2026-01-01T00:00:00Z",
            annotations={"a": "b"},
        ),
        status=api.PodStatus(nominated_node_name="n1"),
    )
    # What happened, happened to a pod of this very name and UID.
    yield replace(template, metadata=replace(template.metadata, name=GONE[0].name, uid=GONE[0].uid))


def events(event: ClusterEvent) -> Iterator[tuple[api.Object | None, api.Object | None]]:
    """Objects before and after, of a kind that a registration covers."""
    if event.resource is Resource.NODE:
        yield from ((None, each) for each in NODES if each is not None)
        yield from ((a, b) for a, b in pairwise([*NODES[1:], *reversed(NODES[1:])]))
    elif event.resource is Resource.DEVICE_CLASS:
        yield from ((None, each) for each in CLASSES)
        yield from pairwise([*CLASSES, CLASSES[0]])
    else:
        for each in GONE:
            if event.action & Action.DELETE:
                yield each, None
            if event.action & Action.ADD:
                yield None, each


@pytest.mark.parametrize(("plugin", "registered"), BY_CLASS, ids=[f"{n} {e.event.label}" for n, e in BY_CLASS])
def test_one_answer_is_right_for_the_whole_class(plugin: str, registered: EventHint) -> None:
    """For any event, a hint gives the same result for all pods of a class, but not for all events."""
    assert registered.hint is not None
    classes = ClusterState().classes
    seen = set()
    for template in TEMPLATES:
        pods = list(siblings(template))
        assert len({classes.info(each).pod_class for each in pods}) == 1
        for old, new in events(registered.event):
            answers = {registered.hint(each, old, new) for each in pods}
            assert len(answers) == 1, (plugin, template, old, new)
            seen |= answers
    assert seen == set(Hint)


def test_which_hints_are_asked_by_class() -> None:
    """Hints that read nothing of a waiting pod but its class, most of them about nodes."""
    assert {(name, name_of(each.event.resource)) for name, each in BY_CLASS} == {
        ("NodeResourcesFit", "Pod"),
        ("NodeResourcesFit", "Node"),
        ("NodeResourcesFit", "resource.k8s.io/DeviceClass"),
        ("NodeAffinity", "Node"),
        ("TaintToleration", "Node"),
        ("NodeUnschedulable", "Node"),
        ("NodePorts", "Pod"),
        ("NodeDeclaredFeatures", "Node"),
        ("InterPodAffinity", "Pod"),
        ("InterPodAffinity", "Node"),
    }


@pytest.mark.parametrize(
    ("plugin", "event"),
    [
        ("NodeResourcesFit", ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)),
        ("InterPodAffinity", ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)),
        ("TaintToleration", ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION)),
    ],
)
def test_a_pods_own_update_is_asked_about_pod_by_pod(plugin: str, event: ClusterEvent) -> None:
    """A hint that compares UIDs runs for each pod."""
    hints = event_map([FRAMEWORK]).hints("default-scheduler", event)[plugin]
    assert [hint.by_class for hint in hints] == [False]
