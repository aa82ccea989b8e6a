"""Flame graphs: what is sampled and what is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from kubesched.bench.flame import FlameNode, draw
from kubesched.cli.main import main


def test_a_stack_becomes_boxes() -> None:
    """Each function is a box over its caller, with its share; narrow ones are left out."""
    samples = Counter({("engine.cycle:run", "plugins.fit:filter"): 600, ("queue.queue:pop",): 399, ("api.x:y",): 1})
    root = ElementTree.fromstring(draw("Plain", samples))
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["engine.cycle:run: 60.0 %", "plugins.fit:filter: 60.0 %", "queue.queue:pop: 39.9 %"]
    node = FlameNode()
    node.add(("a", "b"), 3)
    assert (node.depth(), node.children["a"].children["b"].samples) == (2, 3)


def test_a_flame_graph_of_a_workload(tmp_path: Path) -> None:
    """The command writes a picture of the scheduler's own functions."""
    (tmp_path / "performance-config.yaml").write_text(
        "- name: Small\n  workloadTemplate:\n"
        "  - {opcode: createNodes, count: 5}\n  - {opcode: createPods, count: 200, collectMetrics: true}\n"
        "  workloads: [{name: one}]\n"
    )
    arguments = ["bench", "--scheduler-perf", str(tmp_path), "--flame", str(tmp_path / "flames")]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    picture = (tmp_path / "flames" / "small-one.svg").read_text()
    assert "scheduler.cycle:" in picture
    assert "apiserver" not in picture
