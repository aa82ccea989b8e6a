"""What plugins store within a cycle, and what a what-if sees of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.builders import pod

from kubesched.cluster.pods import PodClasses
from kubesched.framework.state import CycleState


@dataclass
class Counts:
    """State that a what-if may change."""

    values: list[int] = field(default_factory=list)

    def clone(self) -> Counts:
        return Counts(list(self.values))


def new() -> CycleState:
    return CycleState(PodClasses().info(pod()).pod_class)


def test_what_is_written_can_be_read() -> None:
    """A value is found under its key, which can be any hashable, until it is deleted."""
    state = new()
    state.write(("plugin", "counts"), 7)
    assert state.read(("plugin", "counts"), int) == 7
    assert ("plugin", "counts") in state
    state.delete(("plugin", "counts"))
    state.delete(("plugin", "counts"))
    assert ("plugin", "counts") not in state


def test_reading_what_is_not_there_names_the_key() -> None:
    """The error names the missing key and the probable cause."""
    with pytest.raises(KeyError, match=r"nothing is kept under 'counts'.*earlier point"):
        new().read("counts", int)


def test_a_clone_goes_its_own_way() -> None:
    """Cloneable values are cloned, so that a what-if changes its own; the others are shared."""
    state, shared = new(), [1]
    state.write("counts", Counts([1]))
    state.write("shared", shared)
    what_if = state.clone()
    what_if.read("counts", Counts).values.append(2)
    what_if.write("new", 1)
    assert state.read("counts", Counts).values == [1]
    assert what_if.read("counts", Counts).values == [1, 2]
    assert what_if.read("shared", list) is shared
    assert "new" not in state
    assert what_if.pod_class is state.pod_class


def test_a_clone_skips_what_the_cycle_skips() -> None:
    """Plugins that were skipped in the cycle are skipped in a what-if too."""
    state = new()
    state.skip_filter.add("Ports")
    assert state.clone().skip_filter == {"Ports"}
