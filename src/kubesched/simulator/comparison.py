"""The same arrivals under several configurations: what differs, with paired seeds and confidence intervals."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec

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
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09)
"""Student's t for 95% by degrees of freedom, from 1."""
_NORMAL = 1.96


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
class PairedDifference:
    """How a measure differs from the first variant: mean of the differences of paired runs, with a 95% interval."""

    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes that there is no difference."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class ScenarioComparison:
    """Variants side by side. The first one is what the others are compared with."""

    source: str
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = field(default=())

    def difference(self, variant: Variant, name: str) -> PairedDifference:
        """A variant's measure minus the first one's, run by run."""
        pairs = zip(self.variants[0].values(name), variant.values(name), strict=True)
        return interval([b - a for a, b in pairs])

    def moved(self, variant: Variant) -> float:
        """How many pods go to another node than with the first variant, on average."""
        counts = []
        for first, other in zip(self.variants[0].runs, variant.runs, strict=True):
            counts.append(sum(other.nodes.get(pod) != node for pod, node in first.nodes.items()))
        return fmean(counts) if counts else 0.0

    def value(self, letter: str, name: str) -> float:
        """A measure by the letter of its variant, for conditions. Raises ValueError if there is no such thing."""
        variant = next((each for each in self.variants if each.letter == letter), None)
        if variant is None:
            raise ValueError(f"there is no variant {letter}; there are {', '.join(e.letter for e in self.variants)}")
        if name == "moved":
            return self.moved(variant)
        if name not in MEASURES:
            raise ValueError(f"there is no measure {name!r}; there are moved, {', '.join(MEASURES)}")
        return variant.mean(name)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as a dict that can be written as JSON and read again by `load_variant`."""
        summary = {
            each.letter: {
                "moved": self.moved(each),
                **{
                    name: {
                        "mean": each.mean(name),
                        "difference": msgspec.to_builtins(self.difference(each, name)),
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
        blocks: list[Block] = [Heading(f"{self.source}: {len(self.variants)} variants, {seeds}", 1)]
        blocks += [Text(each) for each in self.notes]
        blocks.append(Table(("", "variant"), tuple((each.letter, each.name) for each in self.variants)))
        heads = ["", *(each.letter for each in self.variants)]
        width = "" if runs == 1 else " (95%)"
        heads += [f"{each.letter} - {self.variants[0].letter}{width}" for each in self.variants[1:]]
        rows = [self._row(name) for name in MEASURES if any(any(each.values(name)) for each in self.variants)]
        moved = ["moved", "-", *(f"{self.moved(each):g}" for each in self.variants[1:])]
        rows.append([*moved, *("" for _ in self.variants[1:])])
        blocks.append(Table(tuple(heads), tuple(tuple(row) for row in rows)))
        about = "One run has no intervals; see --seeds." if runs == 1 else "* the interval excludes zero."
        blocks.append(Text(f"{about} moved: pods that go to another node than with the first."))
        errors = [(each.letter, str(one.seed), one.error) for each in self.variants for one in each.runs if one.error]
        if errors:
            blocks.append(Table(("variant", "seed", "error"), tuple(errors)))
        return blocks

    def _row(self, name: str) -> list[str]:
        cells = [name, *(f"{each.mean(name):.4g}" for each in self.variants)]
        for each in self.variants[1:]:
            found = self.difference(each, name)
            star = " *" if found.is_clear else ""
            width = f" [{found.low:+.3g}, {found.high:+.3g}]{star}" if len(each.runs) > 1 else ""
            cells.append(f"{found.mean:+.3g}{width}")
        return cells


def interval(differences: Sequence[float]) -> PairedDifference:
    """The mean with its 95% interval. One run alone has no interval: its difference stands for itself."""
    mean = fmean(differences) if differences else 0.0
    if len(differences) < 2:
        return PairedDifference(mean, mean, mean)
    freedom = len(differences) - 1
    factor = _T[freedom - 1] if freedom <= len(_T) else _NORMAL
    half = factor * stdev(differences) / len(differences) ** 0.5
    return PairedDifference(mean, mean - half, mean + half)


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
    scenario = _prepared(scenario_from(source, cluster), keep)
    found: list[Variant] = []
    for each in variants:
        letter = LETTERS[len(found) % len(LETTERS)]
        if isinstance(each, str | Path) and str(each).endswith(".json"):
            found.append(load_variant(Path(each), letter, seeds))
            continue
        varied = _varied(scenario, each, plugins)
        varied.prepared()
        name = "configuration" if isinstance(each, Mapping) else str(each)
        runs = []
        for seed in seeds:
            if progress is not None:
                progress(name, seed)
            runs.append(_run(varied, seed))
        found.append(Variant(letter, name, tuple(runs)))
    return ScenarioComparison(str(source) if isinstance(source, str | Path) else scenario.name, tuple(found))


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
    except (OSError, KeyError, IndexError, TypeError, msgspec.MsgspecError) as error:
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
    ast.Div: operator.truediv,
}


def holds(comparison: ScenarioComparison, condition: str) -> bool:
    """Whether a condition such as ``B.pending > A.pending * 1.1`` holds. Raises ValueError if it cannot be read."""
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise ValueError(f"condition {condition!r} cannot be read; write it as 'B.pending > A.pending'") from None
    return bool(_value(tree, comparison, condition))


def _value(tree: ast.expr, comparison: ScenarioComparison, condition: str) -> float:
    def of(part: ast.expr) -> float:
        return _value(part, comparison, condition)

    match tree:
        case ast.BoolOp(op=ast.And(), values=values):
            return float(all(map(of, values)))
        case ast.BoolOp(op=ast.Or(), values=values):
            return float(any(map(of, values)))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return float(_COMPARE[type(op)](of(left), of(right)))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
            try:
                return _ARITHMETIC[type(sign)](of(left), of(right))
            except (ZeroDivisionError, OverflowError):
                return float("inf")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.Constant(value=value) if isinstance(value, int | float):
            return float(value)
        case ast.Attribute(value=ast.Name(id=letter), attr=name):
            return comparison.value(letter, name)
    raise ValueError(f"condition {condition!r} cannot be read; write it as 'B.pending > A.pending'")
