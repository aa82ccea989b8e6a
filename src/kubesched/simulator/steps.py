"""The schema of a scenario file, and its validation before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from kubesched.config.decode import decode
from kubesched.config.duration import Duration
from kubesched.config.errors import Problem, join
from kubesched.simulator.expectations import Expectation, NamedObject
from kubesched.simulator.settings import ClusterOptions
from kubesched.snapshots.reader import unwrapped

S = TypeVar("S", bound=msgspec.Struct)

ACTIONS = ("create", "patch", "delete", "expect", "waitFor", "log")
MINUTE = Duration.of(60)
MAX_COUNT = 200_000
"""How many objects one step may create. They all exist before the scenario runs."""


class Target(NamedObject, frozen=True, kw_only=True):
    """The object of a patch or delete."""

    grace: int | None = None
    patch: dict[str, object] = {}  # noqa: RUF012 - a Struct copies it
    subresource: str = ""

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield contradictions and omissions."""
        if not self.name_of:
            yield Problem(path, "names no object", hint="add pod: NAME, node: NAME, or kind: KIND and name: NAME")


class WaitFor(Expectation, frozen=True, rename="camel", kw_only=True):
    """An expectation with a timeout."""

    timeout: Duration = MINUTE


class Step(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One step of a scenario, at a given time or some time after the previous step."""

    at: Duration | None = None
    after: Duration | None = None
    count: int = 1
    """How many objects to create. ``{i}`` in strings is their number, counted from `first`."""
    first: int = 0
    create: object = None
    patch: object = None
    delete: object = None
    expect: object = None
    wait_for: object = None
    log: str = ""


class Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class ScenarioFile(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A scenario file."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
    description: str = ""
    seed: int = 1
    config: object = None
    plugins: tuple[str, ...] = ()
    cluster: ClusterOptions = ClusterOptions()
    duration: Duration = Duration.of(0)
    manifests: tuple[str, ...] = ()
    objects: tuple[dict[str, object], ...] = ()
    steps: tuple[Step, ...] = ()


class StepAction(msgspec.Struct, frozen=True):
    """One validated action of a step: its name, its argument and its path in the file."""

    name: str
    what: Any
    path: str


class PlannedStep(msgspec.Struct, frozen=True):
    """A validated step: its time, absolute or relative to the previous step, and its actions."""

    at: float | None
    after: float
    actions: tuple[StepAction, ...]


def plan_steps(steps: tuple[Step, ...], problems: list[Problem]) -> list[PlannedStep]:
    """Validate all steps. Adds what is wrong to `problems`."""
    plan: list[PlannedStep] = []
    latest, latest_path = 0.0, ""
    for index, step in enumerate(steps):
        path = f"steps[{index}]"
        problems += _timing_problems(step, path)
        actions = tuple(_actions(step, path, problems))
        if not actions and not problems:
            hint = f"give it one of {', '.join(ACTIONS)}"
            problems.append(Problem(path, "does nothing", hint=hint))
        at = None if step.at is None else step.at.seconds
        if at is not None:
            if at < latest:
                hint = f"put it before {latest_path}, or use after"
                problems.append(Problem(f"{path}.at", f"{step.at} is before an earlier step's {latest:g}s", hint=hint))
            latest, latest_path = max(at, latest), path
        plan.append(PlannedStep(at, 0.0 if step.after is None else step.after.seconds, actions))
    return plan


def _timing_problems(step: Step, path: str) -> Iterator[Problem]:
    if step.at is not None and step.after is not None:
        yield Problem(path, "has both at and after", hint="keep one of them")
    for name, given in (("at", step.at), ("after", step.after)):
        if given is not None and given < 0:
            yield Problem(join(path, name), "must not be negative", str(given))
    if step.count < 0:
        yield Problem(join(path, "count"), "must not be negative", step.count)
    if step.count > MAX_COUNT:
        hint = "create the objects in several steps"
        yield Problem(join(path, "count"), f"must be at most {MAX_COUNT:,}", step.count, hint=hint)


def _actions(step: Step, path: str, problems: list[Problem]) -> Iterator[StepAction]:
    if step.log:
        yield StepAction("log", step.log, f"{path}.log")
    if step.create is not None:
        for where, obj in each_object(step.create, f"{path}.create"):
            problems += object_problems(obj, where)
            for number in range(step.first, step.first + min(step.count, MAX_COUNT)):
                yield StepAction("create", numbered(obj, number), where)
    for name, given, form in (
        ("patch", step.patch, Target),
        ("delete", step.delete, Target),
        ("expect", step.expect, Expectation),
        ("waitFor", step.wait_for, WaitFor),
    ):
        if given is not None:
            for where, value in each_object(given, f"{path}.{name}"):
                yield from _decoded(name, form, value, where, problems)


def _decoded(name: str, form: type[Any], value: object, path: str, problems: list[Problem]) -> Iterator[StepAction]:
    decoded = decode(form, value, path, problems)
    if decoded is None:
        return
    problems += decoded.problems(path)
    if name == "patch" and not decoded.patch:
        problems.append(Problem(path, "changes nothing", hint="add patch: with the fields to change"))
    yield StepAction(name, decoded, path)


def each_object(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield one object or several, with their paths. Unpacks a Kubernetes List."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from each_object(each, f"{path}[{index}]")
        return
    found = unwrapped(value)
    if found == [value]:
        yield path, value
    else:
        yield from ((f"{path}.items[{index}]", each) for index, each in enumerate(found))


def object_problems(obj: object, path: str) -> Iterator[Problem]:
    """Yield what is wrong with the basic form of an object."""
    if not isinstance(obj, dict):
        yield Problem(path, "expected an object", obj)
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str):
            yield Problem(join(path, field), "required, must be given", hint="for a pod: apiVersion: v1, kind: Pod")
    metadata = obj.get("metadata") or {}
    if not isinstance(metadata, dict):
        yield Problem(join(path, "metadata"), "expected an object", metadata)
        return
    name = metadata.get("name", metadata.get("generateName"))
    if name is None or name == "":
        yield Problem(join(path, "metadata.name"), "required, must be given")
    elif not isinstance(name, str):
        yield Problem(join(path, "metadata.name"), "expected a string", name, "put it in quotes")


def numbered(value: Any, number: int) -> Any:
    """Return a copy with ``{i}`` in all strings replaced by a number."""
    if isinstance(value, str):
        return value.replace("{i}", str(number))
    if isinstance(value, dict):
        return {numbered(key, number): numbered(each, number) for key, each in value.items()}
    if isinstance(value, list):
        return [numbered(each, number) for each in value]
    return value
