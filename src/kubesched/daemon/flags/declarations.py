"""The table of flags, in the sections of upstream's help. Names and defaults are kube-scheduler 1.36's."""

# ruff: noqa: RUF009 - `flag` declares a dataclass field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kubesched.config.duration import Duration
from kubesched.daemon.flags.flag import FlagSection, flag
from kubesched.daemon.flags.value_types import (
    BOOL,
    CERT_KEYS,
    DURATION,
    FLOAT,
    FOLDERS,
    GATES,
    INT,
    INT32,
    INTS,
    IP,
    LEVEL,
    NAMES,
    NAMES_ONLY,
    PAIRS,
    PLUGINS,
    QUANTITY,
    STRING,
    VERSION,
    VMODULE,
    WORDS,
    NamedCertKey,
)

NO_HTTP2 = "HTTP/2 is not served"
IGNORED_WITH_CONFIG = "Ignored with --config: set it in the file."


@dataclass
class MiscFlags(FlagSection):
    title: ClassVar[str] = "Misc"

    config: str = flag(STRING, "", "File with a KubeSchedulerConfiguration. Without it, the defaults apply.")
    master: str = flag(STRING, "", "Address of the API server. Overrides the one in the kubeconfig.")
    write_config_to: str = flag(STRING, "", "Write the complete configuration to this file and exit.")


@dataclass
class PluginFlags(FlagSection):
    title: ClassVar[str] = "Plugin"
    note: ClassVar[str] = "These are not in kube-scheduler, whose plugins are compiled in."

    plugin: tuple[str, ...] = flag(
        PLUGINS,
        (),
        "Load a plugin of your own: a class or a decorated function in a module that Python can import, or in a "
        "file.py. Enable it in the configuration or with --enable. May be repeated. Installed packages can provide "
        "plugins through the entry point group kubesched.plugins instead.",
    )
    plugin_dir: tuple[str, ...] = flag(
        FOLDERS,
        (),
        "Load all plugins in the files of a folder. For development: when a file changes, the scheduler restarts with "
        "it.",
    )
    enable: tuple[str, ...] = flag(
        NAMES,
        (),
        "Enable a plugin at all its extension points in every profile, optionally with a weight. A plugin that sorts "
        "the queue replaces the one that does.",
    )
    disable: tuple[str, ...] = flag(NAMES_ONLY, (), "Disable a plugin at all its extension points in every profile.")
    plugin_time_limit: Duration = flag(
        DURATION,
        Duration.of(5),
        "Interrupt a plugin of your own that stops everything for this long, and report it with its stack. 0 waits.",
    )


@dataclass
class HistoryFlags(FlagSection):
    title: ClassVar[str] = "Decision history"
    note: ClassVar[str] = "These are not in kube-scheduler."

    decision_history: int = flag(
        INT, 0, "Attempts to keep in memory and to serve under /debug/scheduling/, with the queue. 0 keeps none."
    )
    decision_history_per_pod: int = flag(INT, 10, "Attempts of one pod to keep in memory.")
    decision_history_bytes: int = flag(
        QUANTITY, 64 << 20, "Memory for these attempts: 64Mi. The oldest are dropped when it is used up."
    )
    decision_log: str = flag(STRING, "", "Append every attempt to this file, as a line of JSON.")
    decision_log_max_size: int = flag(QUANTITY, 100 << 20, "Size at which the log is rotated: 100Mi.")
    decision_log_backups: int = flag(INT, 3, "Rotated logs to keep: FILE.1 is the newest.")
    decision_db: str = flag(STRING, "", "Add every attempt to this SQLite database.")
    decision_db_attempts: int = flag(INT, 100_000, "Attempts to keep in the database.")
    annotate_results: bool = flag(
        BOOL,
        False,
        "Write the results of each attempt to the pod, as annotations of kube-scheduler-simulator. Needs the right to "
        "patch pods.",
    )
    record: str = flag(
        STRING,
        "",
        "Record everything that decisions depend on in this file, compressed if its name ends in .gz. kubesched "
        "simulate FILE makes every decision again and compares. An existing file is renamed.",
    )
    explain_in_events: bool = flag(BOOL, False, "Name the second-best node and its distance in Scheduled events.")


