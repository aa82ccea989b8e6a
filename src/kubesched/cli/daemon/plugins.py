"""Plugins from outside: named with ``--plugin``, offered by installed packages, or handed in by a program."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points

from kubesched.framework.plugin import Plugin
from kubesched.framework.registry import Registry
from kubesched.plugins import in_tree_registry

GROUP = "kubesched.plugins"


def registry_with(named: Iterable[str], given: Iterable[type[Plugin]], problems: list[str]) -> Registry:
    """The built-in plugins and all others; what cannot be loaded is added to `problems`."""
    registry = in_tree_registry()
    for plugin in given:
        _add(registry, plugin, "", problems)
    for each in entry_points(group=GROUP):
        if (found := _loaded(each.value, f"entry point {each.name} of {GROUP}", problems)) is not None:
            _add(registry, found, each.value, problems)
    for place in named:
        if (found := _loaded(place, "--plugin", problems)) is not None:
            _add(registry, found, place, problems)
    return registry


def _add(registry: Registry, plugin: type[Plugin], place: str, problems: list[str]) -> None:
    if registry.get(plugin.name) is plugin:
        return
    try:
        registry.add(plugin)
    except ValueError as error:
        problems.append(f"{place}: {error}" if place else str(error))


def _loaded(place: str, source: str, problems: list[str]) -> type[Plugin] | None:
    module_name, colon, class_name = place.partition(":")
    if not (module_name and colon and class_name):
        problems.append(f"{source}: {place!r} is not of the form module:Class")
        return None
    if (here := os.getcwd()) not in sys.path:
        # A program has only its own folder there, and people try out plugins from where they write them.
        sys.path.append(here)
    try:
        found: object = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except Exception as error:
        # Whatever somebody else's module raises, the message must say which module that was.
        problems.append(f"{source}: {place}: {type(error).__name__}: {error}")
        return None
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        problems.append(f"{source}: {place} is no plugin; a plugin is a class derived from kubesched's Plugin")
        return None
    return found
