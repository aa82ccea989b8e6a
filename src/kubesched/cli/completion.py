"""`kubesched completion`: the script that makes a shell complete commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that makes your shell complete commands, flags and files.

    \b
    bash, in ~/.bashrc:                   source <(kubesched completion bash)
    zsh, in ~/.zshrc:                     source <(kubesched completion zsh)
    fish, in ~/.config/fish/config.fish:  kubesched completion fish | source
    """
    from kubesched.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "kubesched", "_KUBESCHED_COMPLETE").source())
