"""`kubesched simulate` and `kubesched learn` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kubesched.cli.main import main
from kubesched.learn.steps import STEPS

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "node10.yaml"
FAILS = "objects: [{apiVersion: v1, kind: Node, metadata: {name: a}}]\nsteps: [{expect: {pod: p, onNode: a}}]\n"


def test_tables_tell_what_happened() -> None:
    """Timeline, placement and verdict are printed."""
    result = CliRunner().invoke(main, ["simulate", str(EXAMPLE)])
    assert result.exit_code == 0, result.output
    for part in ("Timeline", "Placements", "passed", "pod1 → node10"):
        assert part in result.output


def test_tables_have_their_titles_in_one_line_and_room_between_them() -> None:
    """A title that is wider than its table is not broken; an empty line separates tables, and scenarios too."""
    text = CliRunner().invoke(main, ["simulate", str(EXAMPLE), str(EXAMPLE)]).output
    assert "\n\nPlacements\n" in text
    assert "\n\nRequested share of each node: at the end, mean, peak\n" in text
    assert "\n\nTimeline\n" in text


def test_a_failed_expectation_is_exit_code_1_in_every_form(tmp_path: Path) -> None:
    """Tables, JSON and JUnit all say what was found."""
    file = tmp_path / "fails.yaml"
    file.write_text(FAILS, "utf-8")
    for output in ("table", "json", "junit"):
        result = CliRunner().invoke(main, ["simulate", str(file), "-o", output])
        assert result.exit_code == 1
        assert "none of that name" in result.output
    root = ElementTree.fromstring(CliRunner().invoke(main, ["simulate", str(file), "-o", "junit"]).output)
    assert root.find("testsuite/testcase/failure") is not None


def test_html_report_stands_by_itself(tmp_path: Path) -> None:
    """Summary, charts, placements, pending pods with their causes and failed expectations; nothing from elsewhere."""
    file, page = tmp_path / "a<script>.yaml", tmp_path / "report.html"
    huge = "{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, image: i, %s}]}}"
    pods = [huge % "resources: {requests: {cpu: 99}}", huge.replace("huge", "tiny") % "resources: {}"]
    steps = "".join(f"  - create: {each}\n" for each in pods) + "  - {after: 5s, expect: {pod: huge, onNode: a}}\n"
    node = "{apiVersion: v1, kind: Node, metadata: {name: a}}"
    file.write_text(f"objects: [{node}]\nsteps:\n{steps}", "utf-8")
    result = CliRunner().invoke(main, ["simulate", str(file), "--html", str(page)])
    assert result.exit_code == 1
    text = page.read_text("utf-8")
    for part in ("failed", "Expectations that did not hold", "default/tiny", "1 Insufficient cpu", "cluster time"):
        assert part in text
    assert text.count("<svg ") == 2
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    refused = CliRunner().invoke(main, ["simulate", str(EXAMPLE), "--html", str(tmp_path / "no" / "x.html")])
    assert refused.exit_code == 1
    assert "cannot be written" in refused.output


def test_junit_is_what_ci_systems_read(tmp_path: Path) -> None:
    """As Jenkins' schema junit-10.xsd has it: a suite per scenario with its numbers, a case per expectation and one for
    the run itself; text that XML cannot have does no harm."""
    fails, raises = tmp_path / "fails.yaml", tmp_path / "raises.py"
    fails.write_text(FAILS, "utf-8")
    raises.write_text("async def scenario(client):\n    raise ValueError('\\x1b[31m<red>\\x00')\n")
    result = CliRunner().invoke(main, ["simulate", str(fails), str(raises), str(EXAMPLE), "-o", "junit"])
    root = ElementTree.fromstring(result.stdout)
    assert root.tag == "testsuites"
    numbers = [tuple(suite.get(name) for name in ("name", "tests", "failures", "errors")) for suite in root]
    assert numbers == [("fails", "2", "1", "0"), ("raises", "1", "0", "1"), ("node10", "3", "0", "0")]
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == {"name", "tests", "failures", "errors", "time"}
        assert len(suite) == int(suite.attrib["tests"])
        assert float(suite.attrib["time"]) >= 0
        for case in suite:
            assert case.tag == "testcase"
            assert set(case.attrib) == {"classname", "name", "time"}
            assert [(each.tag, set(each.attrib)) for each in case] in (
                [],
                [("failure", {"message"})],
                [("error", {"message"})],
            )
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert error.attrib["message"].endswith("ValueError: \ufffd[31m<red>\ufffd")


def test_folders_and_standard_input_are_scenarios_too(tmp_path: Path) -> None:
    """Of a folder the scenarios are taken, not the manifests and plugins beside them; - is YAML on standard input."""
    runner = CliRunner()
    folder = Path(__file__).parents[1] / "simulator" / "everything"
    root = ElementTree.fromstring(runner.invoke(main, ["simulate", str(folder), str(EXAMPLE), "-o", "junit"]).output)
    assert [suite.get("name") for suite in root] == ["everything", "node10"]
    assert runner.invoke(main, ["simulate", "-"], input=EXAMPLE.read_text("utf-8")).exit_code == 0
    wrong = runner.invoke(main, ["simulate", "-"], input="sed: 1")
    assert (wrong.exit_code, "stdin:1: sed: unknown field; did you mean seed?" in wrong.output) == (1, True)
    empty = runner.invoke(main, ["simulate", str(tmp_path)])
    assert (empty.exit_code, "no .yaml file with kind: Scenario" in empty.output) == (1, True)


PACK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
FOUR_PODS = """
from kubesched.simulator import node, pod

