"""`kubesched conformance`: what it prints and how it ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubesched.cli.main import main

RESOURCES = {"cpu": "2", "memory": "4Gi", "pods": "110"}


def scenario(name: str = "small", node: str = "n1") -> dict[str, Any]:
    """A pod that fits the only node there is; the recording says that it went to `node`."""
    kind = {"apiVersion": "v1", "kind": "Node"}
    result = {"pod": "default/web", "attempt": 1, "feasible": ["n1"], "best": ["n1"], "node": node}
    return {
        "name": name,
        "objects": [{**kind, "metadata": {"name": "n1"}, "status": {"allocatable": RESOURCES}}],
        "pods": [{"metadata": {"name": "web", "namespace": "default", "uid": "1"}}],
        "expect": {"results": [result]},
    }


def replay(path: Path, *scenarios: dict[str, Any], options: tuple[str, ...] = ()) -> Result:
    """The command's answer to a file of these scenarios."""
    path.write_text("".join(f"{json.dumps(each)}\n" for each in scenarios))
    return CliRunner().invoke(main, ["conformance", str(path), *options], catch_exceptions=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a corpus file can be written."""
    return tmp_path / "corpus.jsonl"


def test_agreement_is_a_line_per_file_and_a_total(path: Path) -> None:
    """Without differences there are the counts alone, and the exit code is 0."""
    result = replay(path, scenario("a"), scenario("b"))
    assert result.exit_code == 0
    counts = "2 scenarios, 2 attempts, 0 differences"
    assert result.stdout.splitlines() == [f"corpus.jsonl: {counts}", counts]


def test_a_difference_is_named_and_fails(path: Path) -> None:
    """A difference is shown with scenario, pod, attempt, field and both values; the exit code is 1."""
    result = replay(path, scenario("a"), scenario("b", node="n2"))
    assert result.exit_code == 1
    assert 'b, pod default/web, attempt 1: node\n  value: expected "n2", got "n1"\n' in result.stdout
    assert result.stdout.splitlines()[-1] == "2 scenarios, 2 attempts, 1 differences"


def test_only_the_first_differences_are_shown(path: Path) -> None:
    """`--show` limits how many are printed, and the rest are counted with the way to see them."""
    result = replay(path, *(scenario(f"s{i}", node="n2") for i in range(3)), options=("--show", "1"))
    assert result.stdout.count("expected") == 1
    assert "and 2 more; see them with --show 3" in result.stdout


def test_what_is_no_corpus_is_refused_with_its_place(path: Path) -> None:
    """A line that is no scenario is an error that names file and line."""
    path.write_text(json.dumps(scenario()) + '\n{"name": 1}\n')
    result = CliRunner().invoke(main, ["conformance", str(path)])
    assert result.exit_code == 1
    assert f"{path}:2: not a scenario" in result.stderr
    assert "give files in the corpus format" in result.stderr


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        (5, "Expected `array`, got `int`"),
        ([5], "Expected `object`, got `int`"),
        ([{"node": "n1"}], "results[0] must have a pod and an attempt"),
    ],
)
def test_an_expectation_that_is_none_is_refused_with_its_place(path: Path, results: object, problem: str) -> None:
    """Results that are no list of attempts are an error, not a crash."""
    path.write_text(json.dumps({**scenario(), "expect": {"results": results}}))
    result = CliRunner().invoke(main, ["conformance", str(path)])
    assert result.exit_code == 1
    assert f"{path}:1: not a scenario: {problem}" in result.stderr


def test_a_line_that_is_no_text_is_refused_with_its_place(path: Path) -> None:
    """Bytes that are not UTF-8 are an error that names file and line."""
    path.write_bytes(b'{"name": "\xff"}')
    result = CliRunner().invoke(main, ["conformance", str(path)])
    assert result.exit_code == 1
    assert f"{path}:1: not a scenario: " in result.stderr


def test_an_object_that_is_none_is_refused_with_its_scenario(path: Path) -> None:
    """An object that cannot be read is an error that names file, scenario, object, field and value."""
    path.write_text(json.dumps({**scenario("odd"), "pods": [{"metadata": {"name": 5}}]}))
    result = CliRunner().invoke(main, ["conformance", str(path)])
    assert result.exit_code == 1
    assert f"{path}, scenario odd: Pod 5: metadata.name: expected str, got int (5)" in result.stderr


def test_an_error_is_compared_but_for_its_words(path: Path) -> None:
    """Of an attempt that ended in an error pod and attempt must agree; how the error is worded need not."""
    expect = {"results": [{"pod": "default/web", "attempt": 1, "error": "in other words"}]}
    empty = {**scenario(), "objects": [], "expect": expect}
    assert replay(path, empty).exit_code == 0
    expect["results"][0]["attempt"] = 2
    assert "attempt 2: attempt\n  value: expected 2, got 1\n" in replay(path, empty).stdout


@pytest.mark.parametrize("content", [b"no gzip at all", gzip.compress(b"\n" * 99)[:-8]], ids=["other", "cut short"])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    """A compressed file that is none, or that was cut short, is an error that names it."""
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(content)
    result = CliRunner().invoke(main, ["conformance", str(path)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {path}: cannot be read: ")
    assert "give files in the corpus format" in result.stderr


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """A file that is not there ends in exit code 2 and says which."""
    result = CliRunner().invoke(main, ["conformance", str(tmp_path / "nothing.jsonl")])
    assert result.exit_code == 2
    assert "nothing.jsonl" in result.stderr
