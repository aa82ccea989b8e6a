"""Scenarios in YAML: read, validated as a whole, and turned into the calls that a Python scenario makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from kubesched.base.documents import DocumentError, compose_yaml
from kubesched.client.protocol import ApiError
from kubesched.config.decode import decode
from kubesched.config.errors import Problem
from kubesched.config.read import read
from kubesched.simulator.expectations import Expectation
from kubesched.simulator.kinds import kind_problems
from kubesched.simulator.scenario import Act, Scenario, ScenarioFileError
from kubesched.simulator.scenario_client import ScenarioClient, ScenarioError
from kubesched.simulator.steps import (
    PlannedStep,
    ScenarioFile,
    StepAction,
    Target,
    WaitFor,
    each_object,
    object_problems,
    plan_steps,
)
from kubesched.snapshots.contents import Contents, of_objects
from kubesched.snapshots.reader import ManifestError
from kubesched.snapshots.reader import load as load_contents

API_VERSION = "kubesched.io/v1alpha1"
KIND = "Scenario"
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]')


def load_yaml(path: Path, text: bytes | None = None) -> Scenario:
    """Load a scenario from a file, or from text already read.

    Raises `ScenarioFileError` with all problems and their lines.
    """
    text = path.read_bytes() if text is None else text
    problems: list[Problem] = []
    tree = read(text, problems)
    lines = Lines(text, str(path))
    if problems:
        raise ScenarioFileError([lines.located(problem) for problem in problems])
    if not isinstance(tree, dict):
        raise ScenarioFileError([f"{path}: expected a scenario with objects and steps, got {tree!r}"])
    file = decode(ScenarioFile, tree, "", problems) or ScenarioFile()
    problems += _head_problems(file)
    contents = Contents()
    objects = list(_initial_objects(file.objects, contents, problems))
    for index, name in enumerate(file.manifests):
        contents.add(_manifest(path.parent / name, f"manifests[{index}]", problems))
    plan = plan_steps(file.steps, problems)
    problems += kind_problems([*objects, *(action for step in plan for action in step.actions)])
    if problems:
        raise ScenarioFileError([lines.located(problem) for problem in problems])
    return Scenario(
        name=file.metadata.name or path.stem,
        source=str(path),
        act=_act(objects, plan, lines),
        seed=file.seed,
        config=file.config if isinstance(file.config, dict | str) else None,
        plugins=file.plugins,
        cluster=file.cluster,
        duration=max([file.duration.seconds, *(step.at or 0.0 for step in plan)]),
        description=file.description,
        contents=contents,
    )


def _head_problems(file: ScenarioFile) -> Iterator[Problem]:
    if file.api_version not in ("", API_VERSION):
        yield Problem("apiVersion", f"expected {API_VERSION}", file.api_version)
    if file.kind not in ("", KIND):
        hint = "to run plain manifests, list the file under manifests: of a scenario"
        yield Problem("kind", f"expected {KIND}", file.kind, hint)
    yield from file.cluster.problems("cluster")
    if file.duration < 0:
        yield Problem("duration", "must not be negative", str(file.duration))
    if file.config is not None and not isinstance(file.config, dict | str):
        yield Problem("config", "expected a KubeSchedulerConfiguration or the name of a file", file.config)


def _manifest(path: Path, where: str, problems: list[Problem]) -> Contents:
    try:
        return load_contents(path)
    except OSError as error:
        problems.append(Problem(where, f"{path}: {error.strerror}"))
    except ManifestError as error:
        problems += [Problem(where, problem) for problem in error.problems]
    return Contents()


def _initial_objects(given: Sequence[object], contents: Contents, problems: list[Problem]) -> Iterator[StepAction]:
    """Yield an action for each object to create. Objects that were read from a cluster go to the contents."""
    for where, obj in each_object(list(given), "objects"):
        problems += object_problems(obj, where)
        if isinstance(obj, dict) and (read := of_objects([obj])).items[0].was_read:
            contents.add(read)
        else:
            yield StepAction("create", obj, where)


def _act(objects: Sequence[StepAction], plan: Sequence[PlannedStep], lines: Lines) -> Act:
    async def act(client: ScenarioClient) -> None:
        for action in objects:
            await _perform(client, action, lines)
        for step in plan:
            if step.at is not None:
                await client.sleep_until(step.at)
            elif step.after:
                await client.sleep(step.after)
            for action in step.actions:
                await _perform(client, action, lines)

    return act


async def _perform(client: ScenarioClient, action: StepAction, lines: Lines) -> None:
    try:
        await _do(client, action.what, action.name)
    except (ApiError, ScenarioError) as error:
        raise ScenarioError(f"line {lines.of(action.path)}: {action.path}: {error}") from None


async def _do(client: ScenarioClient, what: Any, name: str) -> None:
    match what:
        case WaitFor():
            await client.wait(what, what.timeout.seconds)
        case Expectation():
            await client.settle()
            client.report(what)
        case Target() if name == "patch":
            await client.patch(what.resource, what.name_of, what.patch, what.namespace, what.subresource)
        case Target():
            await client.delete(what.resource, what.name_of, what.namespace, what.grace)
        case str():
            client.log(what)
        case _:
            await client.create(what)


class Lines:
    """Finds the line of each field in a file."""

    def __init__(self, text: bytes, source: str) -> None:
        self._source = source
        try:
            self._root: yaml.Node | None = compose_yaml(text)
        except DocumentError:
            self._root = None

    def of(self, path: str) -> int:
        """Return the line of a field, or of the nearest enclosing field that exists."""
        node, line = self._root, 1
        for match in _STEP.finditer(path):
            name, index = match[1] or match[3], match[2]
            if isinstance(node, yaml.MappingNode) and name is not None:
                found = next((pair for pair in node.value if pair[0].value == name), None)
                if found is None:
                    break
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and index is not None and int(index) < len(node.value):
                node = node.value[int(index)]
                line = node.start_mark.line + 1
        return line

    def located(self, problem: Problem) -> str:
        """Format a problem with file and line."""
        return f"{self._source}:{self.of(problem.path)}: {problem}" if problem.path else f"{self._source}: {problem}"
