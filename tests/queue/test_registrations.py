"""Which plugin gets which events: the default profile, plugins without registrations, and extenders."""

from collections.abc import Sequence
from random import Random

import pytest
from tests.queue.support import PROFILE, Clock, make_node, make_pod

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import NodeInfo
from kubesched.config.load import default
from kubesched.engine.profiles import build_engines
from kubesched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    EventHint,
    Resource,
    on,
)
from kubesched.framework.plugin import Plugin, points_of
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins import IN_TREE, in_tree_registry
from kubesched.queue.build import build_queue
from kubesched.queue.hooks import Subqueue
from kubesched.queue.registrations import EVERYTHING, REJECTING_POINTS, EventMap, event_map
from kubesched.scheduler.handlers import RESOURCES

TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


class Silent(Plugin):
    """A Filter without `events_to_register`."""

    name = "Silent"

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        return None


class Content(Silent):
    """A Filter that registers no events."""

    name = "Content"

    def events_to_register(self) -> Sequence[EventHint]:
        return ()


class Forgetful(Silent):
    """A Filter whose `events_to_register` returns None."""

    name = "Forgetful"

    def events_to_register(self) -> Sequence[EventHint]:
        return None  # type: ignore[return-value]  # what a method without a return gives


class NewNodes(Silent):
    """A Filter that waits for new nodes."""

    name = "NewNodes"

    def events_to_register(self) -> Sequence[EventHint]:
        return [on(Resource.NODE, Action.ADD)]


class Scorer(Plugin):
    """A Score plugin, which never rejects a pod."""

    name = "Scorer"

    def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
        return 0


def framework(*plugins: type[Plugin]) -> Framework:
    made = [plugin(None, None) for plugin in plugins]  # type: ignore[arg-type]  # these need no handle
    filters = [plugin for plugin in made if hasattr(plugin, "filter")]
    scores = [plugin for plugin in made if hasattr(plugin, "score")]
    return Framework(PROFILE, ClusterState(), {"filter": filters, "score": scores}, {"Scorer": 1})


def listeners(events: EventMap, event: ClusterEvent) -> set[str]:
    return {plugin for _, plugin, _ in events.listeners(event)}


@pytest.fixture(scope="module")
def frameworks() -> dict[str, Framework]:
    """The only profile of the default configuration."""
    engines = build_engines(default(), in_tree_registry(), ClusterState(), Random(0))
    return {name: engine.framework for name, engine in engines.items()}


def test_a_plugin_without_registrations_gets_all_events() -> None:
    """A plugin without `events_to_register` gets all events."""
    events = event_map([framework(Silent)])
    for resource in {hint.event.resource for hint in EVERYTHING}:
        assert listeners(events, ClusterEvent(resource, Action.UPDATE)) == {"Silent"}


def test_a_plugin_that_returns_none_gets_all_events() -> None:
    """A plugin whose `events_to_register` returns None gets all events."""
    assert listeners(event_map([framework(Forgetful)]), NODE_ADD) == {"Forgetful"}


def test_a_plugin_may_register_no_events() -> None:
    """A plugin that returns an empty list gets no events, and its pods are retried only by the flush."""
    assert listeners(event_map([framework(Content)]), NODE_ADD) == set()


def test_only_plugins_that_can_reject_a_pod_get_events() -> None:
    """A Score plugin gets no events, because it never rejects a pod."""
    assert listeners(event_map([framework(Scorer)]), NODE_ADD) == set()


def test_registrations_for_nodes_include_taints() -> None:
    """As upstream, a registration for nodes includes taint changes unless these are registered already."""
    events = event_map([framework(NewNodes)])
    assert listeners(events, TAINT) == {"NewNodes"}
    assert listeners(events, ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)) == set()


def test_extenders_get_all_events() -> None:
    """Extenders get all events, since they cannot register; without extenders there is no such entry."""
    assert "Extender" in listeners(event_map([framework(NewNodes)], extenders=True), ASSIGNED_POD_ADD)
    assert "Extender" not in listeners(event_map([framework(NewNodes)]), ASSIGNED_POD_ADD)


def test_every_kind_that_our_plugins_wait_for_is_watched() -> None:
    """There is an event handler for every kind that an in-tree plugin registers for."""
    engines = build_engines(default(), in_tree_registry(), ClusterState(), Random(0))
    plugins = {p.name: p for points in engines[PROFILE].framework.points.values() for p in points}
    asked = {hint.event.resource for plugin in plugins.values() for hint in plugin.events_to_register()}
    assert asked - {Resource.POD, Resource.NODE} <= set(RESOURCES.values())


def test_every_in_tree_plugin_registers_its_events() -> None:
    """Every in-tree plugin registers its events, so that its pods are not retried on all of them."""
    silent = Plugin.events_to_register
    plugins = [plugin for plugin in IN_TREE if points_of(plugin) & REJECTING_POINTS]
    assert [plugin.name for plugin in plugins if plugin.events_to_register is silent] == []


def test_profiles_have_separate_registrations() -> None:
    """The same plugin in two profiles has separate registrations."""
    events = EventMap({"one": {"P": [on(Resource.NODE, Action.ADD)]}, "two": {"P": [on(Resource.POD, Action.DELETE)]}})
    assert {profile for profile, _, _ in events.listeners(NODE_ADD)} == {"one"}
    assert {profile for profile, _, _ in events.listeners(ASSIGNED_POD_DELETE)} == {"two"}


def test_the_default_profile_listens_as_upstream_does(frameworks: dict[str, Framework]) -> None:
    """As upstream, only the plugins that a bound pod could have blocked get its deletion."""
    events = event_map(frameworks.values())
    on_pod_delete = {"NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread"}
    heard = listeners(events, ASSIGNED_POD_DELETE)
    assert on_pod_delete <= heard
    assert not {"TaintToleration", "NodeAffinity", "SchedulingGates", "NodeUnschedulable"} & heard
    assert {"NodeResourcesFit", "TaintToleration"} <= listeners(events, TAINT)


def test_a_queue_is_built_from_profiles(frameworks: dict[str, Framework]) -> None:
    """A queue uses the QueueSort, PreEnqueue and registrations of its profiles."""
    cluster = next(iter(frameworks.values())).cluster
    queue = build_queue(frameworks, cluster, Clock())
    queue.add(make_pod("low", priority=1))
    queue.add(make_pod("high", priority=2))
    gated = make_pod("gated", priority=9, gates=["g"])
    queue.add(gated)
    first = queue.pop()
    assert first is not None
    assert first.pod.name == "high"
    first.rejected_by(["NodeName"])
    queue.add_unschedulable_if_not_present(first)
    queue.move_all(NODE_ADD, None, make_node())
    assert queue.subqueue_of("high") is Subqueue.BACKOFF
    queue.update(gated, make_pod("gated", priority=9))
    assert queue.subqueue_of("gated") is Subqueue.ACTIVE
