"""Properties: arithmetic agrees with Python within 64 bits, and printed expressions parse to the same value."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cel import CELError, Environment, EvaluationError
from kubesched.cel.parser import parse
from kubesched.cel.semver import Semver
from kubesched.cel.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from kubesched.cel.types import DYN, INT
from kubesched.cel.values import MAX_INT, MIN_INT, Duration, Timestamp

ENVIRONMENT = Environment({"a": INT, "b": INT, "x": DYN})
INTS = st.integers(MIN_INT, MAX_INT) | st.integers(-5, 5)


@given(INTS, INTS, st.sampled_from("+-*"))
def test_arithmetic_overflows_or_is_exact(a: int, b: int, sign: str) -> None:
    """Sums, differences and products are exact, or an overflow error."""
    exact = {"+": a + b, "-": a - b, "*": a * b}[sign]
    program = ENVIRONMENT.compile(f"a {sign} b")
    if MIN_INT <= exact <= MAX_INT:
        assert program({"a": a, "b": b}) == exact
    else:
        with pytest.raises(EvaluationError, match="integer overflow"):
            program({"a": a, "b": b})


@given(INTS, INTS.filter(bool))
def test_division_and_remainder_fit_together(a: int, b: int) -> None:
    """The quotient rounds toward zero, and the remainder has the sign of the dividend."""
    if (a, b) == (MIN_INT, -1):
        return
    quotient = ENVIRONMENT.compile("a / b")({"a": a, "b": b})
    remainder = ENVIRONMENT.compile("a % b")({"a": a, "b": b})
    assert isinstance(quotient, int)
    assert isinstance(remainder, int)
    assert quotient * b + remainder == a
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)


@given(st.text(alphabet=st.characters(max_codepoint=126)))
def test_strings_survive_quoting(text: str) -> None:
    """ASCII text in JSON's spelling is a CEL literal."""
    assert ENVIRONMENT.compile(json.dumps(text).replace("\\/", "/"))({}) == text


_literals = st.one_of(
    st.integers(MIN_INT, MAX_INT).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.just("null"),
    st.sampled_from(["a", "b", "x", "x.y", "x[0]", "x.?y"]),
)
_expressions = st.recursive(
    _literals,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "==", "<", "&&", "||", "in"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
        inner.map(lambda item: f"[{item}].map(v, v)"),
        inner.map(lambda item: f"-({item})"),
    ),
    max_leaves=12,
)


@given(_expressions)
def test_spaces_and_comments_change_nothing(source: str) -> None:
    """White space and comments around tokens do not change the tree."""
    spaced = source.replace("(", "( // comment\n").replace(",", " ,\t").replace(")", "\n)")
    assert _shape(source) == _shape(spaced)


def _shape(source: str) -> str:
    return re.sub(r"offset=\d+", "", repr(parse(source)))


@given(_expressions)
def test_any_expression_compiles_or_is_rejected(source: str) -> None:
    """Whatever parses either runs or fails with one of the errors of CEL, within its estimated cost."""
    try:
        program = ENVIRONMENT.compile(source)
        program.evaluate({"a": 1, "b": 2, "x": {"y": [1, "two"]}})
    except CELError:
        return
    assert program.cost.min <= program.cost.max


@given(st.text(alphabet="ab1.+-*/%!<>=&|?:()[]{},\"'`\\ \n#x", max_size=40))
def test_any_text_compiles_or_is_rejected(source: str) -> None:
    """No text makes the compiler crash, and every message names a place."""
    message = _rejection(source)
    assert message is None or message.startswith("ERROR: <input>:") or "overflow" in message


def _rejection(source: str) -> str | None:
    try:
        ENVIRONMENT.compile(source)
    except CELError as error:
        return str(error)
    return None


@given(st.integers(MIN_INT // 10**3, MAX_INT // 10**3))
def test_durations_survive_printing(micros: int) -> None:
    """A duration of milliseconds reads back from its text."""
    value = Duration(micros // 10**6 * 10**6)
    assert parse_duration(duration_text(value)) == value


@given(st.integers(-62135596800 * 10**9, 253402300799999999999))
def test_timestamps_survive_printing(nanos: int) -> None:
    """A timestamp reads back from its text, to the nanosecond."""
    assert parse_timestamp(timestamp_text(Timestamp(nanos))) == Timestamp(nanos)


_identifiers = st.from_regex(r"\A(?:0|[1-9][0-9]{0,3}|[a-z-][a-z0-9-]{0,3})\Z")


@given(st.tuples(*[st.integers(0, 50)] * 3), st.lists(_identifiers, max_size=3))
def test_a_release_is_later_than_its_prereleases(numbers: tuple[int, int, int], parts: list[str]) -> None:
    """Versions compare by number, then prereleases come before the release."""
    release = Semver(*numbers)
    version = Semver.parse(".".join(map(str, numbers)) + (f"-{'.'.join(parts)}" if parts else ""))
    assert (version < release) is bool(parts)
    assert version < Semver(numbers[0], numbers[1], numbers[2] + 1)
