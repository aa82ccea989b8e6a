"""Runs the experiment of the FGD paper on a trace: six policies, ten seeds, and what each allocates.

python examples/gpu-sharing/run.py --nodes nodes.csv --pods pods_default.csv --plot figure.png
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from statistics import fmean, pstdev
from time import monotonic

from experiment import POLICIES, run
from openb import Trace, TraceError, read_trace
from rich.console import Console
from rich.table import Table

from kubesched.sweep.executors import opened_executor

Results = dict[str, dict[int, dict[int, float]]]
"""The allocated per cent, by policy, seed and per cent of arrived load."""
WIDE = 120
"""Characters that the table needs."""
FIGURES = (".png", ".svg", ".pdf")
SHOWN = (80, 90, 95, 100, 110, 130)


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments, run everything, print it."""
    args = _parser().parse_args(argv)
    try:
        trace = read_trace(args.nodes, args.pods)
    except TraceError as problem:
        print(problem, file=sys.stderr)
        return 1
    with opened_executor(workers=args.processes) as executor:
        results = run_all(trace, args.policies, args.seeds, executor)
    if args.output == "json":
        print(json.dumps(results))
    else:
        console = Console()
        Console(width=max(console.width, WIDE)).print(table(results, args.pods.stem))
    if args.plot:
        plot(results, args.plot, args.pods.stem)
    return 0


def run_all(trace: Trace, policies: Sequence[str], seeds: Sequence[int], executor: Executor) -> Results:
    """All policies with all seeds, side by side. Progress goes to standard error."""
    started = monotonic()
    jobs = {executor.submit(run, trace, policy, seed): (policy, seed) for seed in seeds for policy in policies}
    results: Results = {policy: {seed: {} for seed in seeds} for policy in policies}
    for number, done in enumerate(as_completed(jobs), 1):
        policy, seed = jobs[done]
        results[policy][seed] = done.result()
        spent = monotonic() - started
        left = spent / number * (len(jobs) - number)
        if sys.stderr.isatty():
            print(f"\r{number} of {len(jobs)} runs, {spent:.0f} s, {left:.0f} s left ", end="", file=sys.stderr)
    return results


def table(results: Results, title: str) -> Table:
    """Mean and deviation over the seeds."""
    made = Table("policy", *(f"{load} %" for load in SHOWN), title=f"{title}: per cent of all GPUs allocated, by load")
    for policy, by_seed in results.items():
        made.add_row(policy, *(_mean_and_deviation(by_seed, load) for load in SHOWN))
    return made


def _mean_and_deviation(by_seed: Mapping[int, Mapping[int, float]], load: int) -> str:
    values = [each[load] for each in by_seed.values()]
    return f"{fmean(values):.2f} ± {pstdev(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"


def plot(results: Results, path: Path, title: str) -> None:
    """The paper's figure: allocation over arrived load, a line per policy and a band of one deviation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for policy, by_seed in results.items():
        loads = sorted(next(iter(by_seed.values())))
        columns = [[each[load] for each in by_seed.values()] for load in loads]
        means, deviations = [fmean(each) for each in columns], [pstdev(each) for each in columns]
        (line,) = axes.plot(loads, means, label=policy)
        low, high = zip(*((m - d, m + d) for m, d in zip(means, deviations, strict=True)), strict=True)
        axes.fill_between(loads, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(title=title, xlabel="arrived load (% of all GPUs)", ylabel="allocated (% of all GPUs)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=Path, required=True, metavar="N.csv", help="the trace's nodes")
    parser.add_argument("--pods", type=Path, required=True, metavar="P.csv", help="the trace's pods")
    parser.add_argument(
        "--policies",
        type=_policies,
        default=list(POLICIES),
        metavar="A,B",
        help=f"of {', '.join(POLICIES)}; all by default",
    )
    parser.add_argument(
        "--seeds", type=_seeds, default=list(range(42, 52)), metavar="42-51", help='such as "42-51" or "1,2,7"'
    )
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--plot", type=_figure, metavar="FILE", help="draw the figure, as .png, .svg or .pdf")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many runs at the same time")
    return parser


def _policies(text: str) -> list[str]:
    names = {each.lower(): each for each in POLICIES}
    unknown = [each for each in text.split(",") if each.strip().lower() not in names]
    if unknown:
        raise argparse.ArgumentTypeError(f"no policy is called {unknown[0]!r}; there are {', '.join(POLICIES)}")
    return [names[each.strip().lower()] for each in text.split(",")]


def _seeds(text: str) -> list[int]:
    return list(dict.fromkeys(_each_seed(text)))


def _each_seed(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
            raise argparse.ArgumentTypeError(f"{part!r} is neither a seed nor a range of seeds such as 42-51")
        yield from range(int(first), int(last or first) + 1)


def _figure(text: str) -> Path:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise argparse.ArgumentTypeError("drawing needs matplotlib: pip install 'kubesched[plot]'") from None
    path = Path(text)
    if path.suffix not in FIGURES:
        raise argparse.ArgumentTypeError(f"{text} must end in {', '.join(FIGURES)}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path


if __name__ == "__main__":
    sys.exit(main())
