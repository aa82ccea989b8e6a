"""What a search may change in a configuration: weights of Score plugins, and arguments of plugins."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = int | float | str
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")
_INDEX = re.compile(r"\[(\d+)\]")


class SpaceError(ValueError):
    """A parameter that cannot be searched. The message says what to write instead."""


@dataclass(frozen=True)
class Parameter:
    """One thing to change: a weight, or an argument at a path such as ``scoringStrategy.resources[0].weight``."""

    plugin: str
    path: str
    """Empty for the weight."""
    choices: tuple[str, ...] = ()
    """The values to choose from, or none if there is a range."""
    low: float = 0
    high: float = 0
    whole: bool = True

    @property
    def name(self) -> str:
        return f"{self.plugin}.{self.path}" if self.path else self.plugin


def parameters(weights: Sequence[str], args: Sequence[str]) -> list[Parameter]:
    """``NodeResourcesFit=0..10`` for weights; ``NodeResourcesFit.scoringStrategy.type=A|B`` for arguments."""
    found = [_parsed(each, is_weight=True) for each in weights] + [_parsed(each, is_weight=False) for each in args]
    if not found:
        raise SpaceError("there is nothing to search; give --weight PLUGIN=0..10 or --arg PLUGIN.path=A|B")
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpaceError(f"{twice} is there twice")
    return found


def _parsed(text: str, *, is_weight: bool) -> Parameter:
    name, _, values = text.partition("=")
    plugin, _, path = name.partition(".")
    if not plugin or bool(path) is is_weight or not values:
        form = "PLUGIN=0..10" if is_weight else "PLUGIN.path.to.field=1..5, or =A|B"
        raise SpaceError(f"{text!r}: expected {form}")
    span = _RANGE.fullmatch(values)
    if span is None:
        if is_weight:
            raise SpaceError(f"{text!r}: a weight needs a range such as 0..10")
        return Parameter(plugin, path, tuple(values.split("|")))
    low, high = map(float, span.groups())
    whole = "." not in span[1] and "." not in span[2]
    if high < low or (is_weight and (low < 0 or high > 100 or not whole)):
        bounds = "from 0 to 100, without fractions" if is_weight else "from low to high"
        raise SpaceError(f"{text!r}: expected a range {bounds}")
    return Parameter(plugin, path, (), low, high, whole)


def configured(base: Mapping[str, Any], chosen: Mapping[Parameter, Value]) -> dict[str, Any]:
    """The configuration with these values, in all of its profiles."""
    tree: dict[str, Any] = copy.deepcopy(dict(base))
    profiles = tree.setdefault("profiles", [])
    if not profiles:
        profiles.append({})
    for profile in profiles:
        for parameter, value in chosen.items():
            if parameter.path:
                _set_argument(profile, parameter, value)
            else:
                _set_weight(profile, parameter.plugin, int(value))
    return tree


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    """At Score, whatever multiPoint says. Weight 0 turns scoring off; a weight of 0 in a configuration means 1."""
    score = profile.setdefault("plugins", {}).setdefault("score", {})
    enabled = [each for each in score.get("enabled") or () if each.get("name") != plugin]
    disabled = [each for each in score.get("disabled") or () if each.get("name") != plugin]
    if not any(each.get("name") == "*" for each in disabled):
        disabled.append({"name": plugin})
    score["disabled"] = disabled
    score["enabled"] = [*enabled, {"name": plugin, "weight": weight}] if weight else enabled


def _set_argument(profile: dict[str, Any], parameter: Parameter, value: Value) -> None:
    configs = profile.setdefault("pluginConfig", [])
    entry = next((each for each in configs if each.get("name") == parameter.plugin), None)
    if entry is None:
        entry = {"name": parameter.plugin, "args": {}}
        configs.append(entry)
    node: Any = entry.setdefault("args", {})
    *steps, last = _steps(parameter)
    for step, after in zip(steps, [*steps[1:], last], strict=True):
        node = _child(node, step, parameter, [] if isinstance(after, int) else {})
    _child(node, last, parameter, value, replace=True)


def _steps(parameter: Parameter) -> list[str | int]:
    """The names and indexes of a path."""
    found: list[str | int] = []
    for part in parameter.path.split("."):
        name, *indexes = _INDEX.split(part)[0], *_INDEX.findall(part)
        found += [name, *map(int, indexes)]
    return found


def _child(node: Any, step: str | int, parameter: Parameter, made: Any, *, replace: bool = False) -> Any:
    """What is at a step, made if it is not there."""
    if isinstance(step, int) and isinstance(node, list) and step <= len(node):
        if step == len(node):
            node.append(made)
    elif isinstance(step, str) and isinstance(node, dict):
        node.setdefault(step, made)
    else:
        raise SpaceError(f"{parameter.name}: the configuration has no {step!r} there; write it into --config first")
    if replace:
        node[step] = made
    return node[step]
