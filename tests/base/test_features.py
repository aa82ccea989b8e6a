"""The gates that scheduling reads agree with upstream's list of gates."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kubesched.base.features import DEFAULT_FEATURES, Features, gate_name
from kubesched.daemon.flags.gates import FeatureGates, known_gates


@pytest.mark.parametrize("field", [field.name for field in fields(Features)])
def test_every_field_is_a_gate_with_upstreams_default(field: str) -> None:
    """A field's name leads to a gate of 1.36 that can be set, and its default is that gate's."""
    gate = known_gates()[gate_name(field)]
    assert getattr(DEFAULT_FEATURES, field) is gate.default
    assert not gate.locked


def test_flags_set_the_fields() -> None:
    """What --feature-gates sets is what plugins see, groups of gates included."""
    features = FeatureGates.of(["SchedulerPopFromBackoffQ=false", "AllAlpha=true"]).features
    assert not features.scheduler_pop_from_backoff_q
    assert features.storage_capacity_scoring
    assert features.pod_level_resources
