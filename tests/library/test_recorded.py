"""Decisions that a scheduler has written down are explained as they were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.builders import node, pod
from tests.explain import fifteen
from tests.scheduler.world import world

from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.base.log import SILENT
from kubesched.cli.explain import PENDING, command
from kubesched.history.reader import RejectedNodes, load
from kubesched.history.recorder import HistoryRecorder
from kubesched.history.writer import Database, HistoryWriter
from kubesched.library.recorded import report_of

UNRESOLVABLE = "UnschedulableAndUnresolvable"


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    """The database of a scheduler that has bound one pod and has no node for another."""
    file = tmp_path / "decisions.db"
    output = HistoryWriter([Database(str(file), 100)], SILENT)

    async def schedule(clock: VirtualClock) -> None:
        recorder = HistoryRecorder(clock, sinks=[output.put])
        async with world(clock, node("n1", cpu="4"), node("n2", cpu="2"), subscribers=[recorder], check=False) as here:
            for each in (pod("web", cpu="1"), pod("huge", cpu="64")):
                here.create(each)
                await here.settle(2)

    run_virtual(schedule)
    output.close()
    return file


def explain(*args: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, args, env={"COLUMNS": "120", "NO_COLOR": "1"})


def test_recorded_decision_of_a_bound_pod(decisions: Path) -> None:
    """Node, runner-up and gap are those of the time, and the output says that they are recorded."""
    found: dict[str, Any] = json.loads(explain("pod", "web", "--from", str(decisions), "-o", "json").stdout)
    assert (found["source"], found["state"], found["node"], found["runnerUp"]) == ("recorded", "bound", "n1", "n2")
    assert {each["plugin"] for each in found["influence"]} == set(found["nodes"][0]["scores"])
    assert found["gap"] == found["nodes"][0]["total"] - found["nodes"][1]["total"] > 0
    shown = explain("pod", "default/web", "--from", str(decisions))
    assert shown.exit_code == 0
    assert "This is the scheduler's own record of the decision." in shown.stdout


def test_recorded_failures_are_pending(decisions: Path) -> None:
    """The overview has the pods whose last attempt failed, with the reasons recorded."""
    result = explain("--from", str(decisions))
    assert result.exit_code == PENDING
    assert "default/huge" in result.stdout
    assert "Insufficient cpu" in result.stdout
    assert "default/web" not in result.stdout


def test_record_beside_a_cluster(decisions: Path, tmp_path: Path) -> None:
    """With a cluster as well, a bound pod shows the record, and a pending one is decided today."""
    cluster = tmp_path / "cluster.json"
    cluster.write_text(
        json.dumps([fifteen.node("n1", 0), fifteen.pod("web", "1", nodeName="n1"), fifteen.pod("huge", "64")])
    )
    both = ("--from", str(decisions), "--from", str(cluster), "-o", "json")
    assert json.loads(explain("pod", "web", *both).stdout)["source"] == "recorded"
    assert json.loads(explain("pod", "huge", *both).stdout)["source"] == "decided"


def test_record_does_not_hide_another_question(decisions: Path, tmp_path: Path) -> None:
    """With --what-if or --config, a bound pod is decided again although a record is there."""
    cluster, config = tmp_path / "cluster.json", tmp_path / "config.yaml"
    nodes = [fifteen.node("n1", 0), fifteen.node("n2", 1)]
    cluster.write_text(json.dumps([*nodes, fifteen.pod("web", "1", nodeName="n1")]))
    config.write_text("profiles: [{plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}}]\n")
    both = ("pod", "web", "--from", str(decisions), "--from", str(cluster), "-o", "json")
    supposed = json.loads(explain(*both, "--what-if", "cordon n1").stdout)
    assert (supposed["source"], supposed["again"]) == ("decided", "n2")
    configured = json.loads(explain(*both, "--config", str(config)).stdout)
    assert (configured["source"], configured["beside"]["configuration"]) == ("decided", "default")


def test_commonest_reason_is_the_recorded_cause(decisions: Path) -> None:
    """A plugin that rejects one of four nodes does not stand for the other three."""
    taint = RejectedNodes("TaintToleration", UNRESOLVABLE, ["untolerated taint"], 1, ["n2"])
    cpu = RejectedNodes("NodeResourcesFit", UNRESOLVABLE, ["Insufficient cpu"], 3, ["n1", "n3", "n4"])
    (big,) = load(decisions, "default", "huge")
    attempt = msgspec.structs.replace(big, rejections=[taint, cpu])
    report = report_of(attempt)
    assert (report.cause, report.blocked_by) == ("NodeResourcesFit", "Insufficient cpu")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("pod", "nobody"), "no decision about pod 'nobody' is recorded"),
        (("node", "n1"), "recorded decisions have no cluster in them; add one with another --from"),
    ],
)
def test_what_records_cannot_answer(decisions: Path, args: tuple[str, ...], said: str) -> None:
    """A pod that was never tried, and questions about nodes, are refused with what to do."""
    result = explain(*args, "--from", str(decisions))
    assert result.exit_code in (1, 2)
    assert said in result.stderr
