"""The order of importance among possible victims."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod

from kubesched.cluster.pods import PodClasses
from kubesched.plugins.default_preemption.victims import more_important, most_important_first

starts = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"])


@given(st.lists(st.tuples(st.integers(0, 2), starts), max_size=12))
def test_by_priority_then_by_age(drawn: list[tuple[int, str]]) -> None:
    """No pod comes after a less important one; equal pods keep their order."""
    classes = PodClasses()
    pods = [classes.info(pod(f"p{i:02}", priority=p, started=s)) for i, (p, s) in enumerate(drawn)]
    ordered = [info.pod for info in most_important_first(pods)]
    assert sorted(each.name for each in ordered) == [info.pod.name for info in pods]
    for before, after in pairwise(ordered):
        assert not more_important(after, before)
        assert more_important(before, after) or before.name < after.name


def test_who_has_not_started_goes_behind_nobody_of_its_priority() -> None:
    """Upstream reads the clock for each such pod in turn, so the first one read is the older."""
    classes = PodClasses()
    pods = [classes.info(pod(name, priority=1)) for name in ("first", "second")]
    assert [info.pod.name for info in most_important_first(pods)] == ["second", "first"]
