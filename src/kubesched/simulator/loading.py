"""Finding and loading scenario files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kubesched.base.documents import DocumentError, read_yaml_documents
from kubesched.simulator.python_file import load_python
from kubesched.simulator.replay import replay_of
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.yaml_file import load_yaml
from kubesched.snapshots.reader import ManifestError

YAML = (".yaml", ".yml", ".json")
STDIN = Path("-")
_IS_SCENARIO = re.compile(rb"^(\s*async def scenario\(|kind:\s*[\"']?Scenario\b)", re.MULTILINE)
_MAY_BE_SCENARIO = re.compile(rb"^(steps|objects|manifests|cluster|seed|duration|config|plugins):", re.MULTILINE)
_KIND = re.compile(rb"^kind:", re.MULTILINE)
_FLOW = re.compile(rb"^(---\s+)?\{", re.MULTILINE)
"""A document in flow style, whose keys do not stand at the beginnings of lines."""


def scenario_files(path: Path) -> Iterator[Path]:
    """Yield the file, or the scenario files in a folder. Manifests and plugins in it are ignored."""
    if not path.is_dir():
        yield path
        return
    files = [file for file in sorted(path.iterdir()) if file.suffix in (".py", *YAML) and file.is_file()]
    found = [file for file in files if _IS_SCENARIO.search(file.read_bytes())]
    if not found and _has_objects(files):
        yield path  # a folder of manifests
        return
    if not found:
        what = "no .yaml file with kind: Scenario and no .py file with async def scenario"
        raise ScenarioFileError([f"{path}: {what} is in this folder"])
    yield from found


def _has_objects(files: Sequence[Path]) -> bool:
    return any(file.suffix in YAML and _is_contents(file) for file in files)


def load(path: Path) -> Scenario:
    """Load a scenario from a file, or YAML from standard input for ``-``.

    Raises `ScenarioFileError` with all problems.
    """
    try:
        if path == STDIN:
            return load_yaml(Path("stdin"), sys.stdin.buffer.read())
        if path.suffix == ".py":
            if not path.is_file():
                raise ScenarioFileError([f"{path}: there is no such file"])
            return load_python(path)
        if path.suffix in YAML and not _is_contents(path):
            return load_yaml(path)
        return replay_of(path)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ScenarioFileError([f"{path}: {why}"]) from None
    except ManifestError as error:
        raise ScenarioFileError(error.problems) from None


def _is_contents(path: Path) -> bool:
    """Whether a file has Kubernetes objects and no scenario."""
    text = path.read_bytes()
    if path.suffix == ".json":
        return b'"Scenario"' not in text and b'"steps"' not in text
    if _IS_SCENARIO.search(text):
        return False
    if _FLOW.search(text):
        return _has_only_objects(text)
    return _KIND.search(text) is not None and _MAY_BE_SCENARIO.search(text) is None


def _has_only_objects(text: bytes) -> bool:
    try:
        documents = [each for each in read_yaml_documents(text) if each is not None]
    except DocumentError:
        return False  # reading it as a scenario says what is wrong
    return all(isinstance(each, dict) and each.get("kind", "Scenario") != "Scenario" for each in documents)
