"""All flags of the daemon, and the validation of their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kubesched.base.documents import read_yaml
from kubesched.base.types import JSON
from kubesched.daemon.flags.declarations import (
    AuthenticationFlags,
    AuthorizationFlags,
    DeprecatedFlags,
    FeatureGateFlags,
    GlobalFlags,
    HistoryFlags,
    LeaderElectionFlags,
    LogFlags,
    MetricsFlags,
    MiscFlags,
    PluginFlags,
    ServingFlags,
)
from kubesched.daemon.flags.flag import Flag, FlagSection
from kubesched.daemon.flags.gates import FeatureGates
from kubesched.logs.options import LoggingOptions

VERSIONS = ("1.33", "1.34", "1.35", "1.36")
CURRENT = VERSIONS[-1]
METRIC_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass
class Options:
    """The values of all flags, by section."""

    misc: MiscFlags = field(default_factory=MiscFlags)
    plugins: PluginFlags = field(default_factory=PluginFlags)
    history: HistoryFlags = field(default_factory=HistoryFlags)
    serving: ServingFlags = field(default_factory=ServingFlags)
    authentication: AuthenticationFlags = field(default_factory=AuthenticationFlags)
    authorization: AuthorizationFlags = field(default_factory=AuthorizationFlags)
    deprecated: DeprecatedFlags = field(default_factory=DeprecatedFlags)
    leader_election: LeaderElectionFlags = field(default_factory=LeaderElectionFlags)
    feature_gate: FeatureGateFlags = field(default_factory=FeatureGateFlags)
    metrics: MetricsFlags = field(default_factory=MetricsFlags)
    logs: LogFlags = field(default_factory=LogFlags)
    globals: GlobalFlags = field(default_factory=GlobalFlags)
    changed: set[str] = field(default_factory=set)
    """The names of the flags that were given. Some override the configuration file only then."""
    gates: FeatureGates = field(default_factory=FeatureGates)
    new_config: JSON | None = None
    """A configuration given while `kubesched up` runs. It replaces --config and --enable."""

    def sections(self) -> Iterator[FlagSection]:
        """The sections, in the order of upstream's help."""
        for value in vars(self).values():
            if isinstance(value, FlagSection):
                yield value

    def shown(self) -> dict[str, str]:
        """Return every flag's value as text, for ``/flagz`` and the log."""
        return {
            each.name: each.value_type.show(getattr(section, each.attribute))
            for section in self.sections()
            for each in type(section).flags()
        }

    def logging(self) -> LoggingOptions:
        """Return the logging options for the chosen format."""
        logs = self.logs
        text = logs.logging_format == "text"
        return LoggingOptions(
            format=logs.logging_format,
            verbosity=logs.v,
            vmodule=logs.vmodule,
            flush_frequency=logs.log_flush_frequency.seconds,
            split_stream=logs.log_text_split_stream if text else logs.log_json_split_stream,
            info_buffer_size=logs.log_text_info_buffer_size if text else logs.log_json_info_buffer_size,
            alpha=self.gates.enabled("LoggingAlphaOptions"),
        )

    def allowed_labels(self) -> dict[str, str]:
        """Return the allowed values of metric labels: the manifest's, overridden by the flag's.

        Raises ValueError or OSError if the manifest cannot be used.
        """
        manifest = self.metrics.allow_metric_labels_manifest
        listed: object = {}
        if manifest:
            content = read_yaml(Path(manifest).read_bytes())
            listed = content.get("allowListMapping") if isinstance(content, dict) else None
            if not isinstance(listed, dict):
                raise ValueError(f"--allow-metric-labels-manifest: {manifest} has no object allowListMapping")
        assert isinstance(listed, dict)
        return {str(key): str(value) for key, value in listed.items()} | self.metrics.allow_metric_labels

    # --- validation ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """All invalid values, in upstream's words where it has any."""
        yield from self.gates.problems
        yield from self._version_problems("emulated-version", self.feature_gate.emulated_version)
        yield from self._version_problems("min-compatibility-version", self.feature_gate.min_compatibility_version)
        port = self.serving.secure_port
        if not 0 <= port <= 65535:
            yield f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
        if bool(self.serving.tls_cert_file) != bool(self.serving.tls_private_key_file):
            yield "--tls-cert-file and --tls-private-key-file must be given together"
        yield from self._header_problems()
        yield from self._history_problems()
        for path in self.authorization.authorization_always_allow_paths:
            if "*" in path[:-1]:
                yield f'--authorization-always-allow-paths: only trailing * allowed in "{path}"'
        shown = self.metrics.show_hidden_metrics_for_version
        if shown not in ("", VERSIONS[-2]):
            yield f"--show-hidden-metrics-for-version: {shown}: must be omitted or have the value '{VERSIONS[-2]}'"
        for name in self.metrics.disabled_metrics:
            if not METRIC_NAME.fullmatch(name):
                yield f'--disabled-metrics: "{name}" is not a fully qualified metric name'
        for metric in self.metrics.allow_metric_labels:
            if metric.count(",") != 1:
                yield f'--allow-metric-labels: "{metric}" must be <metric name>,<label name>'
        yield from self.logging().problems()

    def _version_problems(self, name: str, versions: tuple[str, ...]) -> Iterator[str]:
        for given in versions:
            component, _, version = given.rpartition("=")
            if component not in ("", "kube"):
                yield f"--{name}: component not registered: {component}"
            elif version not in VERSIONS:
                yield f"--{name}: {version} is not in the range {VERSIONS[0]} to {CURRENT}"

    def _history_problems(self) -> Iterator[str]:
        flags = self.history
        for name, least in (
            ("decision-history", 0),
            ("decision-history-per-pod", 1),
            ("decision-history-bytes", 1 << 20),
            ("decision-log-max-size", 1 << 16),
            ("decision-log-backups", 0),
            ("decision-db-attempts", 1),
        ):
            if (given := getattr(flags, name.replace("-", "_"))) < least:
                yield f"--{name} {given} must be at least {least}"
        if flags.decision_db and flags.decision_db == flags.decision_log:
            yield "--decision-log and --decision-db must name different files"

    def _header_problems(self) -> Iterator[str]:
        section = self.authentication
        for each in type(section).flags():
            values = getattr(section, each.attribute)
            if isinstance(values, tuple) and any(not value.strip() for value in values):
                yield f'empty value in "{each.name}"'
        uid_headers = section.requestheader_uid_headers
        if uid_headers and not self.gates.enabled("RemoteRequestHeaderUID"):
            yield '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled'
        elif uid_headers and "x-remote-uid" not in map(str.lower, uid_headers):
            yield "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header"

    # --- flags without effect -----------------------------------------------------------------------------------------

    def warnings(self) -> Iterator[str]:
        """A warning for each given flag that has no effect, with the reason."""
        for section in self.sections():
            for each in type(section).flags():
                if each.name in self.changed and (reason := self._no_effect(section, each)):
                    yield f"--{each.name} has no effect: {reason}"
        if any(given.rpartition("=")[2] != CURRENT for given in self.feature_gate.emulated_version):
            yield f"--emulated-version has no effect: kubesched behaves as Kubernetes {CURRENT}"
        yield from self.gates.warnings

    def _no_effect(self, section: FlagSection, each: Flag) -> str:
        if isinstance(section, DeprecatedFlags) and self.misc.config and each.name != NOT_IN_CONFIG:
            return f"the configuration file {self.misc.config} takes precedence"
        return each.no_effect


NOT_IN_CONFIG = "pod-max-in-unschedulable-pods-duration"
"""The one deprecated flag that has no field in the configuration file."""
