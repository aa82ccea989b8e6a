"""The table of plugins that can be named in a configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from kubesched.framework.plugin import Plugin, points_of


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

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            self.add(plugin)

    def add(self, plugin: type[Plugin]) -> None:
        """Make a plugin known; a name can be taken only once."""
        if plugin.name in self._plugins:
            taken = self._plugins[plugin.name]
            raise ValueError(
                f"plugin name {plugin.name!r} of {plugin.__module__}.{plugin.__qualname__} is taken by "
                f"{taken.__module__}.{taken.__qualname__}; rename one of them"
            )
        self._plugins[plugin.name] = plugin

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
