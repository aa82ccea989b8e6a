"""`kubesched up`: runs a whole local cluster in one process until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.go_flags import GoFlagsCommand
from kubesched.config.load import DEFAULT_SCHEDULER_NAME as DEFAULT
from kubesched.daemon.flags import parse, usage
from kubesched.daemon.leftover_threads import end_without
from kubesched.daemon.main import log_election_once, write_config
from kubesched.daemon.setup import Setup, SetupError
from kubesched.daemon.version import short_version, version_info
from kubesched.local.flags import DETAILS, INTRODUCTION, UpOptions
from kubesched.logs import Logger
from kubesched.logs.levels import ERROR, WARNING
from kubesched.logs.standard import install

if TYPE_CHECKING:
    from kubesched.framework.registry import PluginSource
    from kubesched.local.cluster import LocalCluster

DONE, FAILED, INTERRUPTED = 0, 1, 130
PATIENCE = 3
"""Seconds after a signal until the code of a plugin is interrupted that does not return while everything starts."""
SHORT = ("Cluster", "Plugin")
MORE = """
All flags of kube-scheduler work too, such as --config=FILE and -v=5.
{program} --help-all shows them and explains more.
"""


def help_text(program: str, *, everything: bool = False) -> str:
    """Return the help of `up`: the flags of the cluster, or all."""
    if everything:
        return usage(program, introduction=INTRODUCTION + DETAILS, options=UpOptions())
    return usage(program, introduction=INTRODUCTION, options=UpOptions(), titles=SHORT) + MORE.format(program=program)


@click.command(cls=GoFlagsCommand, usage=help_text, options=UpOptions)
@click.pass_context
def command(context: click.Context) -> None:
    """Start a whole local cluster in one process: API server, controllers, simulated kubelets, scheduler."""
    context.exit(start(context.args, program=context.command_path))


def start(argv: Sequence[str], *, plugins: Iterable[PluginSource] = (), program: str = "kubesched up") -> int:
    """Run a local cluster until it ends and return the exit code."""
    began = time.perf_counter()
    options = UpOptions()
    problems = parse(argv, options).problems
    if options.globals.help or options.globals.help_all:
        print(help_text(program, everything=options.globals.help_all), end="")
        return DONE
    if options.globals.version != "false" and not problems:
        print(version_info() if options.globals.version == "raw" else f"Kubernetes {short_version()}")
        return DONE
    if problems:
        return _report_problems(problems, program)
    log = options.logging().logger()
    if not options.logs.v:
        log.set_verbosity(ERROR)  # until it is up: the announcement says what the log would
    bridge = install(log)
    log_election_once(options)
    threads = threading.enumerate()
    try:
        code = asyncio.run(_run(options, log, tuple(plugins), began))
        end_without(threads, code)
        return code
    except SetupError as error:
        return _report_problems(error.problems, program)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        log.flush()
        bridge.close()


async def _run(options: UpOptions, log: Logger, plugins: Sequence[PluginSource], began: float) -> int:
    # Imported here because it loads everything, which --help does not need.
    from kubesched.local.cluster import LocalCluster, prepare_scheduler

    for warning in options.warnings():
        log(WARNING, warning)
    _end_by_signals()
    setup = prepare_scheduler(options, log, plugins)
    if options.misc.write_config_to:
        return write_config(setup, options.misc.write_config_to)
    cluster = LocalCluster(options, log)
    try:
        await cluster.start()
        return await _serve(cluster, setup, options, plugins, began)
    except asyncio.CancelledError:
        return DONE
    finally:
        await cluster.stop()


def _end_by_signals() -> None:
    """Let signals end everything in order, from the start. The scheduler installs its own handlers once it runs.

    Until then the code of a plugin that is imported or made may keep the event loop from its turn. It is interrupted.
    """
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None

    def end() -> None:
        signal.alarm(0)
        this.cancel()

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
        signal.signal(number, lambda _number, _frame: signal.alarm(PATIENCE))


async def _serve(
    cluster: LocalCluster, setup: Setup, options: UpOptions, plugins: Sequence[PluginSource], began: float
) -> int:
    from kubesched.local.scheduler import LocalScheduler
    from kubesched.local.simulator_api import SimulatorApi
    from kubesched.local.ui import LocalUi

    ui: LocalUi | None = None

    def serving() -> None:
        nonlocal ui
        SimulatorApi(cluster.server.api, scheduler).install()
        flags = options.cluster
        ui = LocalUi(cluster, scheduler, setup, flags.ui_port, plugins) if flags.ui else None
        _announce(cluster, setup, options, began, "" if ui is None else ui.link)
        setup.log.set_verbosity(options.logs.v)

    scheduler = LocalScheduler(cluster, options, setup, plugins, serving)
    try:
        return await scheduler.run()
    finally:
        print("  stopping", file=sys.stderr, flush=True)
        if ui is not None:
            await ui.stop()


def _announce(cluster: LocalCluster, setup: Setup, options: UpOptions, began: float, link: str) -> None:
    """Print what has been started and what to do next, each with a single write: the log goes on meanwhile."""
    names = [profile.scheduler_name for profile in setup.config.profiles]
    alone = cluster.has_no_scheduler
    if DEFAULT not in names and not alone:
        wanted = " or ".join(f'"{name}"' for name in names)
        setup.log(WARNING, f"No profile is named {DEFAULT}: pods stay Pending unless spec.schedulerName is {wanted}")
    # Written last, when everything else works: the file may belong to another running cluster.
    path = cluster.write_kubeconfig()
    port = setup.options.serving.secure_port
    serving = f", serving on https://127.0.0.1:{port}{_instead(options, 'secure-port')}" if port else ""
    print(
        f"  API server on {cluster.server.url}{_instead(options, 'port')}\n"
        f"  {_counted(len(cluster.embedded.context.nodes.objects), 'node')}, controllers\n"
        f"  kubeconfig in {path}\n"
        f"{_open_port(cluster)}"
        + (
            f"  no scheduler: start one with kubesched run --kubeconfig={path}\n"
            if alone
            else f"  scheduler of {', '.join(names)}{serving}\n"
        ),
        end="",
        file=sys.stderr,
        flush=True,
    )
    _say_what_next(path, [DEFAULT] if alone else names, time.perf_counter() - began, link)


def _instead(options: UpOptions, flag: str) -> str:
    return f" (port {options.taken[flag]} is in use)" if flag in options.taken else ""


def _open_port(cluster: LocalCluster) -> str:
    port = cluster.open_port
    return (
        f"  kube-scheduler-simulator's interface on http://127.0.0.1:{port.port}, open to anybody here\n"
        if port
        else ""
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _say_what_next(path: Path, names: Sequence[str], seconds: float, link: str) -> None:
    trial = "kubectl create deployment web --image=nginx --replicas=3"
    if DEFAULT not in names:
        trial = f"""kubectl run web --image=nginx --overrides='{{"spec": {{"schedulerName": "{names[0]}"}}}}'"""
    print(
        f"The cluster is up after {seconds:.1f} s. In another terminal:\n\n"
        f"  export KUBECONFIG={path}\n"
        "  kubectl get nodes\n"
        f"  {trial}\n"
        "  kubectl get pods -o wide\n\n"
        + (f"Or look at it in a browser:\n\n  {link}\n\n" if link else "")
        + "Ctrl-C stops it.\n",
        end="",
        flush=True,
    )


def _report_problems(problems: Sequence[str], program: str) -> int:
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    print(f"See '{program} --help'.", file=sys.stderr)
    return FAILED
