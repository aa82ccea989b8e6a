"""Every notebook runs from top to bottom."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))
EXTRAS = {"tune-weights": "optuna", "gpu-sharing": "matplotlib", "learn-a-policy": "gymnasium"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells run in order, in its own folder, as Jupyter would run them; their assertions hold."""
    if path.stem in EXTRAS:
        pytest.importorskip(EXTRAS[path.stem])
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    names: dict[str, object] = {"__name__": "__main__"}
    cells = [each for each in json.loads(path.read_text("utf-8"))["cells"] if each["cell_type"] == "code"]
    assert cells
    for number, cell in enumerate(cells, 1):
        assert not cell["outputs"], "outputs are not kept in the repository"
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
