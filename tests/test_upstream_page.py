"""The page about upstream's end-to-end suite says what the list of specs says."""

from __future__ import annotations

from tests.e2e.upstream_page import PAGE, REASONS, page
from tests.e2e.upstream_suite import AREAS, PASSING, specs


def test_every_spec_has_a_known_verdict() -> None:
    """A spec passes or has one of the known reasons, and no spec is listed twice."""
    known = specs()
    assert {spec.verdict for spec in known} <= {*PASSING, *REASONS}
    assert {spec.area for spec in known} == set(AREAS)
    assert len({spec.name for spec in known}) == len(known)


def test_the_page_is_current() -> None:
    """``python -m tests.e2e.upstream_page`` writes the page anew."""
    assert PAGE.read_text("utf-8") == page()
