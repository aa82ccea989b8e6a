"""The guard against slower code: counted instructions, and what is compared with what."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.bench import guard
from kubesched.bench.perf.format import load_runs
from kubesched.cli.main import main

SMALL = (
    "- name: Small\n  workloadTemplate:\n"
    "  - {opcode: createNodes, countParam: $nodes}\n  - {opcode: createPods, count: 10, collectMetrics: true}\n"
    "  workloads: [{name: a, params: {nodes: 10}}, {name: b, params: {nodes: 100}}]\n"
)


def test_the_count_does_not_depend_on_the_number_of_nodes(tmp_path: Path) -> None:
    """The same pods need the same instructions each time, and as many on ten times the nodes."""
    (tmp_path / "performance-config.yaml").write_text(SMALL)
    few, many = load_runs(tmp_path)
    first, second, more = (guard.count_instructions(run) for run in (few, few, many))
    assert first > 1000
    assert second == pytest.approx(first, rel=0.01)
    assert more == pytest.approx(first, rel=0.05)


def test_a_tenth_more_is_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are written on request; a tenth more passes, anything above fails and names the workload."""
    counts = {"Plain/a": 1000, "Plain/b": 1000}
    monkeypatch.setattr(guard, "count_apart", lambda place, label_filter: counts)
    file = tmp_path / "instructions.json"
    arguments = ["bench", "--scheduler-perf", str(tmp_path), "--check", str(file)]
    nothing = CliRunner().invoke(main, arguments)
    assert "nothing is compared" in nothing.stderr
    assert not file.exists()
    assert CliRunner().invoke(main, [*arguments, "--update"]).exit_code == 0
    counts["Plain/a"] = 1100
    same = CliRunner().invoke(main, arguments)
    assert (same.exit_code, same.stdout.splitlines()[0]) == (0, "Plain/a: 1,100 instructions per pod (+10.0 %)")
    counts["Plain/b"] = 1101
    worse = CliRunner().invoke(main, arguments)
    assert worse.exit_code == 1
    assert "slower by more than a tenth: Plain/b." in worse.stderr
