"""`kubesched capacity` and `kubesched whatif` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.library.test_questions import TYPES, deployment, owned

from kubesched.cli.main import main
from kubesched.simulator.scenario_client import as_json
from kubesched.testing import node, pod


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster of two nodes with three pods, one of them pending."""
    objects = [node("n1", cpu=4, zone="a"), node("n2", cpu=4, zone="b"), owned("p1", "n1"), owned("p2", "n2", cpu=2)]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*map(as_json, objects), as_json(pod("wide", uid="wide", cpu=4))]))
    return file


def run(*arguments: str | Path) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_capacity_in_every_form(cluster: Path, tmp_path: Path) -> None:
    """Tables, JSON, Markdown and HTML; 3 if nothing fits; words if nothing is asked."""
    template = tmp_path / "web.yaml"
    template.write_text(yaml.safe_dump(deployment("web", 2, "1")))
    table = run("capacity", "-f", template, "--from", cluster)
    assert table.exit_code == 0, table.output
    assert table.stdout.startswith("5 pods fit: 5 web")
    assert "Insufficient cpu" in table.stdout
    found = json.loads(run("capacity", "-f", template, "--from", cluster, "-o", "json").stdout)
    assert (found["kind"], found["total"], found["templates"][0]["perNode"]) == ("Capacity", 5, {"n1": 3, "n2": 2})
    assert "<table>" in run("capacity", "-f", template, "--from", cluster, "-o", "html").stdout
    template.write_text(yaml.safe_dump(deployment("web", 2, "100")))
    assert run("capacity", "-f", template, "--from", cluster).exit_code == 3
    assert run("capacity", "--from", cluster).exit_code == 2


def test_errors_name_what_the_user_wrote(cluster: Path, tmp_path: Path) -> None:
    """The file that is no manifest, the change that cannot be read, the variant that is not there."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("a: [")
    result = run("capacity", "-f", wrong, "--from", cluster)
    assert (result.exit_code, result.stderr.startswith(f"Error: {wrong}: not valid YAML")) == (1, True)
    result = run("whatif", "explode n1", "--from", cluster)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: 'explode n1' cannot be read; write one of: ")
    assert "put quotes around each change" in run("whatif", "drain", "n1", "--from", cluster).stderr
    missing = tmp_path / "missing.yaml"
    result = run("compare", "default", missing, "--from", cluster)
    assert (result.exit_code, result.stderr) == (1, f"Error: {missing}: No such file or directory\n")
    heading = " ".join(run("compare", "default", "--from", cluster).stdout.split())
    assert heading.startswith(f"{cluster}: 1 variant, 1 paired seed")


def test_nodes_needed(cluster: Path, tmp_path: Path) -> None:
    """The cheapest type for the pod that is pending; wrong types are named with file and field."""
    types = tmp_path / "types.yaml"
    types.write_text(yaml.safe_dump({"nodeTypes": TYPES}))
    result = run("capacity", "--nodes", types, "--from", cluster)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "1 more node for 1 per hour"), result.output
    types.write_text("nodeTypes: [{name: x, cpu: four}]")
    wrong = run("capacity", "--nodes", types, "--from", cluster)
    assert wrong.exit_code == 1
    assert "nodeTypes[0].cpu" in wrong.output


def test_whatif_in_every_form(cluster: Path) -> None:
    """Changes, consolidation and a plan; 3 if a pod has no place; words for what cannot be read."""
    drained = run("whatif", "drain n1", "--from", cluster)
    assert drained.exit_code == 0, drained.output
    assert "default/p1" in drained.stdout
    failed = json.loads(run("whatif", "fail zone a", "--from", cluster, "-o", "json").stdout)
    assert [(each["pod"], each["node"]) for each in failed["moved"]] == [("default/p1", "n2")]
    assert "1 of 2 nodes could go" in run("whatif", "--consolidate", "--from", cluster).stdout
    plan = run("whatif", "--fit", "wide", "--from", cluster)
    assert plan.stdout.startswith("default/wide fits on n1 after 1 move")
    wrong = run("whatif", "explode n1", "--from", cluster)
    assert (wrong.exit_code, "cannot be read; write one of: drain N" in wrong.output) == (1, True)
    assert run("whatif", "--from", cluster).exit_code == 2
    both = run("whatif", "drain n1", "drain n2", "--from", cluster)
    assert (both.exit_code, both.stdout.splitlines()[0]) == (3, "0 of 2 pods move, 2 stay pending")
    one = run("whatif", "drain n1", "cordon n2", "--from", cluster)
    assert one.stdout.splitlines()[0] == "0 of 1 pod moves, 1 stays pending"
    none = run("whatif", "cordon n1", "--from", cluster)
    assert none.stdout.splitlines()[0] == "no pod has to leave its node"
    unknown = run("whatif", "--consolidate", "--only", "pool-*", "--from", cluster)
    assert (unknown.exit_code, "no node is called 'pool-*'" in unknown.output) == (1, True)


def test_a_pod_that_no_type_has_room_for(cluster: Path, tmp_path: Path) -> None:
    """Saying that no more nodes are needed would be wrong: none of these would help."""
    types = tmp_path / "types.yaml"
    types.write_text("nodeTypes: [{name: tiny, cpu: 1, memory: 1Gi, price: 1}]")
    result = run("capacity", "--nodes", types, "--from", cluster)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (3, "no nodes of these types would help")
    assert "default/wide" in result.stdout


def test_a_refused_eviction_names_the_node(tmp_path: Path) -> None:
    """A pod that its budget protects stays, and the table says where."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
    }
    spec = {"selector": {}, "maxUnavailable": 0}
    objects = [as_json(node("n1", cpu=4)), as_json(owned("p1", "n1")), {**budget, "spec": spec}]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    result = run("whatif", "drain n1", "--from", file)
    assert result.exit_code == 3
    assert ["default/p1", "n1", "refused"] in [line.split()[:3] for line in result.stdout.splitlines()]


def test_a_reason_is_read_once(tmp_path: Path) -> None:
    """Pods that stay pending for the same reason are one row; JSON has all of them."""
    objects = [*(node(name, cpu=8) for name in ("n0", "n1")), *(owned(f"p{n}", f"n{n % 2}") for n in range(6))]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(map(as_json, objects)))
    result = run("whatif", "drain n*", "--from", file)
    assert result.exit_code == 3
    (row,) = [line for line in result.stdout.splitlines() if "default/p" in line]
    assert row.split()[:7] == ["default/p0", "and", "5", "more", "2", "nodes", "pending"]
