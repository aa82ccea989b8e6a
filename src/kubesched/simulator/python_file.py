"""Scenarios in Python: an ``async def scenario(client)``, with options as module-level names."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kubesched.config.decode import decode
from kubesched.config.errors import Problem
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.scenario_client import ScenarioError, seconds_of
from kubesched.simulator.settings import ClusterOptions

FUNCTION = "scenario"


def load_python(path: Path) -> Scenario:
    """Load a scenario from a file. Raises `ScenarioFileError` if that is not possible."""
    module = _imported(path)
    return of_module(module, str(path), path.stem)


def of_module(module: ModuleType, source: str, name: str) -> Scenario:
    """Load a scenario from a module."""
    act = getattr(module, FUNCTION, None)
    if act is None:
        raise ScenarioFileError([f"{source}: has no function {FUNCTION}; write async def {FUNCTION}(client): ..."])
    if not inspect.iscoroutinefunction(act):
        line = getattr(getattr(act, "__code__", None), "co_firstlineno", 0)
        raise ScenarioFileError([f"{source}:{line}: {FUNCTION} must be async; write async def {FUNCTION}(client): ..."])
    problems: list[Problem] = []
    cluster = decode(ClusterOptions, getattr(module, "cluster", {}), "cluster", problems)
    problems += cluster.problems("cluster") if cluster is not None else ()
    seed = getattr(module, "seed", 1)
    if not isinstance(seed, int):
        problems.append(Problem("seed", "expected a whole number", seed))
    try:
        duration = seconds_of(getattr(module, "duration", 0))
    except ScenarioError as error:
        problems.append(Problem("duration", str(error)))
        duration = 0.0
    if problems or cluster is None:
        raise ScenarioFileError([f"{source}: {problem}" for problem in problems])
    return Scenario(
        name=name,
        source=source,
        act=act,
        seed=seed,
        config=getattr(module, "config", None),
        plugins=getattr(module, "plugins", ()),
        cluster=cluster,
        duration=duration,
        scheduler=getattr(module, "scheduler", None),
        description=(module.__doc__ or "").strip(),
    )


def _imported(path: Path) -> ModuleType:
    # Under a unique name: a file called json.py must not replace another module.
    name = f"kubesched_scenario_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ScenarioFileError([f"{path}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"]) from None
    except Exception as error:
        own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path.resolve())]
        where = f"{path}:{own[-1].lineno}" if own else str(path)
        raise ScenarioFileError([f"{where}: {type(error).__name__}: {error}"]) from None
    return module
