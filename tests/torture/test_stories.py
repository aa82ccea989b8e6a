"""Stories: the scheduler in a simulation with faults. `make stories` runs other ones each day."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.torture.bugs import BUGS
from tests.torture.planted_bugs import ROOT

from kubesched.cli.main import main
from kubesched.client.leader import LeaderElector
from kubesched.cluster.state import ClusterState
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.torture import run as running
from kubesched.torture.campaign import EXPECTED, Campaign
from kubesched.torture.reduction import reduce
from kubesched.torture.run import play, run_story
from kubesched.torture.story import Story, story_of


def _failed_before() -> list[dict[str, Any]]:
    """Stories as they were when they failed: the generator has changed since."""
    lines = Path(__file__).with_name("failed_stories.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kept", _failed_before(), ids=lambda kept: kept["why"][:60])
def test_stories_that_failed_once(kept: dict[str, Any]) -> None:
    """Every story that ever failed holds now."""
    story = Story.from_json(kept)
    assert play(story).violation is None
    assert story.to_json()["steps"] == kept["steps"]


def test_a_story_is_the_same_every_time() -> None:
    """The same seed gives the same story, the same decisions and the same writes."""
    first, second = run_story(7), run_story(7)
    assert story_of(7) == story_of(7)
    assert (first.digest, first.decisions, first.bound) == (second.digest, second.decisions, second.bound)
    assert first.bound > 0


def test_a_planted_bug_is_found_and_told_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Placed pods that are not counted are found, and the story is reduced to a few steps that still fail."""
    place = ClusterState._place

    def forgetful(self: ClusterState, info: object, node_name: str) -> None:
        place(self, info, node_name)  # type: ignore[arg-type]
        self.nodes.used[:] = 0

    monkeypatch.setattr(ClusterState, "_place", forgetful)
    failed = run_story(7)
    assert failed.violation is not None
    assert failed.violation.invariant in ("counters", "placed where it must not be")
    reduced = reduce(failed, seconds=math.inf)
    assert reduced.violation is not None
    assert reduced.violation.invariant == failed.violation.invariant
    assert reduced.reached <= min(6, failed.reached)
    again = run_story(7, [step.number for step in reduced.steps[: reduced.reached]])
    assert str(again.violation) == str(reduced.violation)


def test_a_lost_pod_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that loses pods whose attempt failed is found."""
    monkeypatch.setattr(SchedulingQueue, "add_unschedulable_if_not_present", lambda self, queued: self.done(queued.uid))
    found = [outcome.violation for seed in range(3) if (outcome := run_story(seed)).violation]
    assert found
    assert found[0].invariant == "pod lost"


def test_two_leaders_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that does not wait for the lease to expire is found."""
    monkeypatch.setattr(LeaderElector, "_expired", lambda self: True)
    two = next(seed for seed in range(100) if story_of(seed).plan.replicas > 1)
    found = run_story(two).violation
    assert found is not None
    assert found.invariant == "two leaders"


def test_a_kind_of_fault_that_never_happens_fails_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """After enough stories every kind of fault must have happened."""
    campaign = Campaign()
    assert campaign.never_happened() == []
    campaign.stories = 1000
    assert campaign.never_happened() == sorted(EXPECTED)
    for fault in EXPECTED:
        campaign.met.note(fault, "here")
    assert campaign.never_happened() == []


def test_planted_bugs_have_their_places() -> None:
    """Every bug of the list can be planted, so that the list stays true when the source changes."""
    assert len(BUGS) >= 50
    for bug in BUGS:
        text = (ROOT / "src" / "kubesched" / bug.file).read_text()
        assert text.count(bug.old) == 1, bug.words
        compile(text.replace(bug.old, bug.new), bug.file, "exec")
        assert bug.new != bug.old


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command replays a story, or some of its steps, and says what it did; wrong arguments are refused."""
    monkeypatch.setattr(running, "SETTLE_SECONDS", 60.0)
    result = CliRunner().invoke(main, ["torture", "--seed", "25", "--steps", "0,9"])
    assert result.exit_code == 0
    assert "node-1 comes" in result.stdout
    assert "holds: " in result.stdout
    result = CliRunner().invoke(main, ["torture", "--seeds", "1", "--from", "7", "--coverage"])
    assert result.exit_code == 0
    assert "1 stories in " in result.stdout
    assert "API server" in result.stdout or "watch" in result.stdout or "failed" in result.stdout
    assert CliRunner().invoke(main, ["torture", "--steps", "1"]).exit_code == 2
    assert CliRunner().invoke(main, ["torture", "--seed", "1", "--steps", "x"]).exit_code == 2