@dataclass
class ServingFlags(FlagSection):
    title: ClassVar[str] = "Secure serving"

    bind_address: str = flag(
        IP,
        "0.0.0.0",  # noqa: S104 - kube-scheduler's default: probes and Prometheus come from outside the pod
        "Address to listen on. 0.0.0.0 and :: mean all addresses, IPv4 and IPv6.",
    )
    secure_port: int = flag(INT, 10259, "HTTPS port for health, metrics and debugging. 0 turns it off.")
    cert_dir: str = flag(
        STRING,
        "",
        "Folder with kube-scheduler.crt and kube-scheduler.key; they are created if missing. Without this flag and "
        "--tls-cert-file, a certificate is created in memory.",
    )
    tls_cert_file: str = flag(
        STRING, "", "Certificate to present, followed by those of its authorities. Reloaded when it changes."
    )
    tls_private_key_file: str = flag(STRING, "", "Private key of --tls-cert-file.")
    tls_cipher_suites: tuple[str, ...] = flag(
        WORDS, (), "Cipher suites to allow with TLS 1.2, by their IANA names. Those of TLS 1.3 cannot be configured."
    )
    tls_curve_preferences: tuple[int, ...] = flag(
        INTS,
        (),
        "Key exchange mechanisms to allow, by number: 23 P-256, 24 P-384, 25 P-521, 29 X25519. More than one needs "
        "Python 3.15.",
    )
    tls_min_version: str = flag(
        STRING, "", "Lowest version of TLS: VersionTLS10, VersionTLS11, VersionTLS12 (the default) or VersionTLS13."
    )
    tls_sni_cert_key: tuple[NamedCertKey, ...] = flag(
        CERT_KEYS,
        (),
        "Another certificate for certain server names: cert.pem,key.pem:*.example.com,example.com. Without names, "
        "those in the certificate. May be repeated.",
    )
    disable_http2_serving: bool = flag(BOOL, False, "Do not serve HTTP/2. kubesched never does.")
    http2_max_streams_per_connection: int = flag(INT, 0, "Maximum streams per HTTP/2 connection.", no_effect=NO_HTTP2)
    permit_address_sharing: bool = flag(BOOL, False, "Bind with SO_REUSEADDR. kubesched always does.")
    permit_port_sharing: bool = flag(BOOL, False, "Bind with SO_REUSEPORT, so that several processes share the port.")


@dataclass
class AuthenticationFlags(FlagSection):
    title: ClassVar[str] = "Authentication"

    authentication_kubeconfig: str = flag(
        STRING,
        "",
        "Kubeconfig for TokenReviews, which find the user of a token. Default: the pod's service account. Without "
        "either, all requests are anonymous.",
    )
    authentication_skip_lookup: bool = flag(
        BOOL, False, "Do not look up the authorities of client certificates in the cluster."
    )
    authentication_token_webhook_cache_ttl: Duration = flag(
        DURATION, Duration.of(10), "How long to cache the review of a token."
    )
    authentication_tolerate_lookup_failure: bool = flag(
        BOOL, True, "Start even if the authorities of client certificates cannot be looked up."
    )
    client_ca_file: str = flag(
        STRING, "", "Authorities of client certificates. The user is the common name, the groups are the organizations."
    )
    requestheader_allowed_names: tuple[str, ...] = flag(
        WORDS, (), "Common names of proxies that are trusted to name users. Empty means any valid certificate."
    )
    requestheader_client_ca_file: str = flag(STRING, "", "Authorities of proxies that name users in headers.")
    requestheader_extra_headers_prefix: tuple[str, ...] = flag(
        WORDS, ("x-remote-extra-",), "Prefixes of headers with extra attributes of the user."
    )
    requestheader_group_headers: tuple[str, ...] = flag(WORDS, ("x-remote-group",), "Headers with the user's groups.")
    requestheader_uid_headers: tuple[str, ...] = flag(WORDS, (), "Headers with the user's UID.")
    requestheader_username_headers: tuple[str, ...] = flag(WORDS, ("x-remote-user",), "Headers with the user's name.")


@dataclass
class AuthorizationFlags(FlagSection):
    title: ClassVar[str] = "Authorization"

    authorization_always_allow_paths: tuple[str, ...] = flag(
        WORDS, ("/healthz", "/readyz", "/livez"), "Paths that everybody may read. A trailing * matches anything."
    )
    authorization_kubeconfig: str = flag(
        STRING,
        "",
        "Kubeconfig for SubjectAccessReviews, which decide what a user may do. Default: the pod's service account. "
        "Without either, only the paths that everybody may read are served.",
    )
    authorization_webhook_cache_authorized_ttl: Duration = flag(
        DURATION, Duration.of(10), "How long to cache a permission."
    )
    authorization_webhook_cache_unauthorized_ttl: Duration = flag(
        DURATION, Duration.of(10), "How long to cache a denial."
    )


