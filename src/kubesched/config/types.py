"""KubeSchedulerConfiguration v1 as structs, field for field.

The structs hold a *completed* configuration: what a file leaves out has been filled in. `load` makes them from files;
it knows about versions, about defaults that depend on other fields, and what to say about mistakes.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from kubesched.config.duration import Duration

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Point(StrEnum):
    """The extension points, by the names that a configuration file gives them."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of every part of the file: it fixes the struct options once."""


class ClientConnection(Section, frozen=True, kw_only=True):
    kubeconfig: str = ""
    """Path of the kubeconfig of the API server. Empty inside a cluster: the service account is used."""
    accept_content_types: str = ""
    """Accepted for compatibility; requests and responses are JSON."""
    content_type: str = "application/vnd.kubernetes.protobuf"
    """Accepted for compatibility; requests and responses are JSON."""
    qps: float = 50.0
    """Requests per second to the API server; negative for no limit."""
    burst: Int32 = 100
    """Requests that may exceed `qps` for a short time."""


class LeaderElection(Section, frozen=True, kw_only=True):
    leader_elect: bool = True
    """Whether to wait for the lease before scheduling, so that several replicas can run."""
    lease_duration: Duration = Duration.of(15)
    """How long the others wait after the last renewal before they try to take over."""
    renew_deadline: Duration = Duration.of(10)
    """How long the leader tries to renew before it gives up."""
    retry_period: Duration = Duration.of(2)
    """Time between attempts to get or renew the lease."""
    resource_lock: str = "leases"
    """The kind of the lock object; only `leases`."""
    resource_name: str = "kube-scheduler"
    """Name of the Lease."""
    resource_namespace: str = "kube-system"
    """Namespace of the Lease."""


class Plugin(Section, frozen=True, kw_only=True):
    """A plugin switched on or off; a weight of 0 counts as 1 where the plugin scores."""

    name: str = ""
    """Name of the plugin. In `disabled`, `*` means all."""
    weight: Int32 = 0
    """Factor of its scores; 0 counts as 1."""


class PluginSet(Section, frozen=True, kw_only=True):
    enabled: tuple[Plugin, ...] = ()
    """Plugins to add to the default ones, in this order."""
    disabled: tuple[Plugin, ...] = ()
    """Default plugins to remove."""


class Plugins(Section, frozen=True, kw_only=True):
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def __getitem__(self, section: str) -> PluginSet:
        """The set under a section's name in the file: a `Point`, or ``multiPoint``."""
        chosen = getattr(self, SECTIONS[section])
        assert isinstance(chosen, PluginSet)
        return chosen

    def names(self) -> tuple[str, ...]:
        """Every plugin that is enabled in some section, each once, in the order of the file."""
        return tuple(dict.fromkeys(plugin.name for section in SECTIONS for plugin in self[section].enabled))


SECTIONS = {each.encode_name: each.name for each in msgspec.structs.fields(Plugins)}


class PluginConfig(Section, frozen=True, kw_only=True):
    """A plugin's arguments: a struct of `args` for a built-in, else what the file says, for the plugin to decode."""

    name: str = ""
    """Name of the plugin."""
    args: object = None
    """Its arguments: see below for the plugins that ship with kubesched."""


class KubeSchedulerProfile(Section, frozen=True, kw_only=True):
    scheduler_name: str = ""
    """The `schedulerName` of the pods that this profile schedules; `default-scheduler` if it is the only profile."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Replaces the field of the same name of the whole configuration."""
    plugins: Plugins = Plugins()
    """Plugins to enable and disable, by extension point."""
    plugin_config: tuple[PluginConfig, ...] = ()
    """Arguments of plugins."""

    def args_of(self, plugin: str) -> object:
        """The arguments configured for a plugin, None when there are none."""
        return next((each.args for each in self.plugin_config if each.name == plugin), None)


class ExtenderManagedResource(Section, frozen=True, kw_only=True, omit_defaults=True):
    name: str = ""
    """Name of an extended resource."""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit ignores the resource."""


class ExtenderTLSConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    insecure: bool = False
    """Whether to accept any certificate of the extender."""
    server_name: str = ""
    """Name to check the extender's certificate for; empty for the host in the URL."""
    cert_file: str = ""
    """File with the client certificate."""
    key_file: str = ""
    """File with the key of the client certificate."""
    ca_file: str = ""
    """File with the authorities that sign the extender's certificate."""
    cert_data: bytes = b""
    """The client certificate, in base64. It takes precedence over the file."""
    key_data: bytes = b""
    """The key of the client certificate, in base64. It takes precedence over the file."""
    ca_data: bytes = b""
    """The authorities, in base64. They take precedence over the file."""


class Extender(Section, frozen=True, kw_only=True, omit_defaults=True):
    url_prefix: str = ""
    """URL of the extender, to which the verbs are appended."""
    filter_verb: str = ""
    """Verb of the call that filters nodes; empty if there is none."""
    preempt_verb: str = ""
    """Verb of the call that checks victims of preemption; empty if there is none."""
    prioritize_verb: str = ""
    """Verb of the call that scores nodes; empty if there is none."""
    weight: Int64 = 0
    """Factor of its scores; positive if there is a `prioritizeVerb`."""
    bind_verb: str = ""
    """Verb of the call that binds pods; empty if there is none. Only one extender may bind."""
    enable_https: bool = field(default=False, name="enableHTTPS")
    """Whether to call the extender over HTTPS."""
    tls_config: ExtenderTLSConfig | None = None
    """How to connect over HTTPS."""
    http_timeout: Duration = Duration()
    """Timeout of a call; 0 means 5s."""
    node_cache_capable: bool = False
    """Whether the extender knows the nodes, so that only their names are sent."""
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    """Resources that the extender manages: it is called only for pods that request one. Empty for all pods."""
    ignorable: bool = False
    """Whether scheduling goes on without the extender if it fails."""


class KubeSchedulerConfiguration(Section, frozen=True, kw_only=True):
    parallelism: Int32 = 16
    """Accepted for compatibility; plugins handle all nodes in one call."""
    leader_election: LeaderElection = LeaderElection()
    """Leader election."""
    client_connection: ClientConnection = ClientConnection()
    """The connection to the API server."""
    enable_profiling: bool = True
    """Whether to serve `/debug/pprof`."""
    enable_contention_profiling: bool = True
    """Accepted for compatibility; there is no lock contention to profile."""
    percentage_of_nodes_to_score: Int32 = 0
    """Limits how many of the nodes that fit are scored, in percent of all nodes; 0 means no limit."""
    pod_initial_backoff_seconds: Int64 = 1
    """Backoff of a pod after its first failed attempt. It doubles with each further one."""
    pod_max_backoff_seconds: Int64 = 10
    """The longest backoff."""
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    """Profiles: sets of plugins for pods with a certain `schedulerName`. One with the default plugins if empty."""
    extenders: tuple[Extender, ...] = ()
    """Extenders: programs that filter, score or bind over HTTP."""
    delay_cache_until_active: bool = False
    """Whether a scheduler that is not the leader fills its caches only when it becomes the leader."""
