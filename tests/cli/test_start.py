"""How much a command imports before it does anything. Modules are counted, not seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("kubesched.cel", "lark", "kubesched.apiserver.apiserver", "kubesched.embedded", "kubesched.controllers")
"""Slow to import, and not needed before there are devices, or workloads without pods."""


def imported(*modules: str) -> set[str]:
    """What is loaded after these modules were imported by a new interpreter."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "most"),
    [
        ("kubesched.cli.main", 140),
        ("kubesched.daemon.process", 880),
        ("kubesched.cli.explain", 820),
    ],
)
def test_what_a_start_imports(module: str, most: int) -> None:
    """A command imports a bounded number of modules, and none of those that only few clusters need."""
    found = imported(module)
    assert len(found) <= most
    assert not found.intersection(SLOW)


def test_a_client_imports_no_aiohttp() -> None:
    """Only proxies, extenders and servers need aiohttp, which takes a third of the time that explain takes to start."""
    assert "aiohttp" not in imported("kubesched.cli.explain", "kubesched.client.http", "kubesched.scheduler.build")


def test_the_daemon_imports_its_server_later() -> None:
    """The first lists do not wait for aiohttp, which only the HTTPS port needs."""
    assert "aiohttp" not in imported("kubesched.daemon.main", "kubesched.daemon.process")
