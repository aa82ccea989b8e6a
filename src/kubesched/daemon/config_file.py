"""Loads the configuration file and applies the flags that override it.

As upstream: leader election flags override the file, and deprecated flags count only without a file. Flags are applied
before validation, so that a flag can correct a mistake in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kubesched.config.errors import ConfigError, Problem
from kubesched.config.load import Loaded, load
from kubesched.config.read import read
from kubesched.config.types import API_VERSION, KIND
from kubesched.daemon.flags import Options
from kubesched.framework.registry import Registry

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
    tree: object = {"apiVersion": API_VERSION, "kind": KIND}
    new = options.new_config
    if new is not None:
        tree = dict(new)
    elif path:
        tree = read(Path(path).read_bytes(), problems)
    else:
        _overlay(tree, "clientConnection", _given(options, options.deprecated, CLIENT_CONNECTION))
        _overlay(tree, "", _given(options, options.deprecated, TOP))
    _overlay(tree, "leaderElection", _given(options, options.leader_election, LEADER_ELECTION))
    source = "the new configuration" if new is not None else path or "the command line"
    if not isinstance(tree, dict):
        raise ConfigError(source, problems or [Problem("", f"expected an object of apiVersion {API_VERSION}", tree)])
    if new is None:
        enable(tree, options.plugins.enable, problems)
    try:
        loaded = load(
            tree, source, points=registry.points, args_types=registry.args_types, features=options.gates.features
        )
    except ConfigError as error:
        raise ConfigError(source, (*problems, *error.problems)) from None
    if problems:
        raise ConfigError(source, problems)
    return loaded


def enable(tree: dict[str, Any], wanted: Iterable[str], problems: list[Problem]) -> None:
    """Enable plugins, given as ``name`` or ``name=weight``, at all their points in every profile."""
    for each in wanted:
        name, has_weight, weight = each.partition("=")
        if has_weight and not weight.isdecimal():
            problems.append(Problem("--enable", f"the weight of {name} must be a positive integer", weight))
            continue
        entry = {"name": name} | ({"weight": int(weight)} if has_weight else {})
        tree["profiles"] = tree.get("profiles") or [{}]
        for profile in tree["profiles"] if isinstance(tree["profiles"], list) else ():
            _overlay(profile, "plugins", iter([("multiPoint", _with(profile, entry))]))


def _with(profile: object, entry: dict[str, Any]) -> object:
    """Return a profile's multiPoint section with one more plugin. A malformed section is left for validation."""
    plugins = profile.get("plugins") if isinstance(profile, dict) else None
    section = (plugins.get("multiPoint") if isinstance(plugins, dict) else None) or {}
    enabled = (section.get("enabled") if isinstance(section, dict) else None) or []
    if not isinstance(section, dict) or not isinstance(enabled, list):
        return section
    others = [each for each in enabled if not (isinstance(each, dict) and each.get("name") == entry["name"])]
    known: dict[str, Any] = next((each for each in enabled if each not in others), {})
    return section | {"enabled": [*others, known | entry]}


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
