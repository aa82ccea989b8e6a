"""What a failed test leaves open."""

from __future__ import annotations

import socket
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import FAILED, pytest_runtest_protocol


def _lost_socket() -> weakref.ref[socket.socket]:
    """An open socket that only a collection of garbage finds."""
    left: list[Any] = [socket.socket()]
    left.append(left)
    return weakref.ref(left[0])


def test_what_a_failed_test_left_open_is_collected_after_it() -> None:
    """The next test would fail otherwise: an unclosed socket is a warning, and a warning is an error."""
    item: Any = SimpleNamespace(stash=pytest.Stash())
    item.stash[FAILED] = True
    lost = _lost_socket()
    hook = pytest_runtest_protocol(item)
    next(hook)
    assert lost() is not None
    with pytest.raises(StopIteration):
        hook.send(True)
    assert lost() is None