async def scenario(client):
    for name in ("a", "b"):
        await client.create(node(name))
    for number in range(4):
        await client.create(pod(f"pod{number}", cpu="500m"))
        await client.sleep(1)
"""
ONLY_B = "from kubesched import filter\n\n@filter\ndef only_b(pod, node):\n    return node.name == 'b'\n"


def test_the_same_scenario_with_another_configuration_or_more_plugins(tmp_path: Path) -> None:
    """What if pods were packed? What if a plugin had its say? The file stays as it is."""
    (tmp_path / "scenario.py").write_text(FOUR_PODS, "utf-8")
    (tmp_path / "pack.yaml").write_text(PACK, "utf-8")
    (tmp_path / "plugins").mkdir()
    plugin = tmp_path / "plugins" / "only_b.py"
    plugin.write_text(ONLY_B, "utf-8")

    def nodes(*options: str) -> list[str]:
        result = CliRunner().invoke(main, ["simulate", str(tmp_path / "scenario.py"), "-o", "json", *options])
        return sorted(each["node"] for each in json.loads(result.output)["placements"])

    assert nodes() == ["a", "a", "b", "b"]
    assert len(set(nodes("--config", str(tmp_path / "pack.yaml")))) == 1
    for option in (f"--plugin={plugin}:only_b", f"--plugin={plugin}", f"--plugin-dir={plugin.parent}"):
        assert nodes(option) == ["b"] * 4
    wrong = CliRunner().invoke(main, ["simulate", str(EXAMPLE), "--plugin", "nope.py"])
    assert (wrong.exit_code, "nope.py: there is no such file" in wrong.output) == (1, True)


def test_a_wrong_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """All mistakes of all files are told."""
    file = tmp_path / "wrong.yaml"
    file.write_text("sed: 1\nstep: []\n", "utf-8")
    result = CliRunner().invoke(main, ["simulate", str(file)])
    assert result.exit_code == 1
    assert "did you mean seed?" in result.output
    assert "did you mean steps?" in result.output


def test_a_step_that_was_broken_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in a copy of a step is reported in one line, not as the traceback of everything around it."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    runner.invoke(main, ["learn", "3", "--edit"])
    file = Path("step3_score.py")
    lines = file.read_text("utf-8").splitlines()
    line = next(number for number, each in enumerate(lines) if each.lstrip().startswith("return 10 if"))
    lines[line] = "        return 1 / 0"
    file.write_text("\n".join(lines), "utf-8")
    result = runner.invoke(main, ["simulate", str(file)], env={"COLUMNS": "200"})
    assert f"step3_score.py:{line + 1}: the scheduler ended: ZeroDivisionError: division by zero" in result.output
    assert "Traceback" not in result.output
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    file.write_text("\n".join([*lines, "def scheduler(*parts): return 1 / 0"]), "utf-8")
    result = runner.invoke(main, ["simulate", str(file)])
    said = f"Error: step3_score.py:{len(lines) + 1}: the scheduler did not start: ZeroDivisionError: division by zero\n"
    assert (result.output, result.exit_code) == (said, 1)


def test_learn_lists_runs_and_compares() -> None:
    """Without a number all steps, with one its story, with --diff what is new."""
    runner = CliRunner()
    assert "throws dice" in runner.invoke(main, ["learn"]).output
    story = runner.invoke(main, ["learn", "7"])
    assert story.exit_code == 0
    assert "NodeAdd node10: pod1 may fit now" in story.output
    assert "+++ step3_score" in runner.invoke(main, ["learn", "3", "--diff"]).output
    assert runner.invoke(main, ["learn", "8"]).exit_code == 2
    assert runner.invoke(main, ["learn", "--diff"]).exit_code == 2
    assert runner.invoke(main, ["learn", "3", "--diff", "--edit"]).exit_code == 2


def test_a_diff_that_is_piped_is_left_as_it_is() -> None:
    """No line is broken, padded or coloured, however narrow the terminal; the same goes for the code."""
    runner = CliRunner()
    diff = runner.invoke(main, ["learn", "3", "--diff"], env={"COLUMNS": "40"}).output
    code = runner.invoke(main, ["learn", "3", "--show"], env={"COLUMNS": "40"}).output
    assert code == STEPS[2].code
    before, after = STEPS[1].code.splitlines(), code.splitlines()
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@"))]
    assert {line[1:] for line in lines if line[0] in " -"} <= set(before)
    assert {line[1:] for line in lines if line[0] in " +"} <= set(after)


@pytest.mark.parametrize("width", [60, 200])
def test_the_story_of_a_step_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Who, when and what are columns; nodes have the time of their creation; nothing is reported twice."""
    monkeypatch.setenv("COLUMNS", str(width))
    story = CliRunner().invoke(main, ["learn", "3"]).output
    lines = [line.rstrip() for line in story.splitlines()]
    assert max(map(len, lines)) <= width
    assert "   0s  cluster     node0 to node9 are there" in lines
    assert story.count("bound to node1") == 1
    said = next(number for number, line in enumerate(lines) if "scheduler   pod1: scores" in line)
    assert ("node9 0" in lines[said]) == (width == 200)
    assert width == 200 or lines[said + 1].startswith(" " * 19 + "node")


