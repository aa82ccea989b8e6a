"""The configuration page: the profiles in force, a check of an edited text, and what it would change."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.config import dump
from kubesched.config.errors import ConfigError, Problem
from kubesched.config.load import load
from kubesched.config.plugins import Point, expand
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.decision import Decision
from kubesched.explain.explainer import Explainer
from kubesched.framework.registry import PluginSource
from kubesched.library.cluster import Cluster
from kubesched.library.configuration import Config, adapted, configuration, known_plugins

CHANGEABLE = ("profiles", "extenders")
"""The parts of a configuration that can change while the cluster runs, as in kube-scheduler-simulator."""
MOST_DECIDED = 2000
MOST_SECONDS = 10.0
MOST_MOVED = 200


class Configuring:
    """One configuration, and questions about others."""

    def __init__(self, config: Config, plugins: Sequence[PluginSource]) -> None:
        """Raises ConfigError."""
        self.plugins = tuple(plugins)
        self._registry = known_plugins(self.plugins)
        self.config = configuration(config, self._registry, self.plugins)
        self.unknown: list[str] = []
        """Plugins of the running scheduler that are not known here."""

    def following(self, config: JSON) -> Configuring:
        """The same with the configuration of a running scheduler, as far as its plugins are known."""
        known, unknown = adapted(config, self.plugins)
        made = self.other(known)
        made.unknown = unknown
        return made

    def other(self, config: Config) -> Configuring:
        """The same with another configuration. Raises ConfigError."""
        return Configuring(config, self.plugins)

    def shown(self) -> JSON:
        """The configuration in force: its text, and which plugins run where."""
        return {"text": dump.to_yaml(self.config), "profiles": self._profiles(self.config)}

    def check_changeable(self, wanted: Configuring) -> None:
        """Raises ValueError if a running cluster cannot change to another configuration."""
        now, then = dump.to_builtins(self.config), dump.to_builtins(wanted.config)
        fixed = [name for name in {**now, **then} if name not in CHANGEABLE and now.get(name) != then.get(name)]
        if fixed:
            raise ValueError(
                f"only {' and '.join(CHANGEABLE)} can change while the cluster runs; "
                f"for {', '.join(fixed)}, start kubesched up again with --config"
            )

    def check(self, text: str) -> JSON:
        """Everything that is wrong with a text, with its place; or which plugins would run where."""
        try:
            loaded = load(text, "the text", points=self._registry.points, args_types=self._registry.args_types)
        except ConfigError as error:
            return {"problems": [_problem(each, text) for each in error.problems], "warnings": [], "profiles": []}
        return {"problems": [], "warnings": loaded.warnings, "profiles": self._profiles(loaded.config)}

    def _profiles(self, config: KubeSchedulerConfiguration) -> list[JSON]:
        points = self._registry.points
        found = []
        for profile in config.profiles:
            resolved = expand(profile, points)
            found.append(
                {
                    "name": profile.scheduler_name,
                    "points": [
                        {
                            "point": point.value,
                            "plugins": list(resolved[point]),
                            "weights": [resolved.weights[name] for name in resolved[point]]
                            if point is Point.SCORE
                            else [],
                        }
                        for point in Point
                        if resolved[point]
                    ],
                }
            )
        return found

    def pair(self, cluster: Cluster, text: str) -> tuple[Cluster, Cluster]:
        """Copies of a cluster, under the configuration in force and under another. Raises ConfigError."""
        return cluster.copy(), cluster.reconfigured(text, self.plugins)


def _problem(problem: Problem, text: str) -> JSON:
    where = str(problem)
    return {"path": problem.path, "message": where, "line": _line_of(problem.path, text)}


def _line_of(path: str, text: str) -> int | None:
    """The line of a field, as far as its last name tells; None if that is not certain."""
    name = path.rpartition(".")[2].partition("[")[0]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip(" -").startswith(f"{name}:")]
    return lines[0] if name and len(lines) == 1 else None


def moved_pods(now: Cluster, then: Cluster) -> JSON:
    """Today's pods decided under both configurations, each as if it alone had not been scheduled yet.

    A pod has moved if its node is not among the best ones of the other configuration: ties do not count.
    """
    end = time.monotonic() + MOST_SECONDS
    here, there = now.explainer(), then.explainer()
    pods = sorted(here.pods, key=lambda pod: bool(pod.node_name))
    moved: list[JSON] = []
    decided = 0
    for pod in pods[:MOST_DECIDED]:
        if time.monotonic() > end:
            break
        if pod.is_terminal or pod.spec.scheduling_gates:
            continue
        decided += 1
        change = _change(here, there, pod)
        if change is not None:
            moved.append(change)
    return {
        "decided": decided,
        "pods": len(pods),
        "moved": len(moved),
        "items": moved[:MOST_MOVED],
    }


def _change(here: Explainer, there: Explainer, pod: api.Pod) -> JSON | None:
    before, after = _decided(here, pod), _decided(there, pod)
    old, new = _node(before), _node(after)
    if old == new or (old and after is not None and _is_best(after, old)):
        return None
    return {
        "pod": pod.key,
        "on": pod.node_name,
        "before": old,
        "after": new,
        "message": "no profile has its schedulerName" if after is None else after.message,
    }


def _decided(explainer: Explainer, pod: api.Pod) -> Decision | None:
    engine = explainer.engines.get(pod.scheduler_name)
    if engine is None:
        return None
    cluster = explainer.cluster
    known = cluster.pods.get(pod.uid)
    free = replace(pod, spec=replace(pod.spec, node_name=""))
    if known is None:
        return engine.schedule(cluster.classes.info(free), record=True)
    cluster.lift(known)
    try:
        return engine.schedule(cluster.classes.info(free), record=True)
    finally:
        cluster.put_back(known, pod.node_name)


def _node(decision: Decision | None) -> str:
    return decision.node if decision is not None else ""


def _is_best(decision: Decision, node: str) -> bool:
    """Whether a node has the highest score, too."""
    scores = decision.scores
    if scores is None or not len(scores.totals):
        return False
    place = np.flatnonzero(scores.rows == scores.table.row_of.get(node, -1))
    return bool(len(place)) and int(scores.totals[place[0]]) == int(scores.totals.max())
