"""Finds the daemon's plugins: built in, named by flags, in installed packages, or passed by a program."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.daemon.flags.declarations import PluginFlags
from kubesched.framework.loading import add_all, forget_modules
from kubesched.framework.registry import PluginSource, Registry
from kubesched.plugins import in_tree_registry


def known_plugins(
    flags: PluginFlags, given: Iterable[PluginSource], problems: list[str]
) -> tuple[Registry, Collection[str]]:
    """Return all plugins, and the names of those requested explicitly. Load failures are added to `problems`."""
    registry = in_tree_registry()
    asked = add_all(registry, problems, named=flags.plugin, folders=flags.plugin_dir, given=given)
    return registry, asked


def idle_plugins(asked: Iterable[str], config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Yield a warning for each requested plugin that no profile enables."""
    enabled = {name for profile in config.profiles for name in profile.plugins.names()}
    for name in dict.fromkeys(asked):
        if name not in enabled:
            yield (
                f"plugin {name} is known but no profile enables it; start with --enable {name}, "
                f"or add {{name: {name}}} to profiles[].plugins.multiPoint.enabled in the configuration"
            )


class PluginFolders:
    """Detects changes to plugin files while the scheduler runs."""

    def __init__(self, folders: Collection[str]) -> None:
        self._folders = folders
        self._seen = self._look()

    def changes(self) -> list[str]:
        """Return the files added, changed or removed since the last call, and unload their modules."""
        before, self._seen = self._seen, self._look()
        changed = sorted(file for file in before.keys() | self._seen if before.get(file) != self._seen.get(file))
        if changed:
            for folder in self._folders:
                forget_modules(folder)
        return changed

    def _look(self) -> dict[str, tuple[int, int]]:
        files = [file for folder in self._folders for file in Path(folder).rglob("*.py")]
        return {str(file): (stat.st_mtime_ns, stat.st_size) for file in files if (stat := _stat(file)) is not None}


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:  # removed after it was listed
        return None
