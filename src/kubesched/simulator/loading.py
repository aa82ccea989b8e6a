"""Finding and loading scenario files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kubesched.simulator.python_file import load_python
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.yaml_file import load_yaml

YAML = (".yaml", ".yml", ".json")
STDIN = Path("-")
_IS_SCENARIO = re.compile(rb"^(\s*async def scenario\(|kind:\s*[\"']?Scenario\b)", re.MULTILINE)


def scenario_files(path: Path) -> Iterator[Path]:
    """Yield the file, or the scenario files in a folder. Manifests and plugins in it are ignored."""
    if not path.is_dir():
        yield path
        return
    files = [file for file in sorted(path.iterdir()) if file.suffix in (".py", *YAML) and file.is_file()]
    found = [file for file in files if _IS_SCENARIO.search(file.read_bytes())]
    if not found:
        what = "no .yaml file with kind: Scenario and no .py file with async def scenario"
        raise ScenarioFileError([f"{path}: {what} is in this folder"])
    yield from found


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
        if path.suffix in YAML:
            return load_yaml(path)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ScenarioFileError([f"{path}: {why}"]) from None
    raise ScenarioFileError([f"{path}: expected a scenario in a file that ends in .py or .yaml"])
