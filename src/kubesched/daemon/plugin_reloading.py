"""Restarts the scheduler when a plugin's file changes, so that its author sees the effect at once.

A change that cannot be loaded is logged, and the scheduler keeps the plugins that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.base.log import ERROR, Log
from kubesched.cluster.state import ClusterState
from kubesched.config.errors import ConfigError
from kubesched.daemon.config_file import configuration
from kubesched.daemon.flags import Options
from kubesched.daemon.plugins import PluginFolders, known_plugins
from kubesched.engine.profiles import build_engines
from kubesched.framework.errors import PluginStartError
from kubesched.framework.handle import Services
from kubesched.framework.places import short_path
from kubesched.framework.registry import PluginSource
from kubesched.queue.registrations import event_map

LOOK_SECONDS = 0.5


async def plugins_changed(options: Options, given: Iterable[PluginSource], clock: Clock, log: Log) -> None:
    """Wait until files in a plugin folder have changed and can be loaded."""
    folders = PluginFolders(options.plugins.plugin_dir)
    while True:
        await clock.sleep(LOOK_SECONDS)
        changed = folders.changes()
        if not changed:
            continue
        files = ", ".join(map(short_path, changed))
        problems = reload_problems(options, given)
        if not problems:
            log(0, "Plugins have changed, restarting", files=files)
            return
        for problem in problems:
            log(ERROR, "Plugins have changed but cannot be loaded, keeping the old ones", err=problem)


_ON_TRIAL = Services(clock=SystemClock())


def reload_problems(options: Options, given: Iterable[PluginSource] = ()) -> list[str]:
    """Return the problems that would stop a scheduler with the current plugins from starting."""
    problems: list[str] = []
    registry, _ = known_plugins(options.plugins, given, problems)
    try:
        config = configuration(options, registry).config
        # This also runs each plugin's __init__, where an error must not end the running scheduler.
        engines = build_engines(config, registry, ClusterState(options.gates.features), Random(0), services=_ON_TRIAL)
        event_map(engine.framework for engine in engines.values())
    except (ConfigError, OSError, PluginStartError) as error:
        problems += str(error).splitlines()
    return problems
