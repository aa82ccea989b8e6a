"""Recorded expressions: result, error, type, actual and estimated cost are those of Kubernetes 1.36."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cel.rendering import rendered

from kubesched.cel import CompileError, CostLimitError, Environment, EvaluationError, ProgramError
from kubesched.cel.types import DYN, INT, STRING, list_of, map_of

ENVIRONMENT = Environment(
    {
        "x": DYN,
        "s": STRING,
        "i": INT,
        "l": list_of(INT),
        "m": map_of(STRING, STRING),
        "ll": list_of(STRING),
    }
)
VALUES = {
    "x": {"a": 1, "b": "str", "c": [1, "two", 3.0], "d": {"e": True}},
    "s": "hello world",
    "i": 7,
    "l": [3, 1, 2],
    "m": {"k": "v", "k2": "v2"},
    "ll": ["b", "a"],
}
LINES = (Path(__file__).parent / "expressions.jsonl").read_text(encoding="utf-8").splitlines()
RECORDED = [json.loads(line) for line in LINES]


def outcome(expression: str) -> dict[str, Any]:
    """The outcome of an expression, in the form of a record."""
    found: dict[str, Any] = {"expression": expression}
    try:
        program = ENVIRONMENT.compile(expression)
    except (CompileError, ProgramError) as error:
        return {**found, "rejected": str(error)}
    found |= {"type": program.result_type.declared, "estimate": [program.cost.min, program.cost.max]}
    try:
        value, cost = program.evaluate(VALUES)
    except (EvaluationError, CostLimitError) as error:
        return {**found, "error": str(error)}
    return {**found, "value": rendered(value), "cost": cost}


@pytest.mark.parametrize("record", RECORDED, ids=[record["expression"] for record in RECORDED])
def test_recorded_expression(record: dict[str, Any]) -> None:
    """The expression has the outcome that was recorded."""
    assert outcome(record["expression"]) == record
