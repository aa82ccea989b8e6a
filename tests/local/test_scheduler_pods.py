"""Schedulers in pods: which of their flags a process of ours takes over."""

from __future__ import annotations

import subprocess

import pytest

from kubesched.local.child_process import COMMAND
from kubesched.local.scheduler_pods import _is_dropped


@pytest.mark.parametrize(
    "word", ["--bind-address=0.0.0.0", "--bind_address=0.0.0.0", "-secure_port=1", "--kubeconfig=/x"]
)
def test_flags_about_the_pods_network_and_files_are_dropped(word: str) -> None:
    """However they are written: the daemon reads underscores as dashes, too."""
    assert _is_dropped(word)


def test_other_flags_are_kept() -> None:
    """Those that say how to schedule."""
    assert not _is_dropped("--leader-elect=true")


def test_the_process_has_the_name_of_the_program() -> None:
    """What it prints is the log of the pod, and tells people what to type."""
    with subprocess.Popen(
        [*COMMAND, "run", "--config=/nonexistent"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.read().endswith("See 'kubesched run --help'.\n")
