"""The daemon: flags in, a scheduler out, and an exit code when it is over."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kubesched.client import leader
from kubesched.config import dump
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.daemon.flags import Options, parse, usage
from kubesched.daemon.setup import Setup, SetupError, prepare
from kubesched.daemon.version import short_version, version_info
from kubesched.framework.registry import PluginSource
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.logs.standard import install

DONE, FAILED = 0, 1
DETAILS = 4


def start(
    argv: Sequence[str] | None = None, *, plugins: Iterable[PluginSource] = (), program: str = "kubesched run"
) -> int:
    """Do what a command line asks for, to the end. Answers with the exit code."""
    parsed = parse(sys.argv[1:] if argv is None else argv)
    options = parsed.options
    if options.globals.help:
        print(usage(program), end="")
        return DONE
    if options.globals.version != "false" and not parsed.problems:
        print(version_info() if options.globals.version == "raw" else f"Kubernetes {short_version()}")
        return DONE
    if parsed.problems:
        return _refused(parsed.problems, program)
    log = options.logging().logger()
    bridge = install(log)
    # Upstream says the two things worth knowing at any verbosity, and so does the process below.
    logging.getLogger(leader.__name__).setLevel(logging.WARNING if options.logs.v < DETAILS else logging.NOTSET)
    try:
        return _run(options, log, plugins, program)
    finally:
        log.flush()
        bridge.close()


def _run(options: Options, log: Logger, plugins: Iterable[PluginSource], program: str) -> int:
    from kubesched.daemon.process import (  # after the flags are known to be right: it loads everything
        AGAIN,
        Process,
    )

    for name, value in sorted(options.shown().items()):
        log(1, f'FLAG: --{name}="{value}"')
    for warning in options.warnings():
        log(WARNING, warning)
    plugins = tuple(plugins)
    try:
        setup = prepare(options, log, plugins)
        if log.enabled(2):
            log(2, "Using component config", config=dump.to_yaml(_without_keys(setup.config)))
        if options.misc.write_config_to:
            return write_config(setup, options.misc.write_config_to)
        while (code := asyncio.run(Process(setup, plugins).run())) == AGAIN:
            setup = prepare(options, log, plugins)
        return code
    except SetupError as error:
        return _refused(error.problems, program)


def _without_keys(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration without the private keys that extenders may have in it: a log is no place for them."""
    extenders = tuple(
        replace(each, tls_config=replace(each.tls_config, key_data=b"")) if each.tls_config is not None else each
        for each in config.extenders
    )
    return replace(config, extenders=extenders)


def write_config(setup: Setup, path: str) -> int:
    """Write the complete configuration to a file; answers with the exit code."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(dump.to_yaml(setup.config))
    except OSError as error:
        raise SetupError([f"--write-config-to: {path} cannot be written: {error.strerror}"]) from None
    setup.log(0, "Wrote configuration", file=path)
    return DONE


def _refused(problems: Sequence[str], program: str) -> int:
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    print(f"See '{program} --help'.", file=sys.stderr)
    return FAILED
