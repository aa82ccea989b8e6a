"""A scenario ready to run, whether it was written in YAML or Python."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubesched.config.errors import ConfigError
from kubesched.config.load import load as load_config
from kubesched.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from kubesched.framework.loading import add_all
from kubesched.framework.registry import PluginSource, Registry
from kubesched.plugins import in_tree_registry
from kubesched.simulator.cluster import MakeScheduler
from kubesched.simulator.scenario_client import ScenarioClient
from kubesched.simulator.settings import ClusterOptions, ReplayMode
from kubesched.snapshots.contents import Contents

Act = Callable[[ScenarioClient], Awaitable[object]]


class ScenarioFileError(Exception):
    """A scenario file cannot be run. The message lists all of its problems."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(slots=True)
class Scenario:
    """What happens, and in which cluster."""

    name: str
    source: str
    act: Act
    seed: int = 1
    config: Mapping[str, Any] | str | None = None
    """A KubeSchedulerConfiguration, or its file name. None means the default with all `plugins` enabled."""
    plugins: Sequence[str | PluginSource] = ()
    plugin_folders: Sequence[str] = ()
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    duration: float = 0.0
    """The minimum duration, and the maximum of the progress bar."""
    scheduler: MakeScheduler | None = None
    description: str = ""
    contents: Contents = field(default_factory=Contents)
    """The cluster at the start, and for a replay what changes in it."""
    replay: ReplayMode | None = None
    """How the changes in `contents` are replayed; None if there are none."""
    follow_ties: bool = True
    """Whether a replay of arrivals takes the recorded node where several are equally good."""
    speed: float | None = None
    """Replays so many times as fast as it was recorded; None for as fast as possible."""

    def prepared(self) -> tuple[KubeSchedulerConfiguration, Registry]:
        """Load the configuration and all plugins. Raises `ScenarioFileError` with all problems."""
        problems: list[str] = []
        registry = in_tree_registry()
        named = [_relative_to(Path(self.source).parent, each) for each in self.plugins if isinstance(each, str)]
        given = [each for each in self.plugins if not isinstance(each, str)]
        found: list[str] = []
        asked = add_all(registry, found, named=named, folders=self.plugin_folders, given=given)
        problems += [f"{self.source}: plugins: {problem.removeprefix('--plugin: ')}" for problem in found]
        try:
            config = self._configuration(registry, asked)
        except OSError as error:
            problems.append(f"{error.filename}: {error.strerror}")
        except ConfigError as error:
            problems += str(error).splitlines()
        else:
            if config.extenders:
                problems.append(
                    f"{self.source}: config.extenders: a simulation has no network, and virtual time cannot wait for "
                    "one; write the extender as a plugin, or use kubesched up"
                )
        if problems:
            raise ScenarioFileError(problems)
        return config, registry

    def vary(
        self,
        config: str | Path | Mapping[str, Any] | None,
        plugins: Sequence[str | PluginSource],
        folders: Sequence[str],
    ) -> None:
        """Use another configuration and more plugins. File names are relative to the working directory."""
        if config is not None:
            self.config = config if isinstance(config, Mapping) else str(Path(config).absolute())
        more = (_relative_to(Path.cwd(), place) if isinstance(place, str) else place for place in plugins)
        self.plugins = (*self.plugins, *more)
        self.plugin_folders = folders

    def _configuration(self, registry: Registry, asked: Sequence[str]) -> KubeSchedulerConfiguration:
        tree: Mapping[str, Any] | bytes
        source = f"{self.source}: config"
        if self.config is None:
            enabled = [{"name": name} for name in asked]
            profiles = [{"plugins": {"multiPoint": {"enabled": enabled}}}] if asked else []
            tree = {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}
        elif isinstance(self.config, str):
            path = Path(self.source).parent / self.config
            source, tree = str(path), path.read_bytes()
        else:
            tree = {"apiVersion": API_VERSION, "kind": KIND, **self.config}
        given = dict(tree) if isinstance(tree, Mapping) else tree
        return load_config(given, source, points=registry.points, args_types=registry.args_types).config


def _relative_to(folder: Path, place: str) -> str:
    """Resolve the file name in a plugin's place relative to a folder."""
    file, colon, name = place.rpartition(":")
    if place.endswith(".py"):
        file, colon, name = place, "", ""
    return f"{folder / file}{colon}{name}" if file.endswith(".py") else place
