"""Runs the daemon from a command line to its exit code."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Sequence

from kubesched.base.event_loop import run_on_fast_loop
from kubesched.base.private_files import open_private
from kubesched.client import leader
from kubesched.config import dump
from kubesched.daemon.flags import Options, parse, usage
from kubesched.daemon.leftover_threads import end_without
from kubesched.daemon.setup import Setup, SetupError, prepare
from kubesched.daemon.version import short_version, version_info
from kubesched.framework.registry import PluginSource
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.logs.standard import install

DONE, FAILED = 0, 1
DETAILS = 4


def run(plugins: Iterable[PluginSource] = (), argv: Sequence[str] | None = None) -> int:
    """Run a scheduler with plugins of your own, as ``kubesched run`` does, and return its exit code.

    This is all that a ``main.py`` needs, like upstream's ``app.NewSchedulerCommand(app.WithPlugin(...))``::

        sys.exit(kubesched.run(plugins=[MyPlugin]))

    `argv` holds the flags; the default is this process's own. A plugin does nothing until a profile enables it.
    """
    return start(sys.argv[1:] if argv is None else argv, plugins=plugins)


def start(argv: Sequence[str], *, plugins: Iterable[PluginSource] = (), program: str = "kubesched run") -> int:
    """Run a command line until the daemon ends and return the exit code."""
    parsed = parse(argv)
    options = parsed.options
    if options.globals.help:
        print(usage(program), end="")
        return DONE
    if options.globals.version != "false" and not parsed.problems:
        print(version_info() if options.globals.version == "raw" else f"Kubernetes {short_version()}")
        return DONE
    if parsed.problems:
        return _report_problems(parsed.problems, program)
    log = options.logging().logger()
    bridge = install(log)
    log_election_once(options)
    try:
        return _run(options, log, plugins, program)
    finally:
        log.flush()
        bridge.close()


def log_election_once(options: Options) -> None:
    """Silence the election's own messages at low verbosity: `Process` logs the start and the end of leadership."""
    logging.getLogger(leader.__name__).setLevel(logging.WARNING if options.logs.v < DETAILS else logging.NOTSET)


def _run(options: Options, log: Logger, plugins: Iterable[PluginSource], program: str) -> int:
    from kubesched.daemon.process import RESTART, Process  # not at the top: it loads everything, and --help needs none

    for name, value in sorted(options.shown().items()):
        log(1, f'FLAG: --{name}="{value}"')
    for warning in options.warnings():
        log(WARNING, warning)
    plugins, threads = tuple(plugins), threading.enumerate()
    try:
        setup = prepare(options, log, plugins)
        if log.enabled(2):
            log(2, "Using component config", config=dump.to_yaml(dump.without_secrets(setup.config)))
        if options.misc.write_config_to:
            return write_config(setup, options.misc.write_config_to)
        while (code := run_on_fast_loop(Process(setup, plugins).run())) == RESTART:
            setup = prepare(options, log, plugins)
        end_without(threads, code)
        return code
    except SetupError as error:
        return _report_problems(error.problems, program)


def write_config(setup: Setup, path: str) -> int:
    """Write the complete configuration to a file and return the exit code."""
    try:
        # The configuration of extenders may contain keys.
        with open_private(path) as file:
            file.write(dump.to_yaml(setup.config).encode())
    except OSError as error:
        raise SetupError([f"--write-config-to: {path} cannot be written: {error.strerror}"]) from None
    setup.log(0, "Wrote configuration", file=path)
    return DONE


def _report_problems(problems: Sequence[str], program: str) -> int:
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    print(f"See '{program} --help'.", file=sys.stderr)
    return FAILED
