"""What the tests of the contrib plugins share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.engine.decision import Decision
from kubesched.testing import VirtualCluster


def only_scorer(name: str, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A configuration in which one plugin alone scores."""
    return profile({"score": {"enabled": [{"name": name}], "disabled": [{"name": "*"}]}}, {name: args or {}})


def sorter(name: str, args: Mapping[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    """A configuration whose queue a plugin sorts."""
    plugins = {"queueSort": {"enabled": [{"name": name}], "disabled": [{"name": "*"}]}, **sections}
    return profile(plugins, {name: args or {}})


def preemptor(name: str, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A configuration with a plugin at all its points, in the place of DefaultPreemption."""
    section = {"enabled": [{"name": name}]}
    return profile({"multiPoint": section, "postFilter": section | {"disabled": [{"name": "*"}]}}, {name: args or {}})


def profile(plugins: Mapping[str, Any], args: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A configuration with one profile."""
    configs = [{"name": name, "args": dict(each)} for name, each in args.items() if each]
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": configs}]}


def scores(decision: Decision, plugin: str) -> dict[str, int]:
    """What a plugin gave each node, normalised and weighted."""
    return {node: int(each[plugin]) for node, each in sorted(decision.node_scores.items())}


def bound(cluster: VirtualCluster, names: Sequence[str]) -> list[bool]:
    """Which pods are bound."""
    return [bool(cluster.node_of(name)) for name in names]
