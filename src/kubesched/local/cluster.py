"""The local cluster of `kubesched up`: its parts, and the order in which they start and stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import yaml

from kubesched.apiserver.admission.admission import AdmissionSettings
from kubesched.apiserver.auth.bootstrap_roles import RoleRule
from kubesched.apiserver.http_server import AddressInUseError
from kubesched.apiserver.kinds.registry import COMPONENT_STATUSES
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.apiserver.storage.durable import DataDirectoryError
from kubesched.base.types import JSON
from kubesched.client import kubeconfig
from kubesched.client.connection import Connection, resolve
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.contrib.crds import DEFINITIONS, READ_GROUPS, READ_RESOURCES
from kubesched.daemon.process import Process
from kubesched.daemon.serving.preparation import listen
from kubesched.daemon.serving.tls.context import PairSource, ServingError
from kubesched.daemon.setup import Setup, SetupError, prepare
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.framework.loading import plugin_files
from kubesched.framework.registry import PluginSource
from kubesched.kubelet.nodes import NodeSettings
from kubesched.kubelet.settings import KubeletSettings
from kubesched.local import kubeconfigs
from kubesched.local.flags import UpOptions, parse_taint
from kubesched.local.open_port import OpenPort
from kubesched.local.scheduler_pods import SchedulerPods
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.reconcile.access import NODES
from kubesched.snapshots.reader import ManifestError
from kubesched.snapshots.reader import load as load_contents
from kubesched.snapshots.restore import restore

SCHEDULER = "system:kube-scheduler"
ALL_ADMISSION = AdmissionSettings(require_service_accounts=True, taint_new_nodes=True, protect_in_use=True)


def prepare_scheduler(options: UpOptions, log: Logger, plugins: Iterable[PluginSource] = ()) -> Setup:
    """Prepare the scheduler, except for the connection to its cluster. Raises `SetupError` with all problems."""
    _refuse_a_second(options)
    _choose_secure_port(options)
    if "leader-elect" not in options.changed:
        # There is only one scheduler, and after a crash it must not wait for its predecessor's lease.
        options.leader_election.leader_elect = False
        options.changed.add("leader-elect")
    return _unlimited(prepare(options, log, plugins, connection=Connection("")))


class LocalCluster:
    """An API server, controllers, simulated kubelets and a scheduler."""

    def __init__(self, options: UpOptions, log: Logger) -> None:
        self._options = options
        self._log = log
        flags = options.cluster
        data_dir = Path(flags.data_dir).expanduser() if flags.data_dir else None
        try:
            self.server = build_server(ServerOptions(port=flags.port, data_dir=data_dir, admission=ALL_ADMISSION))
        except DataDirectoryError as error:
            raise SetupError([f"--data-dir: {error}"]) from None
        settings = ClusterSettings(
            kubelet=KubeletSettings(
                start_delay=flags.pod_start_delay.seconds,
                stop_delay=flags.pod_stop_delay.seconds,
                run_time=flags.pod_run_time.seconds,
            ),
            node=NodeSettings(
                cpu=flags.node_cpu, memory=flags.node_memory, pods=str(flags.node_pods), devices=flags.devices
            ),
            features=options.gates.features,
            control_plane=True,
        )
        authority = self.server.identity.authority
        self.embedded = EmbeddedCluster(
            self.server.api,
            settings,
            root_certificate=authority.certificate_pem.decode(),
            sign_request=authority.sign_request,
        )
        self._scheduler_pods: SchedulerPods | None = None
        self._own_kubeconfig: Path | None = None
        """A file of this run alone, to be removed at its end."""
        self.open_port: OpenPort | None = None
        if flags.simulator_port:
            self.open_port = OpenPort(self.server.api, flags.simulator_port, flags.simulator_origins)

    @property
    def has_no_scheduler(self) -> bool:
        """Whether the user starts the scheduler."""
        return self._options.cluster.no_scheduler

    async def start(self) -> None:
        """Start the API server, the controllers and the kubelets. Raises `SetupError` if the port is in use."""
        flags = self._options.cluster
        await self._start_server()
        try:
            if self.open_port is not None:
                await self.open_port.start()
        except AddressInUseError as error:
            raise SetupError([_in_use(error, "choose another --simulator-port")]) from None
        if self._options.history.annotate_results:
            self.server.api.bootstrap.grant("kubesched:annotate-results", SCHEDULER, RoleRule("patch", "core", "pods"))
        for definition in DEFINITIONS:
            self.server.api.bootstrap.define(definition)
        readable = RoleRule("get list watch", READ_GROUPS, READ_RESOURCES)
        self.server.api.bootstrap.grant("kubesched:contrib", SCHEDULER, readable)
        self.server.api.serve_computed(COMPONENT_STATUSES, self._component_statuses)
        self._restore(flags.from_)
        self.embedded.start()
        self._scheduler_pods = SchedulerPods(
            self.server, self.embedded, _plugin_flags(self._options), enabled=flags.run_schedulers
        )
        if "nodes" in self._options.changed or not self.server.api.store.shelf(NODES).records:
            self.embedded.add_nodes(
                flags.nodes,
                flags.node_name_format,
                zones=flags.zones,
                labels=flags.node_labels,
                taints=[parse_taint(each) for each in flags.node_taints],
            )

    async def _start_server(self) -> None:
        """Listen on the port, or on a free one if the default port belongs to another program."""
        try:
            await self.server.start()
        except AddressInUseError as error:
            running = _running_message(self.server.url, self._options)
            if not running and "port" in self._options.changed:
                raise SetupError([_in_use(error, "choose another --port, or --port=0 for a free one")]) from None
            # A cluster that had to take a free port for the same reason is known from its kubeconfig.
            if not running and (url := kubeconfigs.other_cluster(self._kubeconfig, self.server)):
                running = _running_message(url, self._options)
            if running:
                raise SetupError([running]) from None
            self._options.taken["port"], self.server.port = self.server.port, 0
            await self.server.start()

    @property
    def _kubeconfig(self) -> Path:
        given = self._options.cluster.write_kubeconfig
        return Path(given).expanduser() if given else kubeconfigs.usual()

    def _component_statuses(self, _namespace: str) -> Iterator[JSON]:
        """The parts of the control plane, as kubectl get componentstatuses lists them."""
        missing = "none was started (--no-scheduler)" if self.has_no_scheduler else ""
        for name, problem in (("scheduler", missing), ("controller-manager", ""), ("etcd-0", "")):
            healthy = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
            yield {"metadata": {"name": name}, "conditions": [healthy]}

    def _restore(self, sources: Sequence[str]) -> None:
        """Store the objects of --from: those of a cluster as if it had been stopped and started again."""
        if not sources:
            return
        try:
            contents = load_contents(*(Path(source).expanduser() for source in sources))
        except OSError as error:
            raise SetupError(
                [f"--from: {error.filename}: {error.strerror}" if error.filename else str(error)]
            ) from None
        except ManifestError as error:
            raise SetupError([f"--from: {line}" for line in str(error).splitlines()]) from None
        result = restore(self.server.api, contents.at())
        for kind, number in sorted(result.ignored.items()):
            self._log(WARNING, f"--from: {number} objects of kind {kind} are ignored: the API server has no such kind")
        if result.refused:
            raise SetupError([f"--from: {problem}" for problem in result.refused])

    async def stop(self) -> None:
        """Stop everything, the API server and its store last."""
        self.embedded.halt()
        if self._scheduler_pods is not None:
            await self._scheduler_pods.stop()
        await self.embedded.stop()
        if self.open_port is not None:
            await self.open_port.stop()
        await self.server.stop()
        if self._own_kubeconfig is not None:
            self._own_kubeconfig.unlink(missing_ok=True)

    def write_kubeconfig(self) -> Path:
        """Write the administrator's kubeconfig and return its path."""
        given = self._options.cluster.write_kubeconfig
        path = self._kubeconfig if given else kubeconfigs.choose(self.server, self._log)
        if given and (other := kubeconfigs.other_cluster(path, self.server)):
            why = f"{path} belongs to the cluster that is running on {other}; choose another file, or stop that one"
            raise SetupError([f"--write-kubeconfig: {why}"])
        try:
            self.server.write_kubeconfig(path)
        except OSError as error:
            raise SetupError([f"--write-kubeconfig: {path} cannot be written: {error.strerror or error}"]) from None
        if not given and path != kubeconfigs.usual():
            self._own_kubeconfig = path
        return path

    def scheduler(
        self, setup: Setup, plugins: Iterable[PluginSource] = (), when_serving: Callable[[], None] | None = None
    ) -> Process:
        """Return the daemon of `kubesched run`, connected to this cluster."""
        setup.connection = setup.authentication = setup.authorization = self._connection()
        if setup.tls is not None and setup.tls.main.made is not None:
            # With a certificate of the cluster's authority, clients that trust the cluster trust the scheduler too.
            names = ("localhost", "127.0.0.1", setup.options.serving.bind_address)
            pair = self.server.identity.authority.server_pair("kube-scheduler", tuple(dict.fromkeys(names)))
            setup.tls = replace(setup.tls, main=PairSource(made=pair))
            if setup.options.history.decision_history:
                url = f"https://127.0.0.1:{setup.options.serving.secure_port}"
                self.server.extensions[kubeconfig.EXTENSION] = {"scheduler": url}
        # Controllers in the middle of much work would delay each step of the scheduler's way to its end.
        return Process(setup, plugins, when_serving, when_stopping=self.embedded.halt)

    def _connection(self) -> Connection:
        pair = self.server.identity.authority.client_pair(SCHEDULER)
        text = yaml.safe_dump(self.server.kubeconfig(SCHEDULER, pair)).encode()
        return resolve(kubeconfig.parse(text, "the embedded cluster"))


