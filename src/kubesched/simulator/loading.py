"""A scenario by the name of its file."""

from __future__ import annotations

from pathlib import Path

from kubesched.simulator.python_file import load_python
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.yaml_file import load_yaml

YAML = (".yaml", ".yml", ".json")


def load(path: Path) -> Scenario:
    """The scenario in a file. Raises `ScenarioFileError` with everything that is wrong."""
    try:
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
