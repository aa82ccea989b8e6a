"""Taints and tolerations: the whole table of matches, and the first taint that is in the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.objects import Taint, Toleration
from kubesched.api.taints import (
    HARD_EFFECTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    TAINT_NODE_UNSCHEDULABLE,
    tolerates,
    tolerates_unschedulable,
    untolerated,
)

GPU = Taint(key="gpu", value="a100", effect=NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", operator="Equal", value="a100", effect=NO_SCHEDULE), True),
        (Toleration(key="gpu", value="a100", effect=NO_SCHEDULE), True),
        (Toleration(key="gpu", value="a100"), True),
        (Toleration(key="gpu", value="h100"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="cpu", value="a100"), False),
        (Toleration(key="gpu", value="a100", effect=NO_EXECUTE), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", value="ignored"), True),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect=NO_SCHEDULE), True),
        (Toleration(operator="Exists", effect=NO_EXECUTE), False),
        (Toleration(value="a100"), True),
        (Toleration(), False),
        (Toleration(key="gpu", operator="Foo", value="a100"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, expected: bool) -> None:
    """Key, operator, value and effect decide together, and an empty field matches anything."""
    assert tolerates(toleration, GPU) is expected


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_numeric_operators_are_off(operator: str) -> None:
    """The comparison operators belong to an alpha feature and tolerate nothing without it."""
    taint = Taint(key="load", value="5", effect=NO_SCHEDULE)
    for bound in ("4", "5", "6"):
        assert not tolerates(Toleration(key="load", operator=operator, value=bound), taint)


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "4", "5", True),
        ("Gt", "5", "5", False),
        ("Gt", "-6", "-5", True),
        ("Lt", "6", "5", True),
        ("Lt", "5", "5", False),
        ("Lt", "0", "-5", True),
        ("Lt", "10", "9", True),  # numbers, not text
        ("Gt", "", "5", False),
        ("Gt", "4", "", False),
        ("Gt", "4", "05", False),
        ("Gt", "+4", "5", False),
        ("Gt", "4", "5.0", False),
        ("Lt", "9223372036854775807", "1", True),
        ("Lt", "9223372036854775808", "1", False),
        ("Lt", "9" * 5000, "1", False),
        ("Gt", "-9223372036854775808", "1", True),
        ("Gt", "-0", "1", False),
    ],
)
def test_numeric_operators_compare_whole_numbers(operator: str, bound: str, value: str, expected: bool) -> None:
    """With the gate on, the taint's value is compared with the toleration's if both are 64-bit integers."""
    toleration = Toleration(key="load", operator=operator, value=bound)
    taint = Taint(key="load", value=value, effect=NO_SCHEDULE)
    assert tolerates(toleration, taint, compare=True) is expected
    assert not tolerates(toleration, Taint(key="other", value=value, effect=NO_SCHEDULE), compare=True)


def test_the_first_untolerated_taint_is_named() -> None:
    """Of several taints in the way it is the first in the node's order, for messages are built from it."""
    taints = (GPU, Taint(key="b", effect=NO_EXECUTE), Taint(key="c", effect=NO_SCHEDULE))
    assert untolerated(taints, (Toleration(key="gpu", operator="Exists"),)) == taints[1]


def test_only_the_effects_asked_for_count() -> None:
    """A taint with another effect is not in the way."""
    soft = Taint(key="a", effect=PREFER_NO_SCHEDULE)
    assert untolerated((soft,), ()) is None
    assert untolerated((soft,), (), (PREFER_NO_SCHEDULE,)) == soft


def test_no_taints_need_no_tolerations() -> None:
    """An untainted node takes any pod."""
    assert untolerated((), ()) is None


@given(
    st.lists(
        st.builds(
            Taint, key=st.sampled_from("ab"), value=st.sampled_from("xy"), effect=st.sampled_from(sorted(HARD_EFFECTS))
        )
    ),
    st.lists(
        st.builds(
            Toleration,
            key=st.sampled_from(["", "a", "b"]),
            operator=st.sampled_from(["", "Equal", "Exists"]),
            value=st.sampled_from(["", "x", "y"]),
        )
    ),
)
def test_nothing_is_untolerated_when_each_taint_has_its_toleration(
    taints: list[Taint], tolerations: list[Toleration]
) -> None:
    """The answer is a taint without toleration exactly if there is one."""
    uncovered = [taint for taint in taints if not any(tolerates(toleration, taint) for toleration in tolerations)]
    assert untolerated(taints, tolerations) == (uncovered[0] if uncovered else None)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key=TAINT_NODE_UNSCHEDULABLE, operator="Exists", effect=NO_SCHEDULE), True),
        (Toleration(key=TAINT_NODE_UNSCHEDULABLE, operator="Exists"), True),
        (Toleration(key=TAINT_NODE_UNSCHEDULABLE), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key=TAINT_NODE_UNSCHEDULABLE, operator="Exists", effect=NO_EXECUTE), False),
        (Toleration(key="other", operator="Exists"), False),
    ],
)
def test_a_cordoned_node_counts_as_tainted(toleration: Toleration, expected: bool) -> None:
    """A pod goes to a cordoned node if it tolerates the unschedulable taint."""
    assert tolerates_unschedulable((toleration,)) is expected


def test_nobody_tolerates_a_cordon_by_default() -> None:
    """A pod without tolerations stays off cordoned nodes."""
    assert not tolerates_unschedulable(())
