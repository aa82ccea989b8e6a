"""Statuses: codes, reasons and plugins."""

from __future__ import annotations

import pytest

from kubesched.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable


@pytest.mark.parametrize(
    ("code", "number", "name"),
    [
        (Code.SUCCESS, 0, "Success"),
        (Code.ERROR, 1, "Error"),
        (Code.UNSCHEDULABLE, 2, "Unschedulable"),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 3, "UnschedulableAndUnresolvable"),
        (Code.WAIT, 4, "Wait"),
        (Code.SKIP, 5, "Skip"),
        (Code.PENDING, 6, "Pending"),
    ],
)
def test_codes_are_upstreams(code: Code, number: int, name: str) -> None:
    """Numbers and names of codes are kube-scheduler's."""
    assert code == number
    assert code.upstream == name


@pytest.mark.parametrize("code", list(Code))
def test_what_a_code_means(code: Code) -> None:
    """A rejection is neither success nor failure, and Pending is a rejection too."""
    status = Status(code)
    assert status.is_success is (code is Code.SUCCESS)
    assert status.is_skip is (code is Code.SKIP)
    assert status.is_rejected is (code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


def test_reasons_make_the_message() -> None:
    """Several reasons are joined as a list; without reasons the message is empty."""
    assert unschedulable("too big", "too late").message == "too big, too late"
    assert SKIP.message == ""


def test_shorthands() -> None:
    """The shorthands for the three kinds of rejection."""
    assert unschedulable("r").code is Code.UNSCHEDULABLE
    assert unresolvable("r").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert error("r").code is Code.ERROR


def test_a_status_gets_its_plugin() -> None:
    """Setting the plugin makes a copy, so that a status shared among pods does not change."""
    shared = unschedulable("full")
    named = shared.by("Fit")
    assert (named.plugin, shared.plugin) == ("Fit", "")
    assert named.reasons == shared.reasons
    assert named.by("Fit") is named


def test_equality() -> None:
    """Statuses with equal code, reasons and plugin are equal, and can be keys."""
    assert unschedulable("a") == unschedulable("a")
    assert unschedulable("a") != unresolvable("a")
    assert unschedulable("a") != unschedulable("a").by("Fit")
    assert unschedulable("a") != "a"
    assert len({unschedulable("a"), unschedulable("a"), unschedulable("b")}) == 2


def test_a_status_prints_readably() -> None:
    """The representation has the code, message and plugin."""
    assert repr(unschedulable("full").by("Fit")) == "Status(Unschedulable, 'full', plugin='Fit')"
