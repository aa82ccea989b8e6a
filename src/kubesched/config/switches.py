"""Switching plugins on and off in every profile of a configuration's tree, as --enable and --disable do.

Sections that should be objects or lists but are not are left as they are, for validation to report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_DEFAULT_SORT = "PrioritySort"


def enable_plugin(tree: dict[str, Any], entry: dict[str, Any], *, sorts: bool) -> None:
    """Enable a plugin at all its points. One that `sorts` the queue replaces the other, as there can be one only."""
    for plugins in _plugins(tree):
        section = _section(plugins, "multiPoint")
        if section is None:
            continue
        enabled = section.get("enabled") or []
        if not isinstance(enabled, list):
            continue
        others = [each for each in enabled if not (isinstance(each, dict) and each.get("name") == entry["name"])]
        known: dict[str, Any] = next((each for each in enabled if each not in others), {})
        plugins["multiPoint"] = section | {"enabled": [*others, known | entry]}
        if sorts and entry["name"] != _DEFAULT_SORT:
            plugins["queueSort"] = {"enabled": [{"name": entry["name"]}], "disabled": [{"name": "*"}]}


def disable_plugin(tree: dict[str, Any], name: str) -> None:
    """Disable a plugin at all its points."""
    for plugins in _plugins(tree):
        for point in list(plugins):
            section = _section(plugins, point)
            if section is not None and isinstance(section.get("enabled"), list):
                kept = [
                    each for each in section["enabled"] if not (isinstance(each, dict) and each.get("name") == name)
                ]
                plugins[point] = section | {"enabled": kept}
        section = _section(plugins, "multiPoint")
        if section is not None and isinstance(section.get("disabled") or [], list):
            plugins["multiPoint"] = section | {"disabled": [*(section.get("disabled") or []), {"name": name}]}


def _plugins(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plugins of each profile, which are created if there are none."""
    if tree.get("profiles") is None:
        tree["profiles"] = [{}]
    profiles = tree["profiles"]
    for profile in profiles if isinstance(profiles, list) else ():
        if not isinstance(profile, dict):
            continue
        if profile.get("plugins") is None:
            profile["plugins"] = {}
        if isinstance(profile["plugins"], dict):
            yield profile["plugins"]


def _section(plugins: dict[str, Any], point: str) -> dict[str, Any] | None:
    section = plugins.get(point) or {}
    return section if isinstance(section, dict) else None
