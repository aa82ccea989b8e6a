"""The table of plugins that a configuration can name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kubesched.framework.contract import check_contract
from kubesched.framework.functions import PluginFunction, plugin_class
from kubesched.framework.places import place_of
from kubesched.framework.plugin import Plugin, points_of

PluginSource = type[Plugin] | PluginFunction[..., Any]
"""A plugin as it is passed in: a class or a decorated function."""

T = TypeVar("T")

BUILT_IN = "built-in"
CONTRIB = "contrib"
PACKAGE = "package"
FILE = "file"
PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a plugin comes from."""

    kind: str
    """One of built-in, contrib, package, file, program."""
    name: str = ""
    """The package, the file, or the module."""
    version: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.name, self.version) if part)


class UnknownPluginError(KeyError):
    """A name that no plugin has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        super().__init__(f"no plugin is called {name!r}{hint}")

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show its message quoted


class Registry(Mapping[str, type[Plugin]]):
    """Plugin classes by name."""

    def __init__(self, plugins: Iterable[PluginSource] = (), origin: Origin | None = None) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        self._origins: dict[str, Origin] = {}
        self._offers: dict[str, str] = {}
        for plugin in plugins:
            self.add(plugin, origin)

    def add(self, source: PluginSource, origin: Origin | None = None) -> None:
        """Register a plugin. Each name can be registered only once.

        Raises ValueError, with file and line and what to change, for a class that cannot be run as a plugin.
        """
        plugin = plugin_class(source)
        name = getattr(plugin, "name", None)
        if name in self._plugins and self._origins[name].kind != CONTRIB:
            taken = self._plugins[plugin.name]
            raise ValueError(
                f"plugin name {plugin.name!r} of {_described(plugin)} is taken by {_described(taken)}; "
                "rename one of them"
            )
        check_contract(plugin)
        self._offers.pop(plugin.name, None)
        self._plugins[plugin.name] = plugin
        self._origins[plugin.name] = origin or Origin(PROGRAM, plugin.__module__)

    def offer(self, offers: Mapping[str, str], origin: Origin) -> None:
        """Make plugins known by name and place (``module:Class``). A module is imported when its plugin is first used.

        A plugin that is added under the same name takes the place of one that was only offered.
        """
        self._offers.update(offers)
        self._origins.update(dict.fromkeys(offers, origin))

    def replace(self, source: PluginSource, origin: Origin | None = None) -> None:
        """Replace the plugin of the same name, if there is one, by a newer state of it."""
        plugin = plugin_class(source)
        old = self._plugins.pop(plugin.name, None)
        try:
            self.add(source, origin)
        except ValueError:
            if old is not None:
                self._plugins[plugin.name] = old
            raise

    def origin(self, name: str) -> Origin:
        """Where a plugin comes from."""
        return self._origins[self[name].name]

    def __getitem__(self, name: str) -> type[Plugin]:
        if name in self._offers:
            module, _, attribute = self._offers[name].partition(":")
            self.add(getattr(importlib.import_module(module), attribute), self._origins[name])
        try:
            return self._plugins[name]
        except KeyError:
            raise UnknownPluginError(name, self) from None

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or name in self._offers

    def __iter__(self) -> Iterator[str]:
        return iter((*self._plugins, *self._offers))

    def __len__(self) -> int:
        return len(self._plugins) + len(self._offers)

    @property
    def points(self) -> Mapping[str, frozenset[str]]:
        """The extension points each plugin takes part in."""
        return _Derived(self, points_of)

    @property
    def args_types(self) -> Mapping[str, type | None]:
        """The structs that arguments are decoded into; None for plugins without arguments."""
        return _Derived(self, lambda plugin: plugin.args_type)

    @property
    def weights(self) -> Mapping[str, int]:
        """The weight of each plugin's scores if the configuration gives none."""
        return _Derived(self, lambda plugin: plugin.default_weight)


class _Derived(Mapping[str, T]):
    """A value per plugin, found when it is looked up, so that plugins that are never named are never imported."""

    def __init__(self, registry: Registry, value: Callable[[type[Plugin]], T]) -> None:
        self._registry = registry
        self._value = value

    def __getitem__(self, name: str) -> T:
        return self._value(self._registry[name])

    def __contains__(self, name: object) -> bool:
        return name in self._registry

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)


def _described(plugin: type[Plugin]) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__} ({place_of(getattr(plugin, 'written_as', plugin))})"
