"""The questions, asked about a public trace: compared, and at its end counted, changed and consolidated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.sweep.conftest import PACKED

import kubesched
from kubesched.cli.main import main
from kubesched.simulator import simulate

GPU_SHARING = Path(__file__).parents[2] / "examples/gpu-sharing"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the openb trace as a scenario, its end, a pod and another configuration."""
    place = tmp_path_factory.mktemp("openb")
    rows = (GPU_SHARING / "pods-small.csv").read_text().splitlines()
    # Without times the pods come one after the other, and stay.
    (place / "pods.csv").write_text("\n".join(",".join(each.split(",")[:6]) for each in rows) + "\n")
    files = [GPU_SHARING / "nodes-small.csv", place / "pods.csv"]
    ask(0, "trace", "import", "openb", *files, "-o", place / "openb.py", "--limit", "60")
    (place / "end.json").write_text(ask(0, "simulate", place / "openb.py", "-o", "json"))
    (place / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: more},"
        " spec: {containers: [{name: m, image: x, resources: {requests: {cpu: 4, memory: 8Gi}}}]}}"
    )
    (place / "packed.yaml").write_text(PACKED)
    return place


def ask(code: int, *args: object) -> str:
    """Run a command, and return what it prints."""
    result = CliRunner().invoke(main, [str(each) for each in args])
    assert result.exit_code == code, result.output
    return result.stdout


def asked(code: int, *args: object) -> Any:
    """The JSON that a command prints."""
    return json.loads(ask(code, *args, "-o", "json"))


def test_two_configurations_on_the_trace(folder: Path) -> None:
    """Packing uses fewer nodes; a condition of CI fails with 3."""
    common = ("compare", "default", folder / "packed.yaml", "--from", folder / "openb.py")
    found = asked(3, *common, "--fail-if", "B.nodes_used < A.nodes_used")["summary"]
    assert found["B"]["nodes_used"]["mean"] < found["A"]["nodes_used"]["mean"]
    assert found["A"]["bound"]["mean"] == 60


def test_questions_about_its_end(folder: Path) -> None:
    """How many more fit, what a failure does, and which nodes could go."""
    source = ("--from", folder / "end.json")
    assert asked(0, "capacity", "-f", folder / "pod.yaml", *source)["total"] > 10
    cluster = kubesched.Cluster.load(folder / "end.json")
    busy = next(each.node_name for each in cluster.pods if not each.is_terminal)
    moved = asked(0, "whatif", f"fail {busy}", *source)["moved"]
    assert moved
    assert all(each["node"] not in ("", busy) for each in moved)
    assert busy in asked(0, "whatif", "--consolidate", *source)["kept"]
    assert len(asked(0, "whatif", "--consolidate", "--bare", *source)["remove"]) > 5
    assert "pods have no place elsewhere" in ask(0, "whatif", "--consolidate", "--bare", *source)


def test_a_scenario_is_no_cluster(folder: Path) -> None:
    """The error says how to get one; from Python the report has it."""
    result = CliRunner().invoke(main, ["capacity", "-f", str(folder / "pod.yaml"), "--from", str(folder / "openb.py")])
    assert result.exit_code == 1
    assert "run it first, kubesched simulate" in result.output
    assert len(simulate(folder / "end.json").cluster().pods) == len(kubesched.Cluster.load(folder / "end.json").pods)
