"""The scheduler of a local cluster: the daemon, started again when its plugins or its configuration change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy

from kubesched.base.types import JSON
from kubesched.config import dump
from kubesched.daemon.plugin_reloading import reload_problems
from kubesched.daemon.process import RESTART, Process
from kubesched.daemon.setup import Setup, SetupError
from kubesched.framework.registry import PluginSource
from kubesched.local.cluster import LocalCluster, prepare_scheduler
from kubesched.local.flags import UpOptions
from kubesched.web.configuring import CHANGEABLE


class LocalScheduler:
    """Runs one daemon after the other until the end."""

    def __init__(
        self,
        cluster: LocalCluster,
        options: UpOptions,
        setup: Setup,
        plugins: Sequence[PluginSource],
        on_first_serving: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._setup = setup
        self._plugins = plugins
        self._on_first_serving: Callable[[], None] | None = on_first_serving
        self._initial = dump.to_builtins(setup.config)
        self._process: Process | None = None
        self._previous: JSON | None = None
        self._change: asyncio.Future[None] | None = None

    @property
    def config(self) -> JSON:
        """The configuration in force, complete, in its JSON form."""
        return dump.to_builtins(self._setup.config)

    async def run(self) -> int:
        """Run until the end and return the exit code. Raises `SetupError` if the scheduler cannot start."""
        if self._options.cluster.no_scheduler:
            self._serving()
            await asyncio.Event().wait()
        code = RESTART
        try:
            while code == RESTART:
                code = await self._run_once()
        finally:
            if self._change is not None and not self._change.done():
                self._change.set_exception(SetupError(["the cluster is stopping"]))
        return code

    async def _run_once(self) -> int:
        try:
            if self._process is not None:
                self._setup = prepare_scheduler(self._options, self._setup.log, self._plugins)
            self._process = self._cluster.scheduler(self._setup, self._plugins, self._serving)
            return await self._process.run()
        except SetupError as error:
            change = self._change
            if change is None or change.done():
                raise
            # Only now has the new configuration turned out to be unusable.
            self._options.new_config = self._previous
            change.set_exception(error)
            return RESTART

    def _serving(self) -> None:
        if self._on_first_serving is not None:
            self._on_first_serving()
            self._on_first_serving = None
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def problems(self, config: JSON) -> list[str]:
        """What is wrong with a configuration, of which profiles and extenders are read."""
        trial = copy(self._options)
        trial.new_config = self._merged(config)
        return reload_problems(trial, self._plugins)

    async def configure(self, config: JSON | None) -> None:
        """Restart with the profiles and extenders of another configuration, None for the one at the start.

        Returns once the new scheduler runs. Raises `SetupError` if it cannot, and the old one goes on.
        """
        if self._options.cluster.no_scheduler:
            if config is not None:
                raise SetupError(["the cluster was started with --no-scheduler"])
            return
        if config is not None and (problems := self.problems(config)):
            raise SetupError(problems)
        assert self._process is not None, "the scheduler must run"
        self._previous = self._options.new_config
        self._options.new_config = None if config is None else self._merged(config)
        self._change = asyncio.get_running_loop().create_future()
        self._process.restart()
        await self._change

    def _merged(self, config: JSON) -> JSON:
        kept = {name: value for name, value in self._initial.items() if name not in CHANGEABLE}
        return kept | {name: config[name] for name in CHANGEABLE if config.get(name) is not None}
