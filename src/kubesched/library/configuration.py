"""A scheduler's configuration from what people have: nothing, a file, its text, or the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from kubesched.config.errors import ConfigError, Problem
from kubesched.config.load import load
from kubesched.config.read import read
from kubesched.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from kubesched.framework.functions import plugin_class
from kubesched.framework.registry import PluginSource, Registry
from kubesched.plugins import in_tree_registry

Config = PathLike[str] | str | Mapping[str, Any] | None
"""A KubeSchedulerConfiguration: a path, YAML text, or a dict, in which apiVersion and kind may be left out."""


def known_plugins(plugins: Iterable[PluginSource]) -> Registry:
    """The built-in plugins and these."""
    registry = in_tree_registry()
    for each in plugins:
        registry.add(each)
    return registry


def configuration(
    config: Config, registry: Registry, plugins: Iterable[PluginSource] = ()
) -> KubeSchedulerConfiguration:
    """The complete configuration. Without one, `plugins` are enabled beside the default ones."""
    source, tree = _tree(config)
    if config is None:
        enabled = [{"name": plugin_class(each).name} for each in plugins]
        tree = {"profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
    tree = {"apiVersion": API_VERSION, "kind": KIND, **tree}
    return load(tree, source, points=registry.points, args_types=registry.args_types).config


def adapted(
    config: Mapping[str, Any], plugins: Iterable[PluginSource] = (), *, enabled: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """A running scheduler's configuration for use here: without the plugins that are neither built in nor among
    `plugins`, whose names are returned. With `enabled`, `plugins` are enabled."""
    plugins = list(plugins)
    registry = known_plugins(plugins)
    names = [plugin_class(each).name for each in plugins] if enabled else []
    adapted_profiles = [_adapted_profile(each, registry, names) for each in config.get("profiles") or ()]
    unknown = dict.fromkeys(name for _, missing in adapted_profiles for name in missing)
    return {**config, "profiles": [profile for profile, _ in adapted_profiles]}, list(unknown)


def unknown_plugins(names: Iterable[str]) -> str:
    """What to say about plugins that were left out."""
    return f"the scheduler also uses {', '.join(names)}, not known here, so it may decide otherwise; add --plugin FILE"


def _adapted_profile(
    profile: Mapping[str, Any], registry: Registry, names: Iterable[str]
) -> tuple[dict[str, Any], list[str]]:
    mentioned: dict[str, None] = {}

    def known(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        mentioned.update(dict.fromkeys(each["name"] for each in entries))
        return [each for each in entries if each["name"] == "*" or registry.get(each["name"]) is not None]

    points = {
        point: {which: known(entries) for which, entries in sets.items()}
        for point, sets in (profile.get("plugins") or {}).items()
    }
    args = known(profile.get("pluginConfig") or ())
    added = [{"name": name} for name in names if name not in mentioned]
    if added:
        points.setdefault("multiPoint", {}).setdefault("enabled", []).extend(added)
    unknown = [name for name in mentioned if name != "*" and registry.get(name) is None]
    return {**profile, "plugins": points, "pluginConfig": args}, unknown


def _tree(config: Config) -> tuple[str, dict[str, Any]]:
    if config is None or isinstance(config, Mapping):
        return "<config>", dict(config or {})
    source = "<config>"
    text: str | bytes
    if isinstance(config, PathLike) or ("\n" not in config and ":" not in config):
        source, text = str(config), Path(config).read_bytes()
    else:
        text = config
    problems: list[Problem] = []
    tree = read(text, problems, [])
    if problems or not isinstance(tree, dict):
        raise ConfigError(source, problems or [Problem("", f"expected an object of kind {KIND}", tree)])
    return source, tree
