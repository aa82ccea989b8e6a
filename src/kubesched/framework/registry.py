"""The table of plugins that a configuration can name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubesched.framework.contract import check_contract
from kubesched.framework.functions import PluginFunction, plugin_class
from kubesched.framework.places import place_of
from kubesched.framework.plugin import Plugin, points_of

PluginSource = type[Plugin] | PluginFunction[..., Any]
"""A plugin as it is passed in: a class or a decorated function."""

BUILT_IN = "built-in"
PACKAGE = "package"
FILE = "file"
PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a plugin comes from."""

    kind: str
    """One of built-in, package, file, program."""
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
        for plugin in plugins:
            self.add(plugin, origin)

    def add(self, source: PluginSource, origin: Origin | None = None) -> None:
        """Register a plugin. Each name can be registered only once.

        Raises ValueError, with file and line and what to change, for a class that cannot be run as a plugin.
        """
        plugin = plugin_class(source)
        name = getattr(plugin, "name", None)
        if name in self._plugins:
            taken = self._plugins[plugin.name]
            raise ValueError(
                f"plugin name {plugin.name!r} of {_described(plugin)} is taken by {_described(taken)}; "
                "rename one of them"
            )
        check_contract(plugin)
        self._plugins[plugin.name] = plugin
        self._origins[plugin.name] = origin or Origin(PROGRAM, plugin.__module__)

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
        try:
            return self._plugins[name]
        except KeyError:
            raise UnknownPluginError(name, self._plugins) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    @property
    def points(self) -> dict[str, frozenset[str]]:
        """The extension points each plugin takes part in."""
        return {name: points_of(plugin) for name, plugin in self._plugins.items()}

    @property
    def args_types(self) -> dict[str, type]:
        """The structs that arguments are decoded into, for plugins that have arguments."""
        return {name: plugin.args_type for name, plugin in self._plugins.items() if plugin.args_type is not None}

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each plugin's scores if the configuration gives none."""
        return {name: plugin.default_weight for name, plugin in self._plugins.items()}


def _described(plugin: type[Plugin]) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__} ({place_of(getattr(plugin, 'written_as', plugin))})"
