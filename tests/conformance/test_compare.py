"""The comparison misses nothing: any change to a recording is reported as a difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.cli.main import main
from kubesched.conformance.compare import ConformanceReport, Difference, check, check_file
from kubesched.conformance.replay import Expect, RecordedScenario, read_scenarios, replay

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.jsonl.gz"))
Way = tuple[Any, ...]


@cache
def sample() -> list[RecordedScenario]:
    """A few scenarios with results from every theme."""
    found = []
    for path in CORPUS:
        scenarios = [s for _, s in zip(range(12), read_scenarios(path), strict=False) if s.expect.results]
        found += sorted(scenarios, key=lambda s: len(s.objects))[:4]
    return found


def leaves(value: Any, path: Way = ()) -> Iterator[Way]:
    """The path to every value that is not a container."""
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    elif value not in (None, "", [], {}):
        yield path


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}!"


@settings(max_examples=settings().max_examples * 2)
@given(data=st.data())
def test_any_changed_value_is_a_difference(data: st.DataObject) -> None:
    """Changing one expected value in a recorded scenario is reported under its field."""
    scenario = data.draw(st.sampled_from(sample()))
    results = deepcopy(scenario.expect.results)
    ways = [w for w in leaves(results) if "error" not in results[w[0]]]
    if not ways:
        return
    way = data.draw(st.sampled_from(ways))
    place: Any = results
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = changed(place[way[-1]])
    found = check(msgspec.structs.replace(scenario, expect=Expect(results=results)))
    assert [difference.field for difference in found] == [way[1]], way


@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_any_missing_field_is_a_difference(data: st.DataObject) -> None:
    """A field removed from a recording is reported with our value and no expected one."""
    scenario = data.draw(st.sampled_from(sample()))
    results = deepcopy(scenario.expect.results)
    index = data.draw(st.integers(0, len(results) - 1))
    fields = [k for k, v in results[index].items() if k not in ("pod", "attempt", "error") and any(leaves(v))]
    if not fields or "error" in results[index]:
        return
    field = data.draw(st.sampled_from(sorted(fields)))
    del results[index][field]
    found = check(msgspec.structs.replace(scenario, expect=Expect(results=results)))
    assert [(difference.field, difference.expected) for difference in found] == [(field, None)]


def test_missing_and_extra_attempts_are_differences() -> None:
    """A recording with more or fewer attempts than ours is reported."""
    scenario = sample()[0]
    results = scenario.expect.results
    for altered in (results[:-1], [*results, results[-1]]):
        found = check(msgspec.structs.replace(scenario, expect=Expect(results=altered)))
        assert [(d.field, d.expected, d.got) for d in found] == [("number of attempts", len(altered), len(results))]


def test_an_expected_error_must_come() -> None:
    """A configuration that only one of kube-scheduler and kubesched rejects is a difference."""
    scenario = sample()[0]
    refused = check(msgspec.structs.replace(scenario, expect=Expect(error="no such plugin")))
    assert [(d.field, d.expected, d.got) for d in refused] == [("error", "no such plugin", None)]
    broken = msgspec.structs.replace(
        scenario, config={"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "Nonsense"}
    )
    (found,) = check(broken)
    assert (found.field, found.expected) == ("error", None)
    assert "kind" in str(found.got)
    both = msgspec.structs.replace(broken, expect=Expect(error="worded differently"))
    assert check(both) == []


def test_replaying_twice_is_the_same() -> None:
    """A replay is deterministic and leaves nothing behind."""
    for scenario in sample()[::5]:
        assert replay(scenario) == replay(scenario)


def test_reports_add_up() -> None:
    """Several files are combined into one report."""
    one, other = ConformanceReport(2, 5, [Difference("s", "p", 1, "node", "a", "b")]), ConformanceReport(3, 7)
    one.add(other)
    assert (one.scenarios, one.attempts, len(one.differences)) == (5, 12, 1)


@pytest.mark.parametrize("damaged", [0, 2])
def test_the_command_ends_with_the_counts(tmp_path: Path, damaged: int) -> None:
    """The last line is `N scenarios, M attempts, K differences` over all files, and the exit code is 0 only if K is
    0.
    """
    scenarios = [json.loads(msgspec.json.encode(s)) for s in sample()[:3]]
    for scenario in scenarios[:damaged]:
        scenario["expect"]["results"][0]["pod"] = "default/nobody"
    files = []
    for number, scenario in enumerate(scenarios):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text(json.dumps(scenario) + "\n")
    outcome = CliRunner().invoke(main, ["conformance", *map(str, files)])
    attempts = sum(check_file(file).attempts for file in files)
    assert outcome.output.splitlines()[-1] == f"3 scenarios, {attempts} attempts, {damaged} differences"
    assert outcome.exit_code == (1 if damaged else 0)
    assert outcome.output.startswith("0.jsonl: 1 scenarios, ")
