"""Invalid scenario files: every mistake is reported with file, line, field, value and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.simulator.scenario import ScenarioFileError

META = "apiVersion: v1, metadata: {name: a}"


def problems(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    with pytest.raises(ScenarioFileError) as caught:
        load(path).prepared()
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps:\n- expct: {pod: a}\n", ":2: steps[0].expct: unknown field; did you mean expect?"),
        ("steps:\n- at: soon\n  log: x\n", ':2: steps[0].at: "soon" is not a duration'),
        ("seed: abc\n", ':1: seed: expected an integer, got "abc"'),
        ("steps:\n- expect: {onNode: n}\n", ":2: steps[0].expect: names no object; add pod: NAME"),
        ("steps:\n- {at: 5s, log: a}\n- {at: 3s, log: b}\n", ":3: steps[1].at: 3s is before an earlier step's 5s"),
        ("objects:\n- metadata: {name: a}\n", ":2: objects[0].kind: required"),
        ("seed: 1\nseed: 2\n", "seed: given twice, on lines 1 and 2"),
        ("steps:\n- after: 1s\n", ":2: steps[0]: does nothing; give it one of create"),
        ("plugins: [nowhere:Nothing]\n", "plugins: nowhere:Nothing"),
        ("config: {profiles: [{schedulerNam: x}]}\n", "did you mean schedulerName?"),
        ("duration: -5s\n", ":1: duration: must not be negative"),
        ("steps:\n- expect: {pod: a, phase: Runing}\n", 'no such phase, got "Runing"; did you mean Running'),
        ("steps:\n- expect: {pod: a, count: 3}\n", ":2: steps[0].expect.count: cannot be combined with a name"),
        ("steps:\n- waitFor: {pod: a, timeout: 5}\n", ":2: steps[0].waitFor.timeout: expected a duration"),
        ("steps:\n- patch: {pod: a, patches: {}}\n", ":2: steps[0].patch.patches: unknown field; did you mean patch?"),
        (
            "steps:\n- {count: 1e+308, create: {apiVersion: v1, kind: Node, metadata: {name: 'n{i}'}}}\n",
            "steps[0].count: must be at most 200,000",
        ),
        ("steps:\n- delete: {}\n", ":2: steps[0].delete: names no object; add pod: NAME"),
        ("steps:\n- {at: 1s, after: 1s, log: x}\n", ":2: steps[0]: has both at and after; keep one"),
        (
            "cluster: {nodeCpu: four}\n",
            ':1: cluster.nodeCpu: is not a quantity, got "four"; write a number with or without',
        ),
        ("cluster: {nodePods: -1}\n", ":1: cluster.nodePods: is not a quantity, got -1"),
        ("cluster: {nodePods: [1]}\n", ":1: cluster.nodePods: is not a quantity, got [1]"),
        ("cluster: {heartbeat: -1s}\n", ':1: cluster.heartbeat: must not be negative, got "-1s"'),
        ("cluster: {endedPods: -1}\n", ':1: cluster.endedPods: must not be negative, got "-1"'),
        ("manifests: [nope.yaml]\n", "nope.yaml: No such file"),
        ("objects:\n- {kind: Pod, apiVersion: v1, metadata: {name: no}}\n", "expected a string, got false; put it in"),
        (f"objects:\n- {{kind: Nod, {META}}}\n", ':2: objects[0].kind: the API has no such kind, got "Nod"; did you'),
        (f"objects:\n- {{kind: pod, {META}}}\n", 'the API has no such kind, got "pod"; did you mean Pod'),
        (f"objects:\n- {{kind: Job, {META}}}\n", '.apiVersion: the API has no Job in this version, got "v1"; it is in'),
        (f"steps:\n- {{count: 3, create: {{kind: Widget, {META}}}}}\n", "needs a CustomResourceDefinition in the"),
        ("steps:\n- waitFor: {kind: Deploymnt, name: a}\n", ":2: steps[0].waitFor.kind: the API has no such kind"),
        ("steps:\n- delete: [{kind: Deploymnt, name: a}]\n", ":2: steps[0].delete[0].kind: the API has no such kind"),
    ],
)
def test_a_mistake_in_yaml_is_located(tmp_path: Path, text: str, said: str) -> None:
    """The message has the line, the field and a hint."""
    assert said in problems(tmp_path / "scenario.yaml", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "has no function scenario; write async def scenario(client): ..."),
        ("def scenario(client): ...\n", ":1: scenario must be async"),
        ("def scenario(:\n", ":1: invalid syntax"),
        ("\nimport no_such_module\n", ":2: ModuleNotFoundError"),
        (
            "cluster = {'nodeMemory': '8GB'}\nasync def scenario(client): ...\n",
            'cluster.nodeMemory: is not a quantity, got "8GB"',
        ),
        ("cluster = {'heartbeet': '1s'}\nasync def scenario(client): ...\n", "did you mean heartbeat?"),
    ],
)
def test_a_mistake_in_python_is_located(tmp_path: Path, text: str, said: str) -> None:
    """A file that cannot be run says why and where."""
    assert said in problems(tmp_path / "scenario.py", text)


def test_hostile_yaml_is_located(tmp_path: Path) -> None:
    """Nesting that would end the process is refused with the limit, in a scenario and in its manifests."""
    (tmp_path / "deep.yaml").write_text("[" * 80_000)
    assert "nested deeper than 128 levels" in problems(tmp_path / "s.yaml", "[" * 80_000)
    found = problems(tmp_path / "s.yaml", "manifests: [deep.yaml]")
    assert "deep.yaml: not valid YAML or JSON: line 1, column 129: nested deeper than 128 levels" in found


def test_a_missing_file_and_another_kind_of_file_are_refused(tmp_path: Path) -> None:
    """The message names the file and what is expected."""
    (tmp_path / "a.txt").write_text("hello")
    for name, said in (("no.yaml", "there is no such file"), ("no.py", "no such file"), ("a.txt", "expected an obj")):
        with pytest.raises(ScenarioFileError, match=said):
            load(tmp_path / name)


def test_an_assertion_in_a_scenario_names_its_line(tmp_path: Path) -> None:
    """A plain assert fails the run with file and line."""
    path = tmp_path / "scenario.py"
    path.write_text("async def scenario(client):\n    assert 1 == 2, 'not so'\n", "utf-8")
    assert run(load(path)).error == f"{path}:2: not so"


OWN = """import asyncio

