"""A cluster in memory with the real scheduler in it, on a clock that jumps.

Only the API server and time are simulated: a pod goes through queue, plugins, Reserve, Permit and binding as in
production. An hour of backoff takes a moment, and the same test has the same outcome every time.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, VirtualLoop
from kubesched.config.errors import Problem
from kubesched.config.load import load
from kubesched.config.read import read
from kubesched.config.switches import disable_plugin, enable_plugin
from kubesched.config.types import API_VERSION, KIND, Point
from kubesched.engine.decision import Decision
from kubesched.framework.errors import PluginError
from kubesched.framework.functions import plugin_class
from kubesched.framework.handle import WaitingPods
from kubesched.framework.registry import PluginSource
from kubesched.framework.status import Code, Status
from kubesched.library.manifests import Source, read_objects, read_pod
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.subscribers.publisher import OnDecision
from kubesched.testing.faulty_api import FaultyApi
from kubesched.testing.recording import LogLines, RecordedEvents

T = TypeVar("T")


class NotTriedError(AssertionError):
    """The scheduler has not tried this pod."""


class VirtualCluster:
    """An in-memory API server, a scheduler, and virtual time.

    Call `use` and `configure` first: the scheduler starts with the first `schedule` or `advance`, and then it is too
    late for them. Close the cluster at the end, or use it in a ``with`` statement.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        loop = self._runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.api = FaultyApi(self.clock, seed=seed)
        """The API server; its calls can fail, be slow, or hang."""
        self.events = RecordedEvents()
        self.log = LogLines()
        self.decisions: list[Decision] = []
        """The decision of every attempt, in order, with all scores and rejections."""
        self._seed = seed
        self._registry = in_tree_registry()
        self._tree: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
        self._enabled: list[dict[str, Any]] = []
        self._disabled: list[str] = []
        self._args: list[dict[str, Any]] = []
        self._scheduler: Scheduler | None = None
        self._running: asyncio.Task[None] | None = None

    # --- before it starts ---------------------------------------------------------------------------------------------

    def use(
        self,
        plugin: PluginSource,
        *,
        weight: int | None = None,
        args: Mapping[str, object] | None = None,
        disable: Iterable[str] = (),
    ) -> None:
        """Enable a plugin at all its points in every profile, beside the default plugins.

        `args` are as in a configuration file. A plugin that sorts the queue replaces the default order. `disable` names
        plugins that it is meant to replace.
        """
        self._not_started("use a plugin")
        name = plugin_class(plugin).name
        self._registry.add(plugin)
        self._enabled.append({"name": name} | ({} if weight is None else {"weight": weight}))
        self._disabled += disable
        if args is not None:
            self._args.append({"name": name, "args": dict(args)})

    def know(self, *plugins: PluginSource) -> None:
        """Register plugins that the configuration enables by name."""
        self._not_started("register a plugin")
        for each in plugins:
            self._registry.add(each)

    def configure(self, config: Path | str | Mapping[str, object]) -> None:
        """Use a KubeSchedulerConfiguration: a file, its text, or the tree."""
        self._not_started("configure it")
        if isinstance(config, Mapping):
            self._tree = {**self._tree, **config}
            return
        problems: list[Problem] = []
        tree = read(config.read_bytes() if isinstance(config, Path) else config, problems)
        if problems or not isinstance(tree, dict):
            raise ValueError("; ".join(map(str, problems)) or "the configuration is not an object")
        self._tree = tree

    def start(self) -> None:
        """Start the scheduler, unless it runs already."""
        if self._scheduler is None:
            self.run(self._start())

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler itself, started if it was not."""
        self.start()
        assert self._scheduler is not None
        return self._scheduler

    # --- the cluster --------------------------------------------------------------------------------------------------

    def add(self, *objects: Source) -> None:
        """Create objects, or update those that exist: structs, dicts, or JSON or YAML text."""
        for each in read_objects(objects).objects:
            if self.api.get(type(each), each.key) is None:
                self.api.create(each)
            else:
                self.api.update(each)
        self._settle_if_started()

    def remove(self, *objects: api.Object) -> None:
        """Delete objects."""
        for each in objects:
            self.api.delete(each)
        self._settle_if_started()

    def schedule(self, pod: Source) -> Decision:
        """Create a pod and return the decision about it, as far as it gets without time passing.

        The decision covers the whole attempt: if Reserve, Permit or the binding rejected the pod, it has no node. A pod
        that waits on Permit has a node, but is not bound yet: see `node_of`.
        """
        self.start()
        created = read_pod(pod)
        before = len(self.decisions)
        self.add(created)
        if not any(each.pod.key == created.key for each in self.decisions[before:]):
            raise NotTriedError(self._why_not_tried(created))
        return self.decision(created.name, created.namespace)

    def advance(self, seconds: float) -> None:
        """Advance virtual time and run everything that is due."""
        self.start()
        self.run(self.clock.advance(seconds))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's event loop, on its clock: to start an extender's server, for example."""
        return self._runner.run(work)

    # --- pods and decisions -------------------------------------------------------------------------------------------

    def decision(self, name: str, namespace: str = "default") -> Decision:
        """The latest decision about a pod."""
        found = [each for each in self.decisions if (each.pod.name, each.pod.namespace) == (name, namespace)]
        if not found:
            raise NotTriedError(f"pod {namespace}/{name} has not been tried")
        return found[-1]

    def attempts(self, name: str, namespace: str = "default") -> int:
        """How often a pod was tried."""
        return sum((each.pod.name, each.pod.namespace) == (name, namespace) for each in self.decisions)

    def pod(self, name: str, namespace: str = "default") -> api.Pod:
        """A pod, as stored by the API server."""
        found = self.api.get(api.Pod, f"{namespace}/{name}")
        if found is None:
            raise LookupError(f"there is no pod {namespace}/{name}")
        return found

    def node_of(self, name: str, namespace: str = "default") -> str:
        """The node that a pod is bound to; empty while it is not."""
        return self.pod(name, namespace).node_name

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that have a node and wait on Permit, to `allow` or to `reject` them."""
        return self.scheduler.shared.waiting

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the scheduler and drop everything."""
        if self._scheduler is not None and self._running is not None:
            self.api.heal()
            self.run(self._stop(self._scheduler, self._running))
            self._scheduler = None
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _settle_if_started(self) -> None:
        if self._scheduler is not None:
            self.run(self.clock.settle())

    def _not_started(self, what: str) -> None:
        if self._scheduler is not None:
            raise RuntimeError(
                f"it is too late to {what}: the scheduler runs already; do it before the first schedule()"
            )

    async def _start(self) -> None:
        registry = self._registry
        loaded = load(self._configuration(), points=registry.points, args_types=registry.args_types)
        scheduler = build_scheduler(
            loaded.config,
            registry,
            self.api,
            self.clock,
            Random(self._seed),
            recorder=self.events,
            log=self.log,
            subscribers=[OnDecision(self.decisions.append)],
            detailed=True,
        )
        self._running = asyncio.create_task(scheduler.run(), name="scheduler")
        self._scheduler = scheduler
        await self.clock.settle()

    async def _stop(self, scheduler: Scheduler, running: asyncio.Task[None]) -> None:
        await scheduler.stop()
        await running

    def _configuration(self) -> dict[str, object]:
        """The configuration, with the plugins of `use` added to every profile."""
        tree = copy.deepcopy(self._tree)
        tree["profiles"] = tree.get("profiles") or [{"schedulerName": "default-scheduler"}]
        for entry in self._enabled:
            enable_plugin(tree, entry, sorts=Point.QUEUE_SORT in self._registry.points[entry["name"]])
        for name in self._disabled:
            disable_plugin(tree, name)
        for profile in tree["profiles"]:
            profile["pluginConfig"] = [*(profile.get("pluginConfig") or []), *self._args]
        return tree

    def _why_not_tried(self, pod: api.Pod) -> str:
        profiles = self.scheduler.profiles
        if pod.scheduler_name not in profiles:
            return f"no profile is called {pod.scheduler_name!r}; build the pod with scheduler={next(iter(profiles))!r}"
        if pod.node_name:
            return f"pod {pod.key} is on node {pod.node_name} already; leave the node out for it to be scheduled"
        try:
            status = profiles[pod.scheduler_name].engine.framework.run_pre_enqueue(pod)
        except PluginError as problem:
            status = Status(Code.ERROR, str(problem), plugin=problem.plugin)
        if status is not None:
            return f"pod {pod.key} is held back by PreEnqueue plugin {status.plugin}: {status.message}"
        errors = "; ".join(self.log.errors()) or "its queue shows " + str(self.scheduler.queue.pod_lists())
        return f"pod {pod.key} has no decision: {errors}"
