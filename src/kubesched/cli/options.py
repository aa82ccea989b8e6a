"""Options that several commands have, with the same words everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]


def source_option(words: str) -> Option[Any]:
    """`--from`: files in place of a running cluster."""
    kind = click.Path(exists=True, path_type=Path)
    return click.option("--from", "source", multiple=True, type=kind, metavar="FILE|FOLDER", help=words)


def config_option(words: str) -> Option[Any]:
    """`--config`: a KubeSchedulerConfiguration."""
    kind = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--config", type=kind, metavar="FILE", help=words)


def scheduler_option(words: str) -> Option[Any]:
    """`--scheduler`: the address of a running one."""
    default = "Default: as the kubeconfig of kubesched up says."
    return click.option("--scheduler", metavar="URL", help=f"{words} {default}")


SCHEDULER_CA: Option[Any] = click.option(
    "--scheduler-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The authority of the scheduler's certificate. Default: the cluster's.",
)
KUBECONFIG: Option[Any] = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), metavar="FILE", help="Default: as kubectl finds it."
)
CONTEXT: Option[Any] = click.option("--context", metavar="NAME", help="Use this context of the kubeconfig.")
PLUGIN: Option[Any] = click.option(
    "--plugin", multiple=True, metavar="MODULE:NAME", help="Another plugin, or a file.py with plugins."
)
PLUGIN_DIR: Option[Any] = click.option(
    "--plugin-dir", multiple=True, metavar="FOLDER", help="A folder with more plugins."
)


def with_options(options: Sequence[Option[Any]]) -> Callable[[F], F]:
    """A decorator that adds options, the first one first in the help."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add
