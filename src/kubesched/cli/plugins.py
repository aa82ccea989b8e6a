"""`kubesched plugins`: lists every plugin that a configuration can enable."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
import msgspec
from rich import box
from rich.markup import escape
from rich.table import Table

from kubesched.cli.options import PLUGIN, PLUGIN_DIR
from kubesched.cli.output import data_console
from kubesched.framework.loading import add_all
from kubesched.framework.places import place_of
from kubesched.framework.plugin import POINTS, Plugin, points_of
from kubesched.framework.registry import BUILT_IN, Registry
from kubesched.plugins import in_tree_registry


@click.command()
@PLUGIN
@PLUGIN_DIR
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(plugin: tuple[str, ...], plugin_dir: tuple[str, ...], output: str) -> None:
    """List all plugins: where each comes from, its extension points, and whether it is vectorised.

    The list has the built-in plugins, those of installed packages (entry point group kubesched.plugins) and those named
    here. Under "called", "table" means once for all nodes, and "node" means once for each node, which is slower on
    large clusters. "reads" is what the plugin's results depend on, and so how long they are cached.

    The exit code is 1 if a plugin cannot be loaded; stderr says why.
    """
    registry = in_tree_registry()
    problems: list[str] = []
    add_all(registry, problems, named=plugin, folders=plugin_dir)
    entries = [_entry(registry, name) for name in registry]
    if output == "json":
        click.echo(json.dumps(entries, indent=2))
    else:
        _show(entries)
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _entry(registry: Registry, name: str) -> dict[str, Any]:
    plugin, origin = registry[name], registry.origin(name)
    points = points_of(plugin)
    filters_or_scores = bool(points & {"filter", "score"})
    return {
        "name": name,
        "origin": origin.kind,
        "from": origin.name,
        "version": origin.version,
        "points": [point for point in POINTS if point in points],
        "vectorised": _is_vectorised(plugin) if filters_or_scores else None,
        "reads": plugin.reads.name if filters_or_scores else None,
        "weight": plugin.default_weight if "score" in points else None,
        "args": _arguments(plugin),
        "summary": _summary(plugin),
        "place": "" if origin.kind == BUILT_IN else place_of(getattr(plugin, "written_as", plugin)),
    }


def _is_vectorised(plugin: type[Plugin]) -> bool:
    """Whether Filter and Score, where implemented, handle all nodes in one call."""
    lifted = (hasattr(plugin, one) and not hasattr(plugin, f"{one}_all") for one in ("filter", "score"))
    return not any(lifted)


def _arguments(plugin: type[Plugin]) -> list[str]:
    kind = plugin.args_type
    if kind is None or not issubclass(kind, msgspec.Struct):
        return []
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def _summary(plugin: type[Plugin]) -> str:
    written = getattr(plugin, "written_as", plugin)
    return next(iter((getattr(written, "__doc__", None) or "").strip().splitlines()), "")


def _show(entries: Iterable[dict[str, Any]]) -> None:
    out = data_console(highlight=False)
    table = Table(box=box.SIMPLE)
    table.add_column("name", overflow="fold", min_width=20)
    for column in ("origin", "points", "called", "reads"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        origin = " ".join(part for part in (entry["from"], entry["version"]) if part) or entry["origin"]
        called = {True: "table", False: "node", None: ""}[entry["vectorised"]]
        cells = [f"[bold]{escape(entry['name'])}[/]", escape(origin), " ".join(entry["points"]), called]
        table.add_row(*cells, entry["reads"] or "")
    out.print(table)
