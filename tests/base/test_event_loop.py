"""The event loop of programs that send many requests."""

from __future__ import annotations

import asyncio
import sys

import pytest

from kubesched.base.event_loop import run_on_fast_loop


async def module_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_uvloop_is_used() -> None:
    """uvloop is among the requirements, so that programs run on it."""
    pytest.importorskip("uvloop")
    assert run_on_fast_loop(module_of_loop()).startswith("uvloop")


def test_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no uvloop, asyncio's own loop does."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_on_fast_loop(module_of_loop()).startswith("asyncio")
