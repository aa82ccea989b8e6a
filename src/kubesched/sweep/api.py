"""Sweeping and tuning from Python: what the commands do, with data frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, overload

from kubesched.base.documents import DocumentError, read_yaml
from kubesched.base.intervals import MeanInterval
from kubesched.library.tables import as_frame
from kubesched.simulator.loading import load, scenario_files
from kubesched.sweep.executors import PROCESSES, opened_executor
from kubesched.sweep.jobs import Job
from kubesched.sweep.results import Run, SweepResults
from kubesched.sweep.space import parameters
from kubesched.sweep.sweeping import Shown, run_jobs, summary
from kubesched.sweep.tuning import Objective, RunAll, Task, Tuned, TuningError, search

DEFAULT = "default"
"""Instead of a file: kube-scheduler's default configuration."""
OWN = "own"
"""The label of a scenario's own configuration."""
Files = str | Path | Iterable[str | Path]
Configs = Iterable[str | Path] | Mapping[str, Mapping[str, Any] | str | Path]


class Sweep(Sequence[Run]):
    """All runs of a sweep, in the order of scenarios, configurations and seeds."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def failed(self) -> list[Run]:
        """The runs that ended with an error."""
        return [each for each in self if each.outcome.error]

    def summary(self) -> dict[tuple[str, str], dict[str, MeanInterval]]:
        """By scenario and configuration, the mean of each metric over the seeds with its 95 % interval."""
        return summary(self)

    def to_dict(self) -> list[dict[str, Any]]:
        """A list of dicts, one per run, that can be written as JSON."""
        return [as_row(each) for each in self]

    def to_frame(self) -> Any:
        """A data frame with a row per run."""
        rows = [as_row(each) for each in self]
        return as_frame([{**row, **row.pop("metrics")} for row in rows])

    def summary_frame(self) -> Any:
        """A data frame with a row per scenario, configuration and metric: mean and 95 % interval over the seeds."""
        return as_frame(
            [
                {
                    "scenario": Path(scenario).name,
                    "config": config,
                    "metric": name,
                    "mean": found.mean,
                    "low": found.low,
                    "high": found.high,
                }
                for (scenario, config), metrics in self.summary().items()
                for name, found in metrics.items()
            ]
        )

    def __repr__(self) -> str:
        return f"<Sweep: {len(self)} runs, {len(self.failed)} failed>"


def as_row(run: Run) -> dict[str, Any]:
    """A run as JSON."""
    job, outcome = run
    row = {"scenario": Path(job.scenario).name, "config": job.label, "seed": job.seed}
    return row | {"metrics": dict(outcome.metrics), "error": outcome.error, "seconds": round(outcome.seconds, 3)}


def sweep(
    scenarios: Files,
    *,
    configs: Configs = (),
    seeds: Iterable[int] = range(1, 11),
    plugins: Sequence[str] = (),
    results: str | Path | None = None,
    executor: str | Executor = PROCESSES,
    workers: int | None = None,
    shown: Shown = lambda _: None,
) -> Sweep:
    """Run every scenario with every configuration and every seed.

    `configs` are files or the word ``default``, or configurations as dicts by name; without any, each scenario's own.
    `results` is an SQLite file: runs that it has are not repeated. `executor` is what ``--executor`` takes, or any
    `concurrent.futures.Executor`; processes are started anew, so a script needs ``if __name__ == "__main__"``. `shown`
    is called with the progress after each run. Raises `ScenarioFileError` before anything runs.
    """
    todo = jobs_of(scenario_paths(scenarios), _named(configs), seeds, plugins)
    with running(results, executor, workers, shown) as run_all:
        return Sweep(run_all(todo))


def tune(
    scenarios: Files,
    *,
    weights: Sequence[str] = (),
    arguments: Sequence[str] = (),
    minimise: Sequence[str] = (),
    maximise: Sequence[str] = (),
    config: str | Path | Mapping[str, Any] | None = None,
    trials: int = 30,
    seeds: Iterable[int] = range(1, 6),
    held_out: Iterable[int] = range(1001, 1011),
    plugins: Sequence[str] = (),
    results: str | Path | None = None,
    executor: str | Executor = PROCESSES,
    workers: int | None = None,
    shown: Shown = lambda _: None,
) -> Tuned:
    """Search weights (``"NodeResourcesFit=0..10"``) and arguments (``"NodeResourcesFit.scoringStrategy.type=A|B"``).

    `config` is where the search begins, by default the default configuration. The gain is measured with the `held_out`
    seeds. The rest is as in `sweep`. Needs Optuna: ``pip install 'kubesched[tune]'``.
    """
    objectives = [*(Objective(each) for each in minimise), *(Objective(each, maximise=True) for each in maximise)]
    if not objectives:
        raise TuningError("there is no objective; give minimise or maximise")
    files = [str(each) for each in scenario_paths(scenarios)]
    space, known = parameters(weights, arguments), list(seeds)
    task = Task(files, _tree(config), space, objectives, known, list(held_out), plugin_places(plugins))
    batch = max(1, (workers or os.cpu_count() or 1) // max(1, len(files) * len(known)))
    with running(results, executor, workers, shown) as run_all:
        return search(task, trials, batch, run_all)


@contextmanager
def running(
    results: str | Path | None, executor: str | Executor, workers: int | None, shown: Shown
) -> Iterator[RunAll]:
    """Runs jobs with results and an executor. An executor that was given is not closed."""
    opened = nullcontext(executor) if isinstance(executor, Executor) else opened_executor(executor, workers)
    with SweepResults(None if results is None else Path(results)) as known, opened as pool:
        yield lambda todo: run_jobs(todo, known, pool, shown)


def scenario_paths(given: Files) -> list[Path]:
    """The files, folders resolved. All must load."""
    paths = [given] if isinstance(given, str | Path) else given
    files = [file.absolute() for path in paths for file in scenario_files(Path(path))]
    for file in files:
        load(file).prepared()
    return files


def jobs_of(
    files: Sequence[Path],
    configs: Mapping[str, Mapping[str, Any] | str],
    seeds: Iterable[int],
    plugins: Sequence[str],
) -> list[Job]:
    """A job for each scenario, configuration and seed."""
    labelled: list[tuple[str, Mapping[str, Any] | str | None]] = [*configs.items()] or [(OWN, None)]
    places, known = plugin_places(plugins), list(seeds)
    return [
        Job(str(file), config, label, seed, places) for file in files for label, config in labelled for seed in known
    ]


def plugin_places(given: Sequence[str]) -> tuple[str, ...]:
    """Plugins with absolute file names, for workers in other folders."""
    return tuple(str(Path(each).absolute()) if each.partition(":")[0].endswith(".py") else each for each in given)


def _named(configs: Configs) -> dict[str, Mapping[str, Any] | str]:
    """Configurations by label: the name of a file without its ending, or the whole path if another has the same."""
    if isinstance(configs, Mapping):
        return {
            name: each if isinstance(each, Mapping) else str(Path(each).absolute()) for name, each in configs.items()
        }
    paths = list(map(Path, configs))
    stems = [each.stem for each in paths]
    return {
        each.stem if stems.count(each.stem) == 1 else str(each): {} if str(each) == DEFAULT else str(each.absolute())
        for each in paths
    }


def _tree(config: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if config is None or isinstance(config, Mapping):
        return dict(config or {})
    try:
        tree = read_yaml(Path(config).read_bytes())
    except DocumentError as error:
        raise TuningError(f"{config}: {error}") from None
    if not isinstance(tree, dict):
        raise TuningError(f"{config}: expected a KubeSchedulerConfiguration")
    return tree
