"""The same arrivals under several configurations: what differs, with paired seeds and confidence intervals."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import copysign, inf, isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from kubesched.base.intervals import MeanInterval, in_digits, mean_interval
from kubesched.explain.document import Block, Heading, Table, Text
from kubesched.framework.registry import PluginSource
from kubesched.library.tables import as_frame
from kubesched.simulator.measures import MEASURES, nodes_of_pods
from kubesched.simulator.replay import rescheduled
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.settings import ReplayMode
from kubesched.simulator.simulating import ScenarioSource, scenario_from

DEFAULT = "default"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class VariantRun(msgspec.Struct, frozen=True, rename="camel"):
    """One run of one variant: its measures, and where every pod went."""

    seed: int
    measures: dict[str, float]
    nodes: dict[str, str]
    error: str = ""


class Variant(msgspec.Struct, frozen=True):
    """One of the things compared, by its letter, with all its runs."""

    letter: str
    name: str
    runs: tuple[VariantRun, ...]

    def values(self, name: str) -> list[float]:
        """A measure in every run."""
        return [each.measures.get(name, 0.0) for each in self.runs]

    def mean(self, name: str) -> float:
        """The mean of a measure."""
        values = self.values(name)
        return fmean(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class ScenarioComparison:
    """Variants side by side. The first one is what the others are compared with."""

    source: str
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = field(default=())

    def difference(self, variant: Variant, name: str) -> MeanInterval:
        """A variant's measure minus the first one's: the mean over paired runs with its 95% interval."""
        pairs = zip(self.variants[0].values(name), variant.values(name), strict=True)
        return mean_interval([b - a for a, b in pairs])

    def moved(self, variant: Variant) -> MeanInterval:
        """How many pods go to another node than with the first variant: the mean over paired runs."""
        pairs = zip(self.variants[0].runs, variant.runs, strict=True)
        return mean_interval(
            [sum(other.nodes.get(pod) != node for pod, node in first.nodes.items()) for first, other in pairs]
        )

    def value(self, letter: str, name: str) -> float:
        """A measure by the letter of its variant, for conditions. Raises ValueError if there is no such thing."""
        letters = [each.letter for each in self.variants]
        _check_names(letters, letter, name)
        variant = self.variants[letters.index(letter)]
        return self.moved(variant).mean if name == "moved" else variant.mean(name)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as a dict that can be written as JSON and read again by `load_variant`."""
        summary = {
            each.letter: {
                "moved": self.moved(each).mean,
                **{
                    name: {
                        "mean": each.mean(name),
                        "difference": _as_json(self.difference(each, name)),
                    }
                    for name in MEASURES
                },
            }
            for each in self.variants
        }
        return {
            "source": self.source,
            "summary": summary,
            "variants": [msgspec.to_builtins(each) for each in self.variants],
        }

    def to_frame(self) -> Any:
        """A data frame with a row per variant and seed."""
        return as_frame(
            [
                {"variant": each.letter, "name": each.name, "seed": one.seed, **one.measures}
                for each in self.variants
                for one in each.runs
            ]
        )

    def document(self) -> list[Block]:
        """The comparison as text and tables."""
        runs = len(self.variants[0].runs)
        seeds = f"{runs} paired seed{'' if runs == 1 else 's'}"
        variants = f"{len(self.variants)} variant{'' if len(self.variants) == 1 else 's'}"
        blocks: list[Block] = [Heading(f"{self.source}: {variants}, {seeds}", 1)]
        blocks += [Text(each) for each in self.notes]
        blocks.append(Table(("", "variant"), tuple((each.letter, each.name) for each in self.variants)))
        heads = ["", *(each.letter for each in self.variants)]
        width = "" if runs == 1 else " (95%)"
        heads += [f"{each.letter} - {self.variants[0].letter}{width}" for each in self.variants[1:]]
        rows = [self._row(name) for name in MEASURES if any(any(each.values(name)) for each in self.variants)]
        moved = [self.moved(each) for each in self.variants[1:]]
        rows.append(["moved", "-", *(in_digits(each.mean) for each in moved), *map(_shown, moved)])
        blocks.append(Table(tuple(heads), tuple(tuple(row) for row in rows)))
        about = "One run has no intervals; see --seeds." if runs == 1 else "* the interval excludes zero."
        blocks.append(Text(f"{about} moved: pods that go to another node than with the first."))
        errors = [(each.letter, str(one.seed), one.error) for each in self.variants for one in each.runs if one.error]
        if errors:
            blocks.append(Table(("variant", "seed", "error"), tuple(errors)))
        return blocks

    def _row(self, name: str) -> list[str]:
        cells = [name, *(in_digits(each.mean(name)) for each in self.variants)]
        return [*cells, *(_shown(self.difference(each, name)) for each in self.variants[1:])]


