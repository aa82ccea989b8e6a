"""`kubesched snapshot`: writes a running cluster to a file."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kubesched.apiserver.rest.selectors import parse_labels
from kubesched.apiserver.wire.status import StatusError
from kubesched.cli.options import CONTEXT, KUBECONFIG, with_options
from kubesched.cli.problems import in_words
from kubesched.client.kubeconfig import KubeconfigError
from kubesched.client.protocol import ApiError
from kubesched.snapshots.live import ObjectSelection, SnapshotSource, connect
from kubesched.snapshots.writing import as_list, renaming, write_list

EXPECTED = (KubeconfigError, ApiError, OSError, TimeoutError)
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    KUBECONFIG,
    CONTEXT,
    click.option("-n", "--namespace", multiple=True, metavar="NAME", help="Only this namespace. May be repeated."),
    click.option(
        "-l",
        "--selector",
        default="",
        metavar="LABELS",
        help="Only pods, workloads and other namespaced objects that have these labels.",
    ),
    click.option("--nodes", default="", metavar="LABELS", help="Only nodes with these labels, and pods on no other."),
    click.option("--anonymise", is_flag=True, help="Replace names, labels and images, consistently."),
    click.option("--key", default="", metavar="TEXT", help="Anonymise with this key: the same names again next time."),
)

with_source_options = with_options(_OPTIONS)
"""Add the options that say what to read and how to write it."""


@click.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("-"), metavar="FILE", help="Default: stdout."
)
@with_source_options
def command(output: Path, anonymise: bool, key: str, **given: Any) -> None:
    """Write a running cluster to one file: nodes, pods, workloads, volumes, devices, budgets and all else that
    scheduling reads.

    The cluster is read with your kubeconfig, and read permission is enough. The file is a List, as kubectl get -o json
    prints it; with a name that ends in .gz it is compressed. Secrets and ConfigMaps are never read. Environment,
    commands and arguments of containers are never written. With --anonymise names are replaced too, and decisions about
    the cluster stay the same.

    \b
    kubesched snapshot -o cluster.json.gz
    kubesched explain --from cluster.json.gz
    kubesched simulate cluster.json.gz
    kubesched up --from=cluster.json.gz

    Selecting by namespace or labels leaves out pods that use their nodes, so the remaining pods see more
    room than there was.
    """
    source = source_of(given)
    with expected_errors():
        objects = asyncio.run(source.read())
    written = map(renaming(anonymise, key), objects)
    if output == Path("-"):
        sys.stdout.buffer.write(as_list(written))
        return
    with expected_errors():
        write_list(output, written)
    nodes, pods = (sum(each["kind"] == kind for each in objects) for kind in ("Node", "Pod"))
    click.echo(f"{output}: {nodes} nodes, {pods} pods, {len(objects) - nodes - pods} other objects", err=True)


def source_of(given: dict[str, Any]) -> SnapshotSource:
    """The cluster that the options name."""
    for name, option in (("selector", "--selector"), ("nodes", "--nodes")):
        try:
            parse_labels(given[name])
        except StatusError as error:
            raise click.BadParameter(str(error), param_hint=option) from None
    selection = ObjectSelection(given["namespace"], given["selector"], given["nodes"])
    with expected_errors():
        connection = connect(given["kubeconfig"], given["context"])
    return SnapshotSource(connection, selection, lambda text: click.echo(f"Warning: {text}", err=True))


class expected_errors:  # noqa: N801 - used as a statement
    """Errors about which the user can do something are one line on stderr."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, EXPECTED):
            raise click.ClickException(in_words(error)) from None
