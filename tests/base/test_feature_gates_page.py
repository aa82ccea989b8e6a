"""The page of feature gates agrees with the gates."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from kubesched.base.features import Features, gate_name
from kubesched.daemon.flags.gates import EFFECTIVE, known_gates

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (\w+) \| (on|off) \| [^|]+ \| (\S+) \|$",
    (ROOT / "docs/reference/feature-gates.md").read_text("utf-8"),
    re.MULTILINE,
)


def test_every_gate_that_matters_is_on_the_page_once() -> None:
    """Gates that scheduling reads, or that have an effect elsewhere, are all listed."""
    names = [name for name, _, _ in ROWS]
    assert sorted(names) == sorted({gate_name(field.name) for field in fields(Features)} | {*EFFECTIVE})


@pytest.mark.parametrize(("name", "default", "tested"), ROWS, ids=[name for name, _, _ in ROWS])
def test_defaults_and_tests_are_right(name: str, default: str, tested: str) -> None:
    """A gate's default is upstream's, and the test file that the page names mentions the gate."""
    assert known_gates()[name].default is (default == "on")
    text = (ROOT / tested).read_text("utf-8")
    snake = {gate_name(field.name): field.name for field in fields(Features)}.get(name, name)
    assert name in text or snake in text
