"""Every target, briefly: its corpus, and a few damaged inputs, the same in every run. `make fuzz` tries more."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from tests.fuzz.damage import kept
from tests.fuzz.targets import TARGETS, patches, repeated

FEW = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
MOST = 64 << 20
"""Bytes that one patch may take. The largest that is read has 3 MiB."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_target(name: str) -> None:
    """What it is given is refused with words or accepted, never with an internal error."""
    target = TARGETS[name]
    with target.opened() as check:
        for data in kept(target.corpus):
            check(data)

        @FEW
        @given(target.examples)
        def damaged(data: bytes) -> None:
            check(data)

        damaged()


@pytest.mark.parametrize("times", [1, 50])
def test_a_patch_takes_little_memory(times: int) -> None:
    """Neither the kept patches nor their operations many times over, also those that copy, take much."""
    with patches() as check:
        tracemalloc.start()
        try:
            for text in kept("patches"):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                check(repeated(text, times) if times > 1 else text)
                assert tracemalloc.get_traced_memory()[1] - before < MOST
        finally:
            tracemalloc.stop()
