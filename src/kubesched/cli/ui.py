"""`kubesched ui`: the cluster, its queue and its decisions in a browser."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click

from kubesched.cli.options import (
    CONTEXT,
    KUBECONFIG,
    PLUGIN,
    PLUGIN_DIR,
    SCHEDULER_CA,
    config_option,
    scheduler_option,
    source_option,
)
from kubesched.cli.problems import in_words
from kubesched.client.connection import Connection
from kubesched.client.kubeconfig import KubeconfigError
from kubesched.client.protocol import ApiError
from kubesched.config.errors import ConfigError
from kubesched.framework.errors import PluginStartError
from kubesched.framework.loading import load_all
from kubesched.history.reader import HistoryError, is_decision_file
from kubesched.library.live import connect, known_scheduler
from kubesched.web.app import LOOPBACK, UiSettings, link_to, listen, serving
from kubesched.web.security import Doorkeeper

EXPECTED = (HistoryError, KubeconfigError, ApiError, ConfigError, PluginStartError, LookupError, ValueError, OSError)
PORT = 7070


@click.command()
@source_option(
    "Show these instead of a running cluster: kubectl get -o json, manifests, recorded decisions, or the report "
    "of a simulation (kubesched simulate -o json). May be repeated."
)
@KUBECONFIG
@CONTEXT
@scheduler_option(
    "The secure port of a kubesched scheduler, which is asked with your credentials: queue, attempts, wake-ups."
)
@SCHEDULER_CA
@config_option(
    "Decide with this KubeSchedulerConfiguration. Default: the scheduler's, if it is asked; else the default."
)
@PLUGIN
@PLUGIN_DIR
@click.option("--allow-changes", is_flag=True, help="Let the page create, change and delete objects.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 for a free one.")
@click.option("--open", "in_browser", is_flag=True, help="Open the page in a browser.")
def command(
    source: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
    scheduler: str | None,
    scheduler_ca: Path | None,
    config: Path | None,
    plugin: tuple[str, ...],
    plugin_dir: tuple[str, ...],
    allow_changes: bool,
    host: str,
    port: int,
    in_browser: bool,
) -> None:
    """Show a cluster in a browser: nodes, queue, pending pods, decisions, timeline and configuration.

    The cluster is watched with your kubeconfig, or read from files. Nothing is installed or changed there, and read
    permission is enough. Open the link that is printed: it has a token, and the page refuses requests without it.

    \b
    kubesched ui                                     the cluster of your kubeconfig
    kubesched ui --from cluster.json                 what kubectl get -o json has printed
    kubesched ui --from report.json                  a simulation, to scrub through
    kubesched ui --scheduler https://HOST:10259      with the queue and the history of a kubesched scheduler

    `kubesched up` serves the page by itself.
    """
    try:
        connection = None if source else connect(kubeconfig, context)
        settings = UiSettings(
            title=_title(connection, source),
            connection=connection,
            files=[each for each in source if not is_decision_file(each)],
            decisions=[each for each in source if is_decision_file(each)],
            scheduler=scheduler or ("" if source else known_scheduler(kubeconfig, context)),
            scheduler_authority=None if scheduler_ca is None else scheduler_ca.read_bytes(),
            config=config,
            plugins=load_all(plugin, plugin_dir),
            allow_changes=allow_changes,
            door=Doorkeeper({*LOOPBACK, host.strip("[]").lower()}),
        )
        asyncio.run(_serve(settings, host, port, in_browser))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(130) from None
    except EXPECTED as problem:
        raise click.ClickException(in_words(problem)) from None


def _title(connection: Connection | None, source: tuple[Path, ...]) -> str:
    return connection.server.partition("://")[2] if connection is not None else ", ".join(each.name for each in source)


async def _serve(settings: UiSettings, host: str, port: int, in_browser: bool) -> None:
    try:
        listening = listen(host, port)
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise ValueError(f"{host}:{port}: {reason}; choose another --port, or --port=0 for a free one") from None
    with listening:
        await _serve_on(listening, settings, host, in_browser)


async def _serve_on(listening: socket.socket, settings: UiSettings, host: str, in_browser: bool) -> None:
    link = link_to(host, listening.getsockname()[1], settings.door.token)
    click.echo("reading the cluster", err=True)
    stopping, this = asyncio.Event(), asyncio.current_task()
    assert this is not None
    _on_signals(this.cancel)
    async with serving(settings, listening):
        _on_signals(stopping.set)
        click.echo(link)
        if in_browser:
            webbrowser.open(link)
        click.echo("Ctrl-C stops it.", err=True)
        await stopping.wait()


def _on_signals(stop: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
