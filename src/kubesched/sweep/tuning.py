"""Searches for a configuration that does better, and measures by how much on arrivals that were not searched on.

Optuna proposes values; every proposal runs with the same seeds, so that differences come from the configuration alone.
What the search finds looks better than it is, because it was chosen for these seeds. So the gain is measured again with
other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from statistics import fmean
from typing import Any, Literal

from kubesched.base.intervals import MeanInterval, mean_interval
from kubesched.config.types import API_VERSION, KIND
from kubesched.library.tables import as_frame
from kubesched.sweep.jobs import METRICS, Job
from kubesched.sweep.results import Run
from kubesched.sweep.space import Parameter, Value, configured

BASE = "base"
RunAll = Callable[[Sequence[Job]], list[Run]]


class TuningError(Exception):
    """Tuning is not possible. The message says why."""


@dataclass(frozen=True)
class Objective:
    """A metric to make small or large."""

    metric: str
    maximise: bool = False

    @property
    def direction(self) -> Literal["minimize", "maximize"]:
        return "maximize" if self.maximise else "minimize"

    def gain(self, before: float, after: float) -> float:
        """How much better `after` is."""
        return after - before if self.maximise else before - after


@dataclass(frozen=True)
class Task:
    """What to tune, on which scenarios and seeds."""

    scenarios: Sequence[str]
    base: Mapping[str, Any]
    space: Sequence[Parameter]
    objectives: Sequence[Objective]
    seeds: Sequence[int]
    held_out: Sequence[int]
    plugins: Sequence[str] = ()

    def jobs(self, config: Mapping[str, Any], label: str, seeds: Sequence[int]) -> list[Job]:
        """The runs of one configuration."""
        return [Job(each, config, label, seed, self.plugins) for each in self.scenarios for seed in seeds]


@dataclass(frozen=True)
class Proposal:
    """Values that were tried, and what the objectives were on average."""

    number: int
    chosen: Mapping[Parameter, Value]
    values: tuple[float, ...]

    @property
    def named(self) -> dict[str, Value]:
        """The values by the names of their parameters."""
        return {each.name: value for each, value in self.chosen.items()}


@dataclass(frozen=True)
class Gain:
    """One objective on arrivals that were not tuned on."""

    objective: Objective
    base: float
    tuned: float
    gain: MeanInterval
    """Above 0 means better. If the interval has 0 in it, nothing was shown."""

    @property
    def is_shown(self) -> bool:
        """Whether the gain is beyond chance."""
        return self.gain.low > 0


@dataclass(frozen=True)
class Tuned:
    """The result."""

    pareto: Sequence[Proposal]
    """Candidates that none beats in every objective; with one objective, the best."""
    best: Proposal
    config: Mapping[str, Any]
    gains: Sequence[Gain]
    base: tuple[float, ...]
    """What the objectives were before, on the arrivals that were tuned on."""
    objectives: Sequence[Objective]

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict that can be written as JSON."""
        gains = {
            each.objective.metric: {
                "base": each.base,
                "tuned": each.tuned,
                "gain": each.gain.mean,
                "interval": [each.gain.low, each.gain.high] if isfinite(each.gain.half) else None,
                "shown": each.is_shown,
            }
            for each in self.gains
        }
        pareto = [{"values": self._values(each), "chosen": each.named} for each in self.pareto]
        return {"pareto": pareto, "chosen": self.best.named, "gains": gains, "config": self.config}

    def to_frame(self) -> Any:
        """A data frame with a row per configuration that none beats: whether it was taken, objectives, values."""
        rows = [{"taken": each is self.best, **self._values(each), **each.named} for each in self.pareto]
        return as_frame(rows)

    def gains_frame(self) -> Any:
        """A data frame with a row per objective: before, after, and the gain with its interval."""
        rows = [
            {
                "metric": each.objective.metric,
                "base": each.base,
                "tuned": each.tuned,
                "gain": each.gain.mean,
                "low": each.gain.low,
                "high": each.gain.high,
            }
            for each in self.gains
        ]
        return as_frame(rows)

    def _values(self, proposal: Proposal) -> dict[str, float]:
        return {each.metric: value for each, value in zip(self.objectives, proposal.values, strict=True)}


