"""Loads the configuration file and applies the flags that override it.

As upstream: leader election flags override the file, and deprecated flags count only without a file. Flags are applied
before validation, so that a flag can correct a mistake in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubesched.config.errors import ConfigError, Problem, suggest
from kubesched.config.load import Loaded, load
from kubesched.config.read import read
from kubesched.config.switches import disable_plugin, enable_plugin
from kubesched.config.types import API_VERSION, KIND, Point
from kubesched.daemon.flags import Options
from kubesched.daemon.flags.declarations import PluginFlags
from kubesched.framework.registry import Registry

_MAX_DIGITS = 18
"""A longer weight is out of every range, and one of thousands of digits cannot be read."""
LEADER_ELECTION = {
    "leader-elect": "leaderElect",
    "leader-elect-lease-duration": "leaseDuration",
    "leader-elect-renew-deadline": "renewDeadline",
    "leader-elect-retry-period": "retryPeriod",
    "leader-elect-resource-lock": "resourceLock",
    "leader-elect-resource-name": "resourceName",
    "leader-elect-resource-namespace": "resourceNamespace",
}
CLIENT_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "contentType",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
TOP = {"profiling": "enableProfiling", "contention-profiling": "enableContentionProfiling"}


def configuration(options: Options, registry: Registry) -> Loaded:
    """Return the completed configuration. Raises ConfigError with all problems, or OSError if the file is missing."""
    path = options.misc.config
    problems: list[Problem] = []
    warnings: list[str] = []
    tree: object = {"apiVersion": API_VERSION, "kind": KIND}
    new = options.new_config
    if new is not None:
        tree = dict(new)
    elif path:
        tree = read(Path(path).read_bytes(), problems, warnings)
    else:
        _overlay(tree, "clientConnection", _given(options, options.deprecated, CLIENT_CONNECTION))
        _overlay(tree, "", _given(options, options.deprecated, TOP))
    _overlay(tree, "leaderElection", _given(options, options.leader_election, LEADER_ELECTION))
    source = "the new configuration" if new is not None else path or "the command line"
    if not isinstance(tree, dict):
        raise ConfigError(source, problems or [Problem("", f"expected an object of apiVersion {API_VERSION}", tree)])
    notes = [] if new is not None else switch(tree, options.plugins, registry, problems)
    try:
        loaded = load(
            tree, source, points=registry.points, args_types=registry.args_types, features=options.gates.features
        )
    except ConfigError as error:
        raise ConfigError(source, (*problems, *error.problems)) from None
    if problems:
        raise ConfigError(source, problems)
    return Loaded(loaded.config, [*notes, *(f"{source}: {each}" for each in warnings), *loaded.warnings])


def switch(tree: dict[str, Any], flags: PluginFlags, registry: Registry, problems: list[Problem]) -> list[str]:
    """Do what --enable and --disable say, in every profile. Returns what else follows from it."""
    notes = []
    for each in flags.enable:
        name, has_weight, weight = each.partition("=")
        if has_weight and not (weight.isdecimal() and len(weight) <= _MAX_DIGITS):
            problems.append(Problem("--enable", f"the weight of {name} must be a positive integer", weight))
            continue
        sorts = name in registry and Point.QUEUE_SORT in registry.points[name]
        enable_plugin(tree, {"name": name} | ({"weight": int(weight)} if has_weight else {}), sorts=sorts)
        if sorts:
            notes.append(f"--enable={name}: it replaces the queue's order, which there can be only one of")
    for name in flags.disable:
        if name not in registry:
            problems.append(Problem("--disable", "there is no such plugin", name, suggest(name, registry)))
        disable_plugin(tree, name)
    return notes


def _given(options: Options, section: object, fields: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for flag, field in fields.items():
        if flag in options.changed:
            value = getattr(section, flag.replace("-", "_"))
            yield field, value if isinstance(value, bool | float) or type(value) is int else str(value)


def _overlay(tree: object, section: str, values: Iterator[tuple[str, Any]]) -> None:
    """Set fields of a section. Anything that should be an object but is not is left for validation."""
    found = list(values)
    if not found or not isinstance(tree, dict):
        return
    if section:
        if tree.get(section) is None:
            tree[section] = {}
        tree = tree[section]
    if isinstance(tree, dict):
        tree.update(found)