def _shown(found: MeanInterval) -> str:
    """A difference with its interval, which one run does not have."""
    mean, low, high = (in_digits(each, 3, sign="+") for each in (found.mean, found.low, found.high))
    if not isfinite(found.half) or not (found.mean or found.half):
        return mean
    return f"{mean} [{low}, {high}]{' *' if found.excludes_zero else ''}"


def _as_json(found: MeanInterval) -> dict[str, float | None]:
    known = isfinite(found.half)
    return {"mean": found.mean, "low": found.low if known else None, "high": found.high if known else None}


def compare(
    source: ScenarioSource,
    *variants: str | Path | Mapping[str, Any],
    seeds: Sequence[int] = (1,),
    plugins: Sequence[str | PluginSource] = (),
    keep: bool = False,
    cluster: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> ScenarioComparison:
    """Run a scenario, a recording or a snapshot with several configurations, each with all seeds.

    `source` and `cluster` are those of `simulate`. A variant is a KubeSchedulerConfiguration, as a file or a dict, a
    file.py with plugins that are enabled beside the default ones, the word ``default``, or the JSON of an earlier
    comparison, for example by another version. Of a recording, the arrivals are replayed. All pods of a snapshot are
    scheduled anew, unless `keep` leaves them where they are.
    """
    if not seeds or not 1 <= len(variants) <= len(LETTERS):
        raise ValueError(f"a comparison needs one or more seeds, and from 1 to {len(LETTERS)} variants")
    scenario = _prepared(scenario_from(source, cluster), keep)
    todo = [
        _planned(scenario, each, plugins, letter, seeds) for letter, each in zip(LETTERS, variants, strict=False)
    ]  # all of them first, so that a mistake in the last one shows before the first one runs
    found: list[Variant] = []
    for planned in todo:
        if isinstance(planned, Variant):
            found.append(planned)
            continue
        letter, name, varied = planned
        runs = []
        for seed in seeds:
            if progress is not None:
                progress(name, seed)
            runs.append(_run(varied, seed))
        found.append(Variant(letter, name, tuple(runs)))
    return ScenarioComparison(str(source) if isinstance(source, str | Path) else scenario.name, tuple(found))


def _planned(
    scenario: Scenario,
    variant: str | Path | Mapping[str, Any],
    plugins: Sequence[str | PluginSource],
    letter: str,
    seeds: Sequence[int],
) -> Variant | tuple[str, str, Scenario]:
    """A variant that has been run before, or what to run, with its letter and name."""
    if isinstance(variant, str | Path) and str(variant).endswith(".json"):
        return load_variant(Path(variant), letter, seeds)
    varied = _varied(scenario, variant, plugins)
    varied.prepared()
    return letter, "configuration" if isinstance(variant, Mapping) else str(variant), varied


def _prepared(scenario: Scenario, keep: bool) -> Scenario:
    if scenario.contents.is_recording:
        scenario.replay = ReplayMode.ARRIVALS
        scenario.follow_ties = False  # a variant must not be helped by the recording
    elif scenario.contents.items and not keep:
        scenario.contents = rescheduled(scenario.contents)
    return scenario


def _varied(
    scenario: Scenario, variant: str | Path | Mapping[str, Any], plugins: Sequence[str | PluginSource]
) -> Scenario:
    varied = replace(scenario, config=None)
    if isinstance(variant, str | Path) and str(variant).endswith(".py"):
        varied.vary(None, [*plugins, str(variant)], ())
    else:
        varied.vary(None if str(variant) == DEFAULT else variant, plugins, ())
    return varied


def _run(scenario: Scenario, seed: int) -> VariantRun:
    report = run(scenario, seed)
    return VariantRun(seed, dict(report.measures), nodes_of_pods(report), report.error)


def load_variant(path: Path, letter: str, seeds: Sequence[int]) -> Variant:
    """The first variant of an earlier comparison, with the runs of these seeds. Raises `ScenarioFileError`."""
    try:
        tree = msgspec.json.decode(path.read_bytes())
        found = msgspec.convert(tree["variants"][0], Variant)
    except (OSError, KeyError, IndexError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ScenarioFileError([f"{path}: not the JSON of kubesched compare: {error}"]) from None
    runs = {each.seed: each for each in found.runs}
    missing = [str(seed) for seed in seeds if seed not in runs]
    if missing:
        raise ScenarioFileError(
            [f"{path}: has no run with seed {', '.join(missing)}; it has {', '.join(map(str, runs))}"]
        )
    return Variant(letter, f"{path.name}: {found.name}", tuple(runs[seed] for seed in seeds))


# --- conditions -------------------------------------------------------------------------------------------------------

_COMPARE: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def holds(comparison: ScenarioComparison, condition: str) -> bool:
    """Whether a condition such as ``B.pending > A.pending * 1.1`` holds. Raises ValueError if it cannot be read."""
    return bool(_value(_parsed(condition), comparison.value, condition))


def check_condition(condition: str, variants: int) -> None:
    """Raise ValueError if a condition cannot be read, or names what a comparison of so many variants does not have."""

    def known(letter: str, name: str) -> float:
        _check_names(LETTERS[:variants], letter, name)
        return 1.0

    _value(_parsed(condition), known, condition)


def _check_names(letters: Sequence[str], letter: str, name: str) -> None:
    if letter not in letters:
        raise ValueError(f"there is no variant {letter}; there are {', '.join(letters)}")
    if name != "moved" and name not in MEASURES:
        raise ValueError(f"there is no measure {name!r}; there are moved, {', '.join(MEASURES)}")


def _parsed(condition: str) -> ast.expr:
    try:
        return ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(condition) from None


def _unreadable(condition: str) -> ValueError:
    return ValueError(f"condition {condition!r} cannot be read; write it as 'B.pending > A.pending'")


def _value(tree: ast.expr, measure: Callable[[str, str], float], condition: str) -> float:
    def of(part: ast.expr) -> float:
        return _value(part, measure, condition)

    match tree:
        case ast.BoolOp(op=op, values=values):
            found = [of(each) for each in values]  # all of them, so that a wrong name is noticed in any case
            return float(all(found) if isinstance(op, ast.And) else any(found))
        case ast.Compare(left=left, ops=[compared], comparators=[right]) if type(compared) in _COMPARE:
            return float(_COMPARE[type(compared)](of(left), of(right)))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _quotient(of(left), of(right))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
            return _ARITHMETIC[type(sign)](of(left), of(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.Constant(value=value) if isinstance(value, int | float):
            return float(value)
        case ast.Attribute(value=ast.Name(id=letter), attr=name):
            return measure(letter, name)
    raise _unreadable(condition)


def _quotient(left: float, right: float) -> float:
    """Nothing divided by nothing is not a number: no comparison with it holds, so that equal zeros do not fail."""
    if right:
        return left / right
    return copysign(inf, left) if left else nan
