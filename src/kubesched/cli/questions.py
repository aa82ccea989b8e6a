"""What the commands that ask questions about a cluster share: where it comes from, and how answers are printed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console

from kubesched.cli.options import CONTEXT, KUBECONFIG, PLUGIN, PLUGIN_DIR, config_option, source_option, with_options
from kubesched.cli.output import as_html, as_markdown, show
from kubesched.cli.problems import in_words
from kubesched.client.kubeconfig import KubeconfigError
from kubesched.client.protocol import ApiError
from kubesched.config.errors import ConfigError
from kubesched.explain.document import Block
from kubesched.framework.errors import PluginStartError
from kubesched.framework.loading import load_all
from kubesched.library.cluster import Cluster
from kubesched.library.results import Placement

EXPECTED = (KubeconfigError, ApiError, ConfigError, PluginStartError, ValueError, LookupError, OSError, TypeError)
OUTPUTS = ("table", "json", "yaml", "html", "markdown")
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    source_option("Read the cluster from here: a snapshot, kubectl get -o json, manifests. May be repeated."),
    KUBECONFIG,
    CONTEXT,
    config_option("Decide with this KubeSchedulerConfiguration."),
    PLUGIN,
    PLUGIN_DIR,
    click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True),
)


@dataclass(frozen=True)
class QuestionFlags:
    """The options that say which cluster is asked about."""

    source: tuple[Path, ...]
    kubeconfig: Path | None
    context: str | None
    config: Path | None
    plugin: tuple[str, ...]
    plugin_dir: tuple[str, ...]
    output: str

    def cluster(self) -> Cluster:
        """Read the cluster."""
        plugins = load_all(self.plugin, self.plugin_dir)
        if self.source:
            return Cluster.load(*self.source, config=self.config, plugins=plugins)
        with Console(stderr=True).status("reading the cluster"):
            return Cluster.from_kubeconfig(self.kubeconfig, context=self.context, config=self.config, plugins=plugins)


with_cluster_options = with_options(_OPTIONS)
"""Add the options of `QuestionFlags`."""


@contextmanager
def expected_problems() -> Iterator[None]:
    """What the user can do something about is one line on stderr; so are warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        except EXPECTED as problem:
            raise click.ClickException(in_words(problem)) from None
        finally:
            for note in dict.fromkeys(str(each.message) for each in caught):
                click.echo(f"Warning: {note}", err=True)


def print_answer(output: str, kind: str, data: dict[str, Any], blocks: Sequence[Block]) -> None:
    """Print a result as tables for people or as data for programs."""
    body = {"apiVersion": "kubesched.io/v1alpha1", "kind": kind, **data}
    if output == "json":
        click.echo(json.dumps(body, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(body, sort_keys=False), nl=False)
    elif output == "markdown":
        click.echo(as_markdown(blocks), nl=False)
    elif output == "html":
        click.echo(as_html(str(getattr(blocks[0], "text", kind)), blocks), nl=False)
    else:
        show(blocks, Console(highlight=False))


def alike(placements: Iterable[Placement]) -> list[list[Placement]]:
    """Placements in groups: pods that do not move for the same reason are one, so that it is read once."""
    groups: dict[tuple[object, ...], list[Placement]] = {}
    for each in placements:
        key = (each.fate, each.message) if each.message else (each.pod.uid, each.pod.key)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def pods_of(group: Sequence[Placement]) -> str:
    """The pods of a group, for a table."""
    first = group[0].pod.key
    return first if len(group) == 1 else f"{first} and {len(group) - 1} more"
