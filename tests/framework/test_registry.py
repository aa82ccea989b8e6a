"""The plugin registry: unique names, and suggestions for unknown ones."""

from __future__ import annotations

import pytest

from kubesched.api import objects as api
from kubesched.framework.plugin import Plugin, points_of
from kubesched.framework.registry import Registry, UnknownPluginError
from kubesched.framework.status import Status
from kubesched.plugins import IN_TREE, OFFERED, in_tree_registry
from kubesched.plugins.node_name import NodeName


class Mine(Plugin):
    """A custom plugin."""

    name = "Mine"

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        return None


class AlsoNodeName(Plugin):
    """A plugin with a name that is taken."""

    name = "NodeName"


def test_a_plugin_is_found_by_its_name() -> None:
    """Registered plugins are found, in the order of registration."""
    registry = Registry([NodeName])
    registry.add(Mine)
    assert registry["Mine"] is Mine
    assert list(registry) == ["NodeName", "Mine"]
    assert len(registry) == 2
    assert "Mine" in registry
    assert "Other" not in registry


def test_a_name_is_taken_once() -> None:
    """The error names both classes and says what to do."""
    registry = in_tree_registry()
    with pytest.raises(ValueError, match=r"'NodeName' of .*AlsoNodeName .* is taken by .*NodeName .*; rename one"):
        registry.add(AlsoNodeName)
    assert registry["NodeName"] is NodeName


def test_an_unknown_name_gets_the_closest() -> None:
    """A mistyped name is answered with a suggestion."""
    with pytest.raises(UnknownPluginError, match=r"^no plugin is called 'NodeAfinity'; did you mean 'NodeAffinity'\?$"):
        in_tree_registry()["NodeAfinity"]


def test_nothing_is_close_to_nonsense() -> None:
    """Without a similar name the error suggests nothing."""
    with pytest.raises(UnknownPluginError, match=r"^no plugin is called 'xyz'$"):
        in_tree_registry()["xyz"]


def test_an_unknown_name_is_a_missing_key() -> None:
    """Code that treats the registry as a mapping sees an ordinary lookup failure."""
    assert in_tree_registry().get("Nobody") is None


def test_registries_are_independent() -> None:
    """Adding to one registry of built-ins does not change the next."""
    in_tree_registry().add(Mine)
    assert "Mine" not in in_tree_registry()


def test_points_follow_from_methods() -> None:
    """A plugin takes part in the extension points whose methods it has, in either form."""
    assert points_of(Mine) == {"preEnqueue"}
    points = in_tree_registry().points
    assert points["NodeName"] == {"filter"}
    assert points["PrioritySort"] == {"queueSort"}
    assert points["NodeAffinity"] == {"preFilter", "filter", "preScore", "score"}
    assert points["DefaultBinder"] == {"bind"}
    assert {plugin.name for plugin in IN_TREE} | set(OFFERED) == set(points)
