"""Consumable capacity: what a request takes by the device's policy."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.quantity import canonical
from kubesched.plugins.dynamic_resources.capacity import Portion, compiled_capacity, consumption

RANGE = {"default": "10Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}
VALUES = {"default": "8Gi", "validValues": ["8Gi", "16Gi"]}


@pytest.mark.parametrize(
    ("policy", "requested", "taken"),
    [
        (None, None, "80Gi"),
        (None, "3Gi", "3Gi"),
        (None, "81Gi", None),
        (RANGE, None, "10Gi"),
        (RANGE, "1Gi", "5Gi"),
        (RANGE, "11Gi", "15Gi"),
        (RANGE, "41Gi", None),
        (VALUES, None, "8Gi"),
        (VALUES, "9Gi", "16Gi"),
        (VALUES, "17Gi", None),
    ],
)
def test_requests_are_rounded_up_to_what_the_policy_allows(
    policy: dict[str, Any] | None, requested: str | None, taken: str | None
) -> None:
    """Too little becomes the next amount allowed, nothing the default, and too much cannot be had."""
    raw = {"value": "80Gi", **({} if policy is None else {"requestPolicy": policy})}
    capacity = compiled_capacity(api.decode_as(dra.DeviceCapacity, raw))
    asked = {} if requested is None else {"memory": Portion.of(requested)}
    found = consumption({"memory": capacity}, asked)
    assert (None if found is None else found["memory"].text) == taken


def test_a_capacity_that_the_device_lacks_cannot_be_requested() -> None:
    """A request for an unknown capacity does not fit."""
    assert consumption({}, {"memory": Portion.of("1")}) is None


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("100000", "100k"),
        ("1200", "1200"),
        ("1023Ki", "1023Ki"),
        ("0.5Gi", "512Mi"),
        ("512", "512"),
        ("1e3", "1e3"),
        ("12e2", "1200"),
        (0, "0"),
        ("0Gi", "0"),
        ("1.5", "1500m"),
        ("-2000", "-2k"),
    ],
)
def test_quantities_are_written_as_the_api_server_does(quantity: str | int, text: str) -> None:
    """Amounts in an allocation have the canonical form."""
    assert canonical(quantity) == text
