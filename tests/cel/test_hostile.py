"""Hostile input: every limit holds, and nothing takes long or exhausts Python's stack."""

import contextlib
import time

import pytest

from kubesched.cel import CELError, CompileError, CostLimitError, Environment, EvaluationError
from kubesched.cel.types import DYN, STRING

ENVIRONMENT = Environment({"x": DYN, "s": STRING})

DEPTH_ERROR = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"


@pytest.mark.parametrize(
    "source",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "[" * 5000 + "]" * 5000,
        "1" + " + 1" * 5000,
        "x" + ".a" * 5000,
        "x" + "[0]" * 5000,
        "{1:" * 3000 + "1" + "}" * 3000,
        "true ? " * 1 + "(true ? " * 2000 + "1" + " : 2)" * 2000 + " : 3",
        "size(" * 3000 + "s" + ")" * 3000,
        "[1]" + ".map(a, [a])" * 2000,
    ],
    ids=["parentheses", "lists", "sums", "selections", "indices", "maps", "conditionals", "calls", "macros"],
)
def test_deep_nesting_is_rejected(source: str) -> None:
    """Deep nesting is a compile error with cel-go's words, not a Python recursion error."""
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile(source)
    assert str(caught.value) == DEPTH_ERROR


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("(" * 200 + "1" + ")" * 200, 1),
        ("1" + " + 1" * 200, 201),
        ("!" * 5000 + "true", True),
        ("-" * 5000 + "1", 1),
        (" && ".join(["true"] * 5000), True),
        (" || ".join(["false"] * 5000), False),
        ("[" * 60 + "1" + "].map(a, a)" * 60 + "[0]" * 60, 1),
    ],
)
def test_nesting_below_the_limit_works(source: str, value: object) -> None:
    """What the limit allows compiles, is estimated and runs; chains of logic are balanced and need no depth."""
    program = ENVIRONMENT.compile(source)
    assert program.cost.max >= 0
    assert program({}) == value


def test_a_nearly_full_stack_is_no_crash() -> None:
    """A caller that is deep in the stack gets an error of CEL or a result, never a recursion error."""

    def called_at(frames: int) -> None:
        if frames:
            called_at(frames - 1)
            return
        with contextlib.suppress(CELError):
            ENVIRONMENT.compile("[" * 240 + "x" + "]" * 240)({"x": 1})
        with contextlib.suppress(CELError):
            assert shallow.cost.max >= 0
            assert shallow({"x": 1}) is not None

    shallow = ENVIRONMENT.compile("[" * 200 + "x" + "]" * 200)
    for frames in (0, 200, 500, 700):
        called_at(frames)


def test_macros_cannot_double_the_tree_without_end() -> None:
    """optMap() uses its target twice, so a chain of it is limited by the number of nodes."""
    with pytest.raises(CompileError, match="too many parts after macros are expanded"):
        ENVIRONMENT.compile("x.?a" + ".optMap(v, v)" * 100)
    deep = "x.?a" + ".a" * 200 + ".optMap(v, v).hasValue()"
    assert ENVIRONMENT.compile(deep)({"x": {}}) is False


def test_a_long_expression_is_rejected() -> None:
    """The source may have 100,000 characters."""
    with pytest.raises(CompileError, match="expression code point size exceeds limit: size: 100001, limit 100000"):
        ENVIRONMENT.compile("1" + " " * 100_000)


@pytest.mark.parametrize(
    "source",
    [
        "lists.range(9223372036854775807)",
        "lists.range(90000).map(a, a)",
        "lists.range(900).map(a, lists.range(900).map(b, a * b))",
        'lists.range(900000).all(a, s.matches("(a+)+$"))',
        "lists.range(1000).distinct()",
        "lists.range(1000).sort()",
    ],
)
def test_the_cost_limit_holds(source: str) -> None:
    """A loop that is too long is cancelled, and soon."""
    started = time.process_time()
    with pytest.raises(CostLimitError):
        ENVIRONMENT.compile(source)({"s": "aaaa"})
    assert time.process_time() - started < 20


def test_a_bad_pattern_takes_linear_time() -> None:
    """The classic pattern for exponential backtracking is harmless."""
    program = ENVIRONMENT.compile('s.matches("^(a+)+$")')
    assert program({"s": "a" * 1000 + "!"}) is False


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\\1", "a{2000}", "[", "*"])
def test_patterns_that_re2_rejects(pattern: str) -> None:
    """Lookahead, back references and huge repetitions are errors."""
    with pytest.raises(CompileError, match="invalid matches argument"):
        ENVIRONMENT.compile(f's.matches("{pattern}")')


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('int("9" + "9999999999999999999999")', "type conversion error from 'string' to 'int'"),
        ('double("1e" + "999999999")', "type conversion error from 'string' to 'double'"),
        ('duration("9" + "99999999999999h")', "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("9223372036854775807 * 9223372036854775807", "integer overflow"),
        ('"%.999999f".format(x)', "could not parse formatting clause: error while parsing precision"),
    ],
)
def test_huge_numbers_are_errors(source: str, message: str) -> None:
    """Numbers that do not fit are errors, whatever their spelling."""
    with pytest.raises(EvaluationError) as caught:
        ENVIRONMENT.compile(source)({"x": [1.5]})
    assert str(caught.value).startswith(message)


def test_a_huge_exponent_of_a_quantity_is_harmless() -> None:
    """A quantity with an absurd exponent is just large."""
    assert ENVIRONMENT.compile('quantity("1e999999999").isGreaterThan(quantity("1E"))')({}) is True


def test_replacing_does_not_grow_without_bound() -> None:
    """A result that would need gigabytes is an error."""
    text = "a" * 100_000
    with pytest.raises(EvaluationError, match="result is too long"):
        ENVIRONMENT.compile('s.replace("", s)')({"s": text})
