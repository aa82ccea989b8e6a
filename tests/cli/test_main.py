"""The `kubesched` command itself."""

from __future__ import annotations

import importlib

import click
import pytest
from click.testing import CliRunner

from kubesched.cli.main import COMMANDS, main


def test_help_names_every_command() -> None:
    """`kubesched --help` lists all commands with what they do."""
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert all(name in words and text in words for name, text in COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str) -> None:
    """A command of the table has a module with a `command` that explains itself."""
    module = importlib.import_module(f"kubesched.cli.{name.replace('-', '_')}")
    assert isinstance(module.command, click.Command)
    assert module.command.help


def test_a_slip_of_the_pen_is_met_with_the_right_name() -> None:
    """An unknown command is refused with the closest known one."""
    result = CliRunner().invoke(main, ["dmeo"])
    assert result.exit_code == 2
    assert "there is no command 'dmeo'; did you mean 'demo'?" in result.stderr


def test_an_unknown_word_is_met_with_all_names() -> None:
    """A command that resembles none is rejected with the list of all commands."""
    result = CliRunner().invoke(main, ["xyzzy"])
    assert result.exit_code == 2
    assert f"the commands are {', '.join(COMMANDS)}" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    """Each shell has a script that asks kubesched for completions."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_KUBESCHED_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("kubesched si", "simulate"),
        ("kubesched up --zo", "--zones"),
        ("kubesched run --leader-elect-lease", "--leader-elect-lease-duration"),
    ],
)
def test_what_is_completed(words: str, wanted: str) -> None:
    """Commands, and the flags of those whose flags are Go's."""
    *_, last = words.split()
    env = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_KUBESCHED_COMPLETE": "bash_complete"}
    result = CliRunner().invoke(main, [], env=env, prog_name="kubesched")
    assert f"plain,{wanted}" in result.stdout.splitlines(), last
