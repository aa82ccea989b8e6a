"""The documents are true: links lead somewhere, examples run, and what is said of the code is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from kubesched.conformance.compare import check
from kubesched.conformance.replay import RecordedScenario
from kubesched.plugins import IN_TREE

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def name(path: Path) -> str:
    """A document's path as people write it."""
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> list[str]:
    """The fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link names a file of the repository, and every anchor a heading of it."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), target
        headings = re.findall(r"^#+ (.+)$", found.read_text("utf-8"), re.MULTILINE) if anchor else []
        anchors = [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, target


@pytest.mark.parametrize("path", [each for each in DOCUMENTS if blocks(each, "python")], ids=name)
def test_examples_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of a document runs from top to bottom, its assertions included."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks(path, "python"):
        exec(compile(block, name(path), "exec", dont_inherit=True), names)


def test_the_example_scenario_is_one() -> None:
    """The scenario in the description of the corpus comes out as it says."""
    (block,) = blocks(ROOT / "docs/reference/conformance.md", "json")
    assert check(msgspec.json.decode(block, type=RecordedScenario)) == []


def test_the_architecture_knows_what_plugins_read() -> None:
    """The table of what plugins read names every built-in plugin that filters or scores, with its `reads`."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(NODE|PODS|ROW|CLUSTER)` \|[^|]*\|[^|]*\| (.+) \|$", text, re.MULTILINE)
    told = {plugin: reads for reads, plugins in rows for plugin in plugins.split(", ")}
    asked = ("filter_all", "score_all", "filter", "score")
    assert told == {p.name: p.reads.name for p in IN_TREE if any(hasattr(p, method) for method in asked)}


def test_the_readme_shows_python_in_eight_lines() -> None:
    """The front door stays small: what takes longer to say is in the guide."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## Use it from Python")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len([line for line in block.splitlines() if line]) <= 8


def test_the_readme_says_what_its_table_says() -> None:
    """The ranges of speed and CPU time at the top are those of the measured rows below."""
    text = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^\|[^|]+\|[^|]+\| ([\d.]+) \| [\d.]+ \| (\d+) % \|$", text, re.MULTILINE)
    speeds, times = [float(speed) for speed, _ in rows], [int(percent) for _, percent in rows]
    assert f"{min(speeds)} to {max(speeds)} times the pods per second" in text
    assert f"with {min(times)} to {max(times)} % of its CPU time" in text