def search(task: Task, trials: int, batch: int, run_all: RunAll, seed: int = 0) -> Tuned:
    """Search, choose, and measure the gain."""
    unknown = [each.metric for each in task.objectives if each.metric not in METRICS]
    if unknown:
        raise TuningError(f"there is no metric {unknown[0]!r}; the metrics are {', '.join(METRICS)}")
    if find_spec("optuna") is None:
        raise TuningError("tuning needs Optuna: pip install 'kubesched[tune]'")
    if set(task.seeds) & set(task.held_out):
        raise TuningError("--seeds and --held-out share a seed: the gain must be measured on other arrivals")
    base = _means(task, run_all(task.jobs(task.base, BASE, task.seeds)))
    candidates = [Proposal(-1, {}, base), *_searched(task, trials, batch, run_all, seed)]
    pareto = [each for each in candidates if not any(_beats(task, other, each) for other in candidates)]
    best = min(pareto, key=lambda each: _distance(task, each, pareto))
    config = {"apiVersion": API_VERSION, "kind": KIND, **configured(task.base, best.chosen)}
    return Tuned(pareto, best, config, _gains(task, config, run_all), base, task.objectives)


def _searched(task: Task, trials: int, batch: int, run_all: RunAll, seed: int) -> list[Proposal]:
    """What Optuna proposes, `batch` candidates at a time."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=[each.direction for each in task.objectives], sampler=optuna.samplers.TPESampler(seed=seed)
    )
    found: list[Proposal] = []
    while len(found) < trials:
        asked = [study.ask() for _ in range(min(batch, trials - len(found)))]
        chosen = [{each: _proposed(trial, each) for each in task.space} for trial in asked]
        jobs = [
            task.jobs(configured(task.base, values), f"trial {trial.number}", task.seeds)
            for trial, values in zip(asked, chosen, strict=True)
        ]
        runs = run_all([job for each in jobs for job in each])
        size = len(task.scenarios) * len(task.seeds)
        for index, (trial, values) in enumerate(zip(asked, chosen, strict=True)):
            means = _means(task, runs[index * size : (index + 1) * size])
            study.tell(trial, list(means))
            found.append(Proposal(trial.number, values, means))
    return found


def _proposed(trial: Any, parameter: Parameter) -> Value:
    proposed: Value
    if parameter.choices:
        proposed = trial.suggest_categorical(parameter.name, parameter.choices)
    elif parameter.whole:
        proposed = trial.suggest_int(parameter.name, int(parameter.low), int(parameter.high))
    else:
        proposed = trial.suggest_float(parameter.name, parameter.low, parameter.high)
    return proposed


def _means(task: Task, runs: Sequence[Run]) -> tuple[float, ...]:
    failed = next((each for each in runs if each.outcome.error), None)
    if failed is not None:
        raise TuningError(f"{failed.job.label}, seed {failed.job.seed}: {failed.outcome.error}")
    return tuple(fmean(each.outcome.metrics[o.metric] for each in runs) for o in task.objectives)


def _beats(task: Task, one: Proposal, other: Proposal) -> bool:
    """Whether one is as good in everything and better in something."""
    pairs = zip(task.objectives, other.values, one.values, strict=True)
    gains = [each.gain(before, after) for each, before, after in pairs]
    return min(gains) >= 0 and max(gains) > 0


def _distance(task: Task, candidate: Proposal, pareto: Sequence[Proposal]) -> float:
    """How far a candidate is from the best of each objective, each scaled to the range of the Pareto set."""
    total = 0.0
    for index, objective in enumerate(task.objectives):
        values = [each.values[index] for each in pareto]
        ideal = max(values) if objective.maximise else min(values)
        width = max(values) - min(values)
        total += abs(candidate.values[index] - ideal) / width if width else 0.0
    return total


def _gains(task: Task, config: Mapping[str, Any], run_all: RunAll) -> list[Gain]:
    """Both configurations on the held-out seeds, in pairs."""
    jobs = [*task.jobs(task.base, BASE, task.held_out), *task.jobs(config, "tuned", task.held_out)]
    runs = run_all(jobs)
    half = len(runs) // 2
    _means(task, runs)  # raises for a run that failed
    found = []
    for objective in task.objectives:
        before, after = ([r.outcome.metrics[objective.metric] for r in part] for part in (runs[:half], runs[half:]))
        differences = [objective.gain(b, a) for b, a in zip(before, after, strict=True)]
        found.append(Gain(objective, fmean(before), fmean(after), mean_interval(differences)))
    return found