class Mine:
    def __init__(self, client, clock, random, tell):
        {made}

    async def run(self):
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cycle())

    async def cycle(self):
        {cycle}

scheduler = Mine

async def scenario(client):
    {act}
"""


@pytest.mark.parametrize("act", ["pass", "await client.sleep(1)", "assert False, 'no pod is anywhere'"])
def test_what_ends_a_scheduler_of_ones_own_names_its_line(tmp_path: Path, act: str) -> None:
    """The run fails with the crash, even if the scenario itself succeeded."""
    path = tmp_path / "scenario.py"
    path.write_text(OWN.format(made="pass", cycle="1 / 0", act=act), "utf-8")
    assert run(load(path)).error == f"{path}:12: the scheduler ended: ZeroDivisionError: division by zero"


def test_a_scheduler_of_ones_own_that_cannot_be_made_names_its_line(tmp_path: Path) -> None:
    """A scheduler that fails to start is an error in the file."""
    path = tmp_path / "scenario.py"
    path.write_text(OWN.format(made="client.nope()", cycle="pass", act="pass"), "utf-8")
    with pytest.raises(ScenarioFileError, match=r"scenario.py:5: the scheduler did not start: AttributeError: .*nope"):
        run(load(path))


def test_a_field_that_no_object_has_is_refused(tmp_path: Path) -> None:
    """A misspelt field is an error; ignoring it would run another pod than intended."""
    path = tmp_path / "scenario.yaml"
    spec = "{nodeSelecter: {disk: ssd}, containers: [{name: a, image: b}]}"
    path.write_text(
        f"steps:\n- log: x\n- create: {{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {spec}}}\n", "utf-8"
    )
    error = run(load(path)).error
    assert "line 3: steps[1].create" in error
    assert 'unknown field "spec.nodeSelecter"' in error


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("expect(pood='a')", ":2: an expectation has no field pood; did you mean pod?"),
        ("wait_for(pod='a', phase='Runing')", ':2: phase: pods have no such phase, got "Runing"; did you mean Running'),
        ("expect(on_node='a')", ":2: names no object; add pod: NAME"),
        ("delete('Widgit', 'a')", ":2: the API has no kind 'Widgit'"),
        ("sleep('soon')", ':2: "soon" is not a duration'),
    ],
)
def test_a_wrong_call_names_its_line(tmp_path: Path, call: str, said: str) -> None:
    """Wrong calls in Python are reported when they run, with file and line."""
    path = tmp_path / "scenario.py"
    path.write_text(f"async def scenario(client):\n    await client.{call}\n", "utf-8")
    assert said in run(load(path)).error


def test_what_the_api_refuses_names_the_step(tmp_path: Path) -> None:
    """A refused object is reported with the line and the server's own words."""
    path = tmp_path / "scenario.yaml"
    path.write_text("steps:\n- delete: {pod: nobody}\n", "utf-8")
    assert 'line 2: steps[0].delete: pods "nobody" not found' in run(load(path)).error


def test_kinds_of_ones_own_and_kinds_without_a_namespace(tmp_path: Path) -> None:
    """A custom kind defined in the scenario passes validation, and cluster-scoped objects can be counted."""
    path = tmp_path / "scenario.yaml"
    path.write_text(
        """
        objects:
        - apiVersion: apiextensions.k8s.io/v1
          kind: CustomResourceDefinition
          metadata: {name: widgets.example.com}
          spec:
            group: example.com
            scope: Cluster
            names: {kind: Widget, plural: widgets, shortNames: [wd]}
            versions:
            - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
        steps:
        - {count: 3, create: {apiVersion: example.com/v1, kind: Widget, metadata: {name: "widget-{i}"}}}
        - delete: {kind: wd, name: widget-0}
        - expect: [{kind: widgets, count: 2}, {kind: Widget, name: widget-0, exists: false}]
        """,
        "utf-8",
    )
    report = run(load(path))
    assert (report.error, [each.message for each in report.expectations if not each.holds]) == ("", [])


def test_manifests_in_flow_style_are_no_scenario(tmp_path: Path) -> None:
    """Several documents in braces are objects of a cluster; with steps in braces, it is a scenario."""
    node = "{apiVersion: v1, kind: Node, metadata: {name: a}}\n"
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}\n"
    (tmp_path / "cluster.yaml").write_text(f"{node}---\n{pod}", "utf-8")
    assert [each.kind for each in load(tmp_path / "cluster.yaml").contents.items] == ["Node", "Pod"]
    (tmp_path / "scenario.yaml").write_text(f"{{objects: [{node}], steps: [{{log: hello}}]}}", "utf-8")
    assert load(tmp_path / "scenario.yaml").contents.items == []