@dataclass
class DeprecatedFlags(FlagSection):
    title: ClassVar[str] = "Deprecated"
    note: ClassVar[str] = "Use the configuration file instead. With it, all but the pod-max-* flag are ignored."

    contention_profiling: bool = flag(
        BOOL,
        True,
        f"Profile lock contention. {IGNORED_WITH_CONFIG}",
        no_effect="one thread schedules, so there is no contention",
    )
    kube_api_burst: int = flag(INT32, 100, f"Requests that may be sent in a burst. {IGNORED_WITH_CONFIG}")
    kube_api_content_type: str = flag(
        STRING,
        "application/vnd.kubernetes.protobuf",
        f"Format of requests. {IGNORED_WITH_CONFIG}",
        no_effect="requests are always JSON",
    )
    kube_api_qps: float = flag(FLOAT, 50.0, f"Requests per second. {IGNORED_WITH_CONFIG}")
    kubeconfig: str = flag(
        STRING, "", f"How to reach the API server. Default: the pod's service account. {IGNORED_WITH_CONFIG}"
    )
    pod_max_in_unschedulable_pods_duration: Duration = flag(
        DURATION,
        Duration.of(300),
        "How long a pod waits for an event that may help it before it is retried anyway.",
    )
    profiling: bool = flag(BOOL, True, f"Serve /debug/pprof and /debug/flags. {IGNORED_WITH_CONFIG}")


@dataclass
class LeaderElectionFlags(FlagSection):
    title: ClassVar[str] = "Leader election"
    note: ClassVar[str] = "These override the configuration file."

    leader_elect: bool = flag(BOOL, True, "Of several replicas, let one schedule while the others stand by.")
    leader_elect_lease_duration: Duration = flag(
        DURATION, Duration.of(15), "How long the others wait for a renewal before one of them takes over."
    )
    leader_elect_renew_deadline: Duration = flag(
        DURATION,
        Duration.of(10),
        "How long a leader tries to renew before it stops. Less than the lease duration.",
    )
    leader_elect_retry_period: Duration = flag(DURATION, Duration.of(2), "How long to wait between tries.")
    leader_elect_resource_lock: str = flag(STRING, "leases", "Resource of the lock: leases.")
    leader_elect_resource_name: str = flag(STRING, "kube-scheduler", "Name of the lock. Each scheduler needs its own.")
    leader_elect_resource_namespace: str = flag(STRING, "kube-system", "Namespace of the lock.")


@dataclass
class FeatureGateFlags(FlagSection):
    title: ClassVar[str] = "Feature gate"

    feature_gates: tuple[str, ...] = flag(
        GATES,
        (),
        "Turn features on or off. All gates of kube-scheduler 1.36 are accepted; see below for those with an effect.",
    )
    emulated_version: tuple[str, ...] = flag(
        WORDS, (), "Kubernetes version to behave like, 1.33 to 1.36. Only 1.36 has an effect."
    )
    min_compatibility_version: tuple[str, ...] = flag(
        WORDS, (), "Oldest version of other control plane components.", no_effect="nothing here depends on it"
    )


@dataclass
class MetricsFlags(FlagSection):
    title: ClassVar[str] = "Metrics"

    allow_metric_labels: dict[str, str] = flag(
        PAIRS, {}, "Allowed values of a label; others become 'unexpected': metric,label=value,value"
    )
    allow_metric_labels_manifest: str = flag(
        STRING, "", "YAML file with the same in an object allowListMapping. The flag takes precedence."
    )
    disabled_metrics: tuple[str, ...] = flag(WORDS, (), "Metrics to hide, by their full names.")
    show_hidden_metrics_for_version: str = flag(
        STRING, "", "Show metrics that were hidden in this version.", no_effect="no metric is hidden"
    )


@dataclass
class LogFlags(FlagSection):
    title: ClassVar[str] = "Logs"

    log_flush_frequency: Duration = flag(DURATION, Duration.of(5), "Longest time between two flushes of the log.")
    log_json_info_buffer_size: int = flag(
        QUANTITY, 0, "[Alpha] Buffer up to this many bytes of JSON messages. Needs the gate LoggingAlphaOptions."
    )
    log_json_split_stream: bool = flag(
        BOOL, False, "[Alpha] JSON: errors to stderr, the rest to stdout. Needs the gate LoggingAlphaOptions."
    )
    log_text_info_buffer_size: int = flag(
        QUANTITY, 0, "[Alpha] Buffer up to this many bytes of text messages. Needs the gate LoggingAlphaOptions."
    )
    log_text_split_stream: bool = flag(
        BOOL, False, "[Alpha] Text: errors to stderr, the rest to stdout. Needs the gate LoggingAlphaOptions."
    )
    logging_format: str = flag(STRING, "text", "Format of the log: text or json.")
    v: int = flag(
        LEVEL,
        0,
        "Log verbosity. 2 logs where each pod went or why it did not fit, 5 what the queue does, 10 everything.",
        shorthand="v",
    )
    vmodule: str = flag(VMODULE, "", "Verbosity by upstream's file: schedule_one=5,eventhandlers=4. Text format only.")


@dataclass
class GlobalFlags(FlagSection):
    title: ClassVar[str] = "Global"

    help: bool = flag(BOOL, False, "Show this help.", shorthand="h")
    version: str = flag(VERSION, "false", "Print the version and exit; --version=raw prints all its fields.")
