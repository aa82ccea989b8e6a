"""`kubesched up`: a whole local cluster in one process, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.daemon.setup import SetupError
from kubesched.cli.flags import parse, usage
from kubesched.cli.local.flags import INTRODUCTION, UpOptions
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.logs.standard import install

if TYPE_CHECKING:
    from kubesched.cli.local.cluster import LocalCluster
    from kubesched.framework.registry import PluginSource

DONE, FAILED, INTERRUPTED = 0, 1, 130


class _GoFlags(click.Command):
    """Leaves its words alone: click would read Go's flags in its own way."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        return help_text(ctx.command_path)


@click.command(cls=_GoFlags, add_help_option=False)
@click.pass_context
def command(context: click.Context) -> None:
    """Start a whole local cluster in one process: API server, controllers, simulated kubelets, scheduler."""
    context.exit(start(context.args, program=context.command_path))


def help_text(program: str) -> str:
    """The help of `up`."""
    return usage(program, introduction=INTRODUCTION, options=UpOptions())


def start(argv: Sequence[str], *, plugins: Iterable[PluginSource] = (), program: str = "kubesched up") -> int:
    """Run a local cluster as a command line asks for, to the end. Answers with the exit code."""
    began = time.perf_counter()
    options = UpOptions()
    problems = parse(argv, options).problems
    if options.globals.help:
        print(help_text(program), end="")
        return DONE
    if problems:
        return _refused(problems, program)
    log = options.logging().logger()
    bridge = install(log)
    try:
        return asyncio.run(_run(options, log, plugins, began))
    except SetupError as error:
        return _refused(error.problems, program)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        log.flush()
        bridge.close()


async def _run(options: UpOptions, log: Logger, plugins: Iterable[PluginSource], began: float) -> int:
    from kubesched.cli.local.cluster import LocalCluster  # after the flags are known to be right: it loads everything

    for warning in options.warnings():
        log(WARNING, warning)
    _end_by_signals()
    cluster = LocalCluster(options, log)
    try:
        await cluster.start()
        return await _serve(cluster, options, plugins, began)
    except asyncio.CancelledError:
        return DONE
    finally:
        await cluster.stop()


def _end_by_signals() -> None:
    """From the first moment on a signal ends everything in order; the scheduler listens itself once it runs."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, this.cancel)


async def _serve(cluster: LocalCluster, options: UpOptions, plugins: Iterable[PluginSource], began: float) -> int:
    from kubesched.cli.daemon.process import AGAIN

    _progress(f"API server on {cluster.server.url}")
    _progress(f"{_counted(len(cluster.embedded.context.nodes.objects), 'node')}, controllers")
    process = cluster.scheduler(plugins)
    # Not before all the rest is known to work: the file may belong to a cluster that runs.
    path = cluster.write_kubeconfig()
    _progress(f"kubeconfig in {path}")
    port = options.serving.secure_port
    _progress(f"scheduler{f', serving on https://127.0.0.1:{port}' if port else ''}")
    _say_what_next(path, time.perf_counter() - began)
    try:
        while (code := await process.run()) == AGAIN:
            process = cluster.scheduler(plugins)
    finally:
        _progress("stopping")
    return code


def _progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _say_what_next(path: Path, seconds: float) -> None:
    print(
        f"The cluster is up after {seconds:.1f} s. In another terminal:\n\n"
        f"  export KUBECONFIG={path}\n"
        "  kubectl get nodes\n"
        "  kubectl create deployment web --image=nginx --replicas=3\n"
        "  kubectl get pods -o wide\n\n"
        "Ctrl-C ends it.",
        flush=True,
    )


def _refused(problems: Sequence[str], program: str) -> int:
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    print(f"See '{program} --help'.", file=sys.stderr)
    return FAILED
