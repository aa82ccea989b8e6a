"""Durations in Go's notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config.duration import Duration

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("0", 0, "0s"),
        ("15s", 15 * SECOND, "15s"),
        ("1m30s", 90 * SECOND, "1m30s"),
        ("10m", 600 * SECOND, "10m0s"),
        ("1h", 3600 * SECOND, "1h0m0s"),
        ("1.5h", 5400 * SECOND, "1h30m0s"),
        (".5s", SECOND // 2, "500ms"),
        ("1.s", SECOND, "1s"),
        ("+3us", 3_000, "3µs"),
        ("7µs", 7_000, "7µs"),
        ("-1.25ms", -1_250_000, "-1.25ms"),
        ("999ns", 999, "999ns"),
        ("0.3333333333333333333h", 1_200_000_000_000, "20m0s"),
        ("2562047h47m16.854775807s", 2**63 - 1, "2562047h47m16.854775807s"),
        ("-2562047h47m16.854775808s", -(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_reads_and_prints_as_go_does(text: str, nanoseconds: int, printed: str) -> None:
    """A duration means the same number of nanoseconds as in Go, and prints in the same form."""
    assert Duration.parse(text) == nanoseconds
    assert str(Duration.parse(text)) == printed


@pytest.mark.parametrize("text", ["", "s", "1", ".s", "-", "1x", "1s2", "--1s", " 1s", "1 s", "9999999h", "٣s"])
def test_refuses_what_go_refuses(text: str) -> None:
    """What is not a Go duration is an error that quotes it."""
    with pytest.raises(ValueError, match="duration") as error:
        Duration.parse(text)
    assert text in str(error.value)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_printing_loses_nothing(nanoseconds: int) -> None:
    """Every duration is read back from its own text."""
    assert Duration.parse(str(Duration(nanoseconds))) == nanoseconds


@given(st.integers(min_value=-(10**9), max_value=10**9))
def test_seconds_there_and_back(seconds: int) -> None:
    """A duration made of whole seconds says so."""
    assert Duration.of(seconds).seconds == seconds


def test_shows_itself_readably() -> None:
    """In a message a duration is its text, not a number of nanoseconds."""
    assert repr(Duration.of(90)) == 'Duration("1m30s")'