@pytest.mark.parametrize("number", range(1, 8))
def test_learn_gives_a_copy_to_play_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The copy runs as a scenario, and is not written over."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(main, ["learn", str(number), "--edit"]).exit_code == 0
    (copy,) = tmp_path.iterdir()
    assert runner.invoke(main, ["simulate", copy.name]).exit_code == 0
    assert "already exists" in runner.invoke(main, ["learn", str(number), "--edit"]).output


PLUGIN = """
from kubesched import Plugin

class Mine(Plugin):
    name = "Mine"

    def filter(self, state, pod, node):
        return {}["missing"]
"""
SCENARIO = """
from kubesched.simulator import node, pod

plugins = ["mine.py"]

async def scenario(client):
    await client.create(node("n1"))
    await client.create(pod("web"))
    await client.sleep(1)
"""


def test_a_plugin_that_fails_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the timeline, with file and line; one that cannot even start ends the run with a sentence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "scenario.py").write_text(SCENARIO)
    output = CliRunner().invoke(main, ["simulate", "scenario.py"]).output
    assert "running Filter plugin \"Mine\": KeyError: 'missing' (mine.py:8)" in output
    (tmp_path / "mine.py").write_text(PLUGIN + "\n    def __init__(self, args, handle):\n        raise OSError('no')\n")
    result = CliRunner().invoke(main, ["simulate", "scenario.py"])
    assert result.exit_code == 1
    assert 'Error: scenario.py: plugin "Mine": __init__ raised OSError: no (mine.py:11)' in result.output


def test_an_object_that_is_refused_is_named_with_its_file_once(tmp_path: Path) -> None:
    """The message begins with the file and the place in it."""
    file = tmp_path / "objects.json"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b c"}}}
    pod["spec"] = {"containers": [{"name": "main", "image": "x"}]}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    result = CliRunner().invoke(main, ["simulate", str(file), "-o", "json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"].startswith(f'{file} items[0]: Pod "p" is invalid: ')