def _in_use(error: AddressInUseError, hint: str) -> str:
    text = str(error)
    return f"{text.partition(': ')[0]}: it is in use; {hint}" if "in use" in text else f"{text}; {hint}"


def _choose_secure_port(options: UpOptions) -> None:
    """Choose the scheduler's port, once: a free one if the default port belongs to another scheduler."""
    if options.cluster.no_scheduler:
        options.serving.secure_port = 0  # the default port is for the scheduler that the user starts
    elif "secure-port" not in options.changed:
        options.changed.add("secure-port")
        usual = options.serving.secure_port
        for port in (usual, 0):
            with suppress(ServingError), listen(options.serving.bind_address, port) as found:
                options.serving.secure_port = found.getsockname()[1]
                if not port:
                    options.taken["secure-port"] = usual
                return


def _refuse_a_second(options: UpOptions) -> None:
    """Say that a cluster is running already, before the scheduler's port, which it uses too, is found in use."""
    port = options.cluster.port
    running = _running_message(f"https://127.0.0.1:{port}", options) if port else ""
    if running and not options.misc.write_config_to:
        raise SetupError([running])


def _running_message(url: str, options: UpOptions) -> str:
    """What to do if a cluster runs at this URL, or an empty string."""
    running = kubeconfigs.running_at(url, options.cluster.write_kubeconfig)
    if running is None and not kubeconfigs.is_ours(url):
        return ""
    use = f"with export KUBECONFIG={running}" if running else "with the kubeconfig that it has written"
    return f"a cluster is running already on {url}. Use it {use}, stop it, or start a second one with --port=0"


def _plugin_flags(options: UpOptions) -> list[str]:
    """The flags that load the same plugins in another process."""
    flags = options.plugins
    return [
        *(f"--plugin={place}" for place in flags.plugin),
        *(f"--plugin={file}" for folder in flags.plugin_dir for file in plugin_files(folder)),
    ]


def _unlimited(setup: Setup) -> Setup:
    """Remove the default limit of requests per second, which protects a server with other clients."""
    default, given = KubeSchedulerConfiguration().client_connection, setup.config.client_connection
    if (given.qps, given.burst) == (default.qps, default.burst):
        setup.config = msgspec.structs.replace(setup.config, client_connection=msgspec.structs.replace(given, qps=-1.0))
    return setup
