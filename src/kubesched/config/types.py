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
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class LeaderElection(Section, frozen=True, kw_only=True):
    leader_elect: bool = True
    lease_duration: Duration = Duration.of(15)
    renew_deadline: Duration = Duration.of(10)
    retry_period: Duration = Duration.of(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class Plugin(Section, frozen=True, kw_only=True):
    """A plugin switched on or off; a weight of 0 counts as 1 where the plugin scores."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(Section, frozen=True, kw_only=True):
    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


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
    args: object = None


class KubeSchedulerProfile(Section, frozen=True, kw_only=True):
    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args_of(self, plugin: str) -> object:
        """The arguments configured for a plugin, None when there are none."""
        return next((each.args for each in self.plugin_config if each.name == plugin), None)


class ExtenderManagedResource(Section, frozen=True, kw_only=True, omit_defaults=True):
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Section, frozen=True, kw_only=True, omit_defaults=True):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Section, frozen=True, kw_only=True):
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
