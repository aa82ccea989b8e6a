"""NodeDeclaredFeatures: what a pod needs, where it may go, and what makes it worth another attempt."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.builders import cluster, node, pod
from tests.harness import default_engine, filtered, hint, make, schedule

from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.state import CycleState
from kubesched.plugins.node_declared_features import NOT_PREPARED, NodeDeclaredFeatures, required_features

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
UNDECLARED = ("UnschedulableAndUnresolvable", "node(s) didn't match Pod's required features")


def _container(*actions: str) -> api.Container:
    return api.Container(name="c", restart_policy_rules=tuple(api.ContainerRestartRule(a) for a in actions))


def _pod(
    name: str = "p",
    rules: Iterable[str] = (),
    init_rules: Iterable[str] = (),
    *,
    host_network: bool = False,
    host_users: bool | None = None,
) -> api.Pod:
    made = pod(name)
    spec = replace(
        made.spec,
        containers=(_container(*rules),),
        init_containers=(_container(*init_rules),) if init_rules else (),
        host_network=host_network,
        host_users=host_users,
    )
    return replace(made, spec=spec)


def _node(name: str, *features: str) -> api.Node:
    made = node(name)
    return replace(made, status=replace(made.status, declared_features=features))


NEEDY = _pod(rules=["RestartAllContainers"])


@pytest.mark.parametrize(
    ("wanted", "features"),
    [
        (_pod(), ()),
        (_pod(rules=["Restart"]), ()),
        (_pod(rules=["Restart", "RestartAllContainers"]), (RESTART,)),
        (_pod(init_rules=["RestartAllContainers"]), (RESTART,)),
        (_pod(host_network=True), ()),
        (_pod(host_users=False), ()),
        (_pod(host_network=True, host_users=True), ()),
        (_pod(host_network=True, host_users=False), (USERS,)),
        (_pod(rules=["RestartAllContainers"], host_network=True, host_users=False), (RESTART, USERS)),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(wanted: api.Pod, features: tuple[str, ...]) -> None:
    """Restart rules and user namespaces on the host network need a feature each, from any container."""
    assert required_features(wanted.spec) == features


def test_nodes_must_declare_every_feature() -> None:
    """A node that lacks one of the features is rejected; features that nobody asks for do not matter."""
    world = cluster(_node("both", "Other", RESTART, USERS), _node("one", USERS), _node("none"))
    both = _pod(rules=["RestartAllContainers"], host_network=True, host_users=False)
    plugin = make(NodeDeclaredFeatures, world)
    assert filtered(plugin, world, both) == {"both": (), "one": UNDECLARED, "none": UNDECLARED}
    assert filtered(plugin, world, _pod()) == {"both": (), "one": (), "none": ()}


def test_decisions_follow_the_nodes() -> None:
    """A node that starts or stops declaring a feature, joins, or goes, is judged by its newest state."""
    world = cluster(_node("a"))
    engine = default_engine(world)
    assert schedule(engine, NEEDY).node == ""
    world.set(_node("a", RESTART))
    assert schedule(engine, NEEDY).node == "a"
    world.set(_node("a"))
    for number in range(100):  # more than the table has room for at first
        world.set(_node(f"n{number}", *([RESTART] if number == 99 else [])))
    assert schedule(engine, NEEDY).node == "n99"
    world.nodes.remove_node("n99")
    world.set(_node("after"))  # takes the free row
    assert schedule(engine, NEEDY).node == ""


def test_the_gate_switches_the_plugin_off() -> None:
    """Without the gate any node will do, and no event is asked for, even where a profile enables the plugin."""
    world = cluster(_node("a"))
    world.features = Features(node_declared_features=False)
    plugin = make(NodeDeclaredFeatures, world)
    assert filtered(plugin, world, NEEDY) == {"a": ()}
    assert plugin.events_to_register() == []


def test_filter_without_pre_filter_is_an_error() -> None:
    """A profile that has the plugin at Filter alone gets upstream's error."""
    world = cluster(_node("a"))
    info = world.classes.info(NEEDY)
    verdicts = make(NodeDeclaredFeatures, world).filter_all(CycleState(info.pod_class), info.pod, Nodes(world.nodes))
    assert verdicts is not None
    assert verdicts.status_of(1) == NOT_PREPARED


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, _node("a"), Hint.QUEUE),
        (_node("a"), _node("a", RESTART), Hint.QUEUE),
        (_node("a", RESTART), _node("a"), Hint.QUEUE),
        (_node("a", RESTART), _node("a", RESTART), Hint.SKIP),
    ],
)
def test_a_node_that_changes_what_it_declares_is_worth_an_attempt(
    old: api.Node | None, new: api.Node, expected: Hint
) -> None:
    """A new node queues the pod, and so does any change of declared features."""
    action = Action.ADD if old is None else Action.UPDATE_NODE_DECLARED_FEATURE
    assert hint(make(NodeDeclaredFeatures, cluster()), Resource.NODE, action, NEEDY, old, new) is expected


def test_only_a_change_of_the_pods_own_needs_is_worth_an_attempt() -> None:
    """An update of another pod, or one that changes no need, is skipped."""
    plugin = make(NodeDeclaredFeatures, cluster())

    def said(old: api.Pod, new: api.Pod) -> Hint | None:
        return hint(plugin, Resource.UNSCHEDULED_POD, Action.UPDATE, NEEDY, old, new)

    assert said(NEEDY, _pod()) is Hint.QUEUE
    assert said(NEEDY, _pod(rules=["RestartAllContainers", "Restart"])) is Hint.SKIP
    assert said(_pod("other"), _pod("other", rules=["RestartAllContainers"])) is Hint.SKIP
