"""What `kubesched explain` reads: its flags, the cluster they name, and the cluster's scheduler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.console import Console

from kubesched.api import objects as api
from kubesched.client.endpoints import endpoint_of
from kubesched.client.protocol import ApiError
from kubesched.explain.explainer import Explainer
from kubesched.explain.standing import Queued
from kubesched.framework.loading import load_all
from kubesched.framework.registry import PluginSource
from kubesched.history.reader import LoggedAttempt, is_decision_file
from kubesched.library.cluster import Cluster
from kubesched.library.configuration import adapted, unknown_plugins
from kubesched.library.live import fetch_attempts, fetch_configuration, fetch_queue, fetch_tries, known_scheduler

NOT_FOUND = 404
T = TypeVar("T")


@dataclass(frozen=True)
class Flags:
    """The options that all forms of the command have."""

    source: tuple[Path, ...] = ()
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    scheduler: str | None = None
    scheduler_ca: Path | None = None
    config: Path | None = None
    plugin: tuple[str, ...] = ()
    plugin_dir: tuple[str, ...] = ()
    what_if: tuple[str, ...] = ()
    output: str | None = None
    watch: bool = False
    interval: float | None = None

    @property
    def decisions(self) -> list[Path]:
        """Files with recorded decisions."""
        return [each for each in self.source if is_decision_file(each)]

    @property
    def manifests(self) -> list[Path]:
        """Files and folders with objects."""
        return [each for each in self.source if not is_decision_file(each)]

    @property
    def only_recorded(self) -> bool:
        """Whether there are recorded decisions and no cluster."""
        given = self.manifests or self.kubeconfig or self.context
        return bool(self.decisions) and not given

    @property
    def is_reconfigured(self) -> bool:
        """Whether the configuration in force is not simply taken."""
        return bool(self.config or self.plugin or self.plugin_dir)

    def over(self, outer: Flags | None) -> Flags:
        """These options, and those of the outer command where these are not given."""
        if outer is None:
            return self
        return Flags(**{each.name: getattr(self, each.name) or getattr(outer, each.name) for each in fields(self)})


@dataclass(frozen=True)
class ReadCluster:
    """The cluster, and what else was read with it."""

    cluster: Cluster
    tries: dict[str, int]
    """How often its pods have been tried, by UID, if events tell."""
    current: dict[str, Any] | None
    """The configuration of the scheduler. None is the default configuration."""
    plugins: Sequence[PluginSource]
    is_changed: bool
    """Whether decisions are made with another configuration than the current one."""

    def show_current(self, explainer: Explainer) -> None:
        """Have the decisions of the current configuration shown next to those of another one."""
        if self.is_changed and self.current is None:
            explainer.beside(self.cluster.reconfigured(None).explainer())
        elif self.is_changed:
            explainer.beside(self.cluster.reconfigured(self.current, self.plugins).explainer(), "scheduler's")


def read_cluster(options: Flags) -> ReadCluster:
    """The cluster that the flags name, with the configuration to decide with."""
    plugins = load_all(options.plugin, options.plugin_dir)
    current, extended = _configurations(options, plugins)
    config = options.config or extended
    changed = options.is_reconfigured and (current is None or config != current)

    def complete(cluster: Cluster, tries: dict[str, int]) -> ReadCluster:
        return ReadCluster(cluster, tries, current, plugins, changed)

    if options.manifests:
        return complete(Cluster.load(*options.manifests, config=config, plugins=plugins), {})
    path, context = options.kubeconfig, options.context
    counts: dict[str, int] = {}
    with Console(stderr=True).status("reading the cluster") as status:

        def on_page(kind: type[api.Object], count: int) -> None:
            counts[endpoint_of(kind).plural] = count
            status.update("reading the cluster: " + ", ".join(f"{n:,} {each}" for each, n in counts.items() if n))

        found = Cluster.from_kubeconfig(path, context=context, config=config, plugins=plugins, on_page=on_page)
        return complete(found, fetch_tries(path, context))


def read_queue(options: Flags) -> dict[str, Queued]:
    """The scheduler's queue, where a kubesched runs the cluster."""
    return _ask_scheduler(options, "the queue of the scheduler is not shown", fetch_queue, {})


def kept_attempts(options: Flags, key: str) -> list[LoggedAttempt]:
    """The attempts of a pod that the scheduler keeps, likewise."""

    def ask(path: Path | None, context: str | None, server: str, authority: str | None) -> list[LoggedAttempt]:
        return fetch_attempts(path, context, server, authority, key)

    return _ask_scheduler(options, "the scheduler's own decision is not shown", ask, [])


def _ask_scheduler(options: Flags, without: str, ask: Callable[..., T], default: T) -> T:
    """Ask a kubesched scheduler at its secure port. If it cannot be asked, the answer goes on without."""
    if options.manifests:
        return default
    url = options.scheduler or known_scheduler(options.kubeconfig, options.context)
    authority = None if options.scheduler_ca is None else str(options.scheduler_ca)
    try:
        return ask(options.kubeconfig, options.context, url, authority) if url else default
    except (ApiError, OSError, msgspec.MsgspecError) as problem:
        if not (isinstance(problem, ApiError) and problem.code == NOT_FOUND):
            warnings.warn(f"{without}: {url}: {problem}", stacklevel=1)
        return default


def _configurations(
    options: Flags, plugins: Iterable[PluginSource]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The scheduler's own configuration, likewise, and the same with `plugins` enabled that it does not use.

    None is the default configuration.
    """
    unknown: dict[str, Any] = {}
    found = _ask_scheduler(options, "the default configuration is assumed", fetch_configuration, unknown)
    if not found.get("profiles"):
        return None, None
    current, missing = adapted(found, plugins)
    if missing:
        warnings.warn(unknown_plugins(missing), stacklevel=1)
    return current, adapted(found, plugins, enabled=True)[0]


def edit_pods(cluster: Cluster, edits: list[Callable[[Any], Any]], about: str) -> None:
    """Change the pod that is asked about; without one, all pending pods."""
    chosen = [cluster.explainer().find(about)] if about else cluster.pending
    for each in chosen:
        changed = each
        for edit in edits:
            changed = edit(changed)
        cluster.add(changed)
