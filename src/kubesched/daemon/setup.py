"""Prepares everything that can fail before anything starts, and reports all problems at once."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kubesched.client.connection import Connection, daemon_connection, in_cluster
from kubesched.client.kubeconfig import KubeconfigError
from kubesched.client.leader import ElectionSettings
from kubesched.config.errors import ConfigError
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.daemon.config_file import configuration
from kubesched.daemon.flags import Options
from kubesched.daemon.plugins import idle_plugins, known_plugins
from kubesched.daemon.serving.preparation import listening_socket, tls_settings
from kubesched.daemon.serving.tls.context import ServingError, TlsSettings
from kubesched.framework.registry import PluginSource, Registry
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.scheduler.metrics import Metrics

T = TypeVar("T")


class SetupError(Exception):
    """The daemon cannot start; `problems` holds every reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass
class Setup:
    """Everything that a `Process` needs."""

    options: Options
    log: Logger
    registry: Registry
    config: KubeSchedulerConfiguration
    metrics: Metrics
    connection: Connection
    authentication: Connection | None
    """The API server that reviews tokens; None if there is none."""
    authorization: Connection | None
    election: ElectionSettings | None
    socket: socket.socket | None
    tls: TlsSettings | None


def prepare(
    options: Options, log: Logger, plugins: Iterable[PluginSource] = (), *, connection: Connection | None = None
) -> Setup:
    """Load and check everything that the flags name. Raises `SetupError` with all problems.

    A `connection` to an embedded API server overrides the one in flags and files.
    """
    problems: list[str] = []

    def attempt(work: Callable[[], T]) -> T | None:
        try:
            return work()
        except ConfigError as error:
            problems.extend(str(error).splitlines())
        except OSError as error:
            problems.append(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except (KubeconfigError, ServingError, ValueError) as error:
            problems.append(str(error))
        return None

    registry, asked = known_plugins(options.plugins, plugins, problems)
    loaded = attempt(lambda: configuration(options, registry))
    metrics = attempt(lambda: _metrics(options))
    if options.misc.write_config_to and loaded is not None and not problems:
        # This needs no cluster, so a missing kubeconfig must not be an error.
        return Setup(options, log, registry, loaded.config, metrics or Metrics(), Connection(""), *(None,) * 5)
    kubeconfig = "" if loaded is None else loaded.config.client_connection.kubeconfig
    authentication = authorization = connection
    serving = options.serving.secure_port != 0
    if connection is None and loaded is not None:
        connection = attempt(lambda: daemon_connection(kubeconfig, options.misc.master))
    if serving and authentication is None:
        given = options.authentication.authentication_kubeconfig, options.authorization.authorization_kubeconfig
        authentication = attempt(lambda: _delegate(given[0], "--authentication-kubeconfig"))
        authorization = attempt(lambda: _delegate(given[1], "--authorization-kubeconfig"))
    tls = attempt(lambda: tls_settings(options.serving, log)) if serving else None
    election = (
        attempt(lambda: _election(loaded.config, coordinated=options.gates.enabled("CoordinatedLeaderElection")))
        if loaded is not None
        else None
    )
    bound = attempt(lambda: listening_socket(options.serving)) if serving and not problems else None
    if problems or loaded is None or metrics is None or connection is None:
        raise SetupError(problems)
    for warning in (*loaded.warnings, *idle_plugins(asked, loaded.config)):
        log(WARNING, warning)
    return Setup(
        options,
        log,
        registry,
        loaded.config,
        metrics,
        connection,
        authentication,
        authorization,
        election,
        bound,
        tls,
    )


def _metrics(options: Options) -> Metrics:
    return Metrics(
        disabled=options.metrics.disabled_metrics,
        allowed_labels=options.allowed_labels(),
        pod_groups=options.gates.enabled("GenericWorkload"),
        native_histograms=options.gates.enabled("NativeHistograms"),
    )


def _delegate(kubeconfig: str, flag: str) -> Connection | None:
    """Return the connection for reviews: the flag's kubeconfig, else the pod's service account, else None."""
    if kubeconfig:
        return daemon_connection(kubeconfig, flag=flag)
    try:
        return in_cluster()
    except KubeconfigError:
        return None


def _election(config: KubeSchedulerConfiguration, *, coordinated: bool) -> ElectionSettings | None:
    given = config.leader_election
    if not given.leader_elect:
        return None
    return ElectionSettings(
        name=given.resource_name,
        namespace=given.resource_namespace,
        lease_duration=given.lease_duration.seconds,
        renew_deadline=given.renew_deadline.seconds,
        retry_period=given.retry_period.seconds,
        coordinated=coordinated,
    )
