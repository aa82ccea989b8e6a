"""Quantities: upstream's grammar, its rounding, and exactness against a model in fractions."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.quantity import (
    MAX_INT64,
    NANO,
    Quantity,
    QuantityError,
    milli,
    milli_of,
    nanos,
    value,
    value_of,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


def model(number: Fraction) -> int:
    """The value of a number in billionths."""
    magnitude = min(ceil(abs(number) * NANO), MAX_INT64 * NANO)
    return -magnitude if number < 0 else magnitude


numbers = st.tuples(st.integers(0, 10**20), st.text("0123456789", max_size=12))
exponents = st.integers(-25, 25)


@given(numbers, st.sampled_from(sorted(SUFFIXES)), st.sampled_from(["", "+", "-"]))
def test_every_suffix_is_exact(number: tuple[int, str], suffix: str, sign: str) -> None:
    """A number with a suffix is the number times the suffix, rounded away from zero and capped."""
    whole, decimals = number
    exact = Fraction(f"{whole}.{decimals or 0}") * SUFFIXES[suffix] * (-1 if sign == "-" else 1)
    assert nanos(f"{sign}{whole}.{decimals}{suffix}") == model(exact)


@given(numbers, exponents, st.sampled_from("eE"), st.sampled_from(["", "+"]))
def test_every_exponent_is_exact(number: tuple[int, str], exponent: int, letter: str, plus: str) -> None:
    """A number with a decimal exponent is that number times that power of ten."""
    whole, decimals = number
    written = f"{plus if exponent >= 0 else ''}{exponent}"
    exact = Fraction(f"{whole}.{decimals or 0}") * Fraction(10) ** exponent
    assert nanos(f"{whole}.{decimals}{letter}{written}") == model(exact)


@given(st.integers(-MAX_INT64, MAX_INT64))
def test_a_whole_number_is_itself(number: int) -> None:
    """A whole number comes back unchanged, written as a string or as a number."""
    assert value(number) == value(str(number)) == number


@given(st.integers(-(10**15), 10**15))
def test_milli_reads_back_what_was_written_in_milli(amount: int) -> None:
    """Formatting an amount in thousandths and reading it gives the same amount."""
    assert milli(f"{amount}m") == amount


@given(st.integers(-(10**18), 10**18))
def test_nanos_reads_back_what_was_written_in_nanos(amount: int) -> None:
    """Formatting an amount in billionths and reading it gives the same amount."""
    assert nanos(f"{amount}n") == amount


@given(st.floats(0, 1e15, allow_nan=False))
def test_a_bare_number_means_what_its_shortest_spelling_means(number: float) -> None:
    """A JSON number with a fraction is read as it would be written, not as its binary value."""
    assert nanos(number) == nanos(repr(number)) == model(Fraction(repr(number)))


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_rounding_keeps_the_order(one: int, other: int) -> None:
    """A larger amount never rounds to a smaller one."""
    low, high = sorted((one, other))
    assert milli_of(low) <= milli_of(high)
    assert value_of(low) <= value_of(high)


@given(st.integers(-(10**30), 10**30))
def test_rounding_is_away_from_zero_within_64_bits(amount: int) -> None:
    """Thousandths and units are the next ones away from zero, and never leave 64 bits."""
    for rounded, unit in ((milli_of(amount), 10**6), (value_of(amount), NANO)):
        assert abs(rounded) == min(ceil(Fraction(abs(amount), unit)), MAX_INT64)
        assert rounded * amount >= 0


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("0", 0),
        ("100m", 10**8),
        ("1", NANO),
        (1, NANO),
        (0.5, NANO // 2),
        ("1.5Gi", 1536 * 2**20 * NANO),
        ("1e3", 1000 * NANO),
        ("1E3", 1000 * NANO),
        ("1E", 10**18 * NANO),
        ("1e-3", 10**6),
        ("12e+2", 1200 * NANO),
        ("007", 7 * NANO),
        ("5.", 5 * NANO),
        (".5", NANO // 2),
        ("1.G", 10**18),
        (".001Ki", 1024 * 10**6),
        (".000000001Ki", 1024),
        (".000000000001Ki", 2),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("-1.5", -3 * NANO // 2),
        (" 1 ", NANO),
    ],
)
def test_forms_that_kubernetes_accepts(quantity: Quantity, expected: int) -> None:
    """Each way of writing a quantity has the value that Kubernetes gives it."""
    assert nanos(quantity) == expected


@pytest.mark.parametrize("quantity", [".", "+", "-", "m", "+.", "Ki", "e5", "0Ei", "000"])
def test_missing_digits_are_zero(quantity: str) -> None:
    """Upstream reads a quantity without any digits as zero, and so do we."""
    assert nanos(quantity) == 0


@pytest.mark.parametrize(
    "quantity",
    [
        *("", " ", "12x", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", "1e", "1ee5"),
        *("- 1", "1 Gi", "--1", "1K", "1e1.5", "0x10", "1_000", "\u0661", "nan", "inf", "1e" + "9" * 19, "9" * 1001),
        *(float("nan"), float("inf")),
    ],
)
def test_a_malformed_quantity_is_refused(quantity: Quantity) -> None:
    """What Kubernetes does not accept is an error and never a number."""
    with pytest.raises(QuantityError):
        nanos(quantity)


def test_the_error_names_the_value_and_a_way_out() -> None:
    """The message shows the quantity as written and what would be right."""
    with pytest.raises(QuantityError) as caught:
        milli("12x")
    assert str(caught.value) == (
        'quantity "12x" is malformed; use a number with an optional suffix such as 500m or 1Gi'
    )


@pytest.mark.parametrize("quantity", ["8Ei", "16Ei", "9223372036854775808", "1e30", "1e999999999999999999", "10E"])
def test_a_huge_quantity_stays_at_the_largest_number(quantity: str) -> None:
    """Beyond 64 bits a quantity is as large as can be, rather than nothing."""
    assert value(quantity) == MAX_INT64


def test_milli_of_a_huge_quantity_stays_within_64_bits() -> None:
    """A value that fits in units but not in thousandths is capped too."""
    assert milli("1Ei") == MAX_INT64


@pytest.mark.parametrize("quantity", ["1e-999999999999999999", "0.0000000000000000000000001", "1" * 900 + "e-2000"])
def test_a_tiny_quantity_is_never_nothing(quantity: str) -> None:
    """However small a request is, it is at least a billionth."""
    assert nanos(quantity) == 1
