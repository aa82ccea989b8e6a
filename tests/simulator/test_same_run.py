"""The same seed gives the same run to the last event: everything that takes part, twice, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kubesched.simulator.loading import load
from kubesched.simulator.machine import as_json
from kubesched.simulator.run import run

EVERYTHING = Path(__file__).parent / "everything" / "everything.yaml"
PROGRAM = "from kubesched.cli.main import main; main()"


def simulated(hash_seed: str, *options: str) -> bytes:
    command = [sys.executable, "-c", PROGRAM, "simulate", str(EVERYTHING), "-o", "json", *options]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


def test_two_processes_give_the_same_bytes() -> None:
    """Controllers, kubelets, volumes, preemption, a plugin and a lost node: whatever the order of sets in the process.

    The digest in the output is of every version of every object, with its name, UID, dates and resourceVersion.
    """
    first, second = simulated("1"), simulated("2")
    assert first == second
    report = json.loads(first)
    assert report["passed"], report["expectations"]
    happened = {entry["what"] for entry in report["timeline"]}
    assert {"created", "bound", "pending", "running", "succeeded", "deleted"} <= happened


def test_runs_in_one_process_do_not_touch_each_other() -> None:
    """A run leaves nothing behind that the next one could see, even if that is of another seed."""
    scenario = load(EVERYTHING)
    first = as_json([run(scenario)])
    other = as_json([run(scenario, 12)])
    assert as_json([run(scenario)]) == first
    assert json.loads(other)["digest"] != json.loads(first)["digest"]
