"""`kubesched run` as a process of its own, against a small API server: what it does, and what it exits with."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import ssl
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import trustme
from aiohttp import web
from tests.builders import node, pod
from tests.client.server import ApiServer, serving, status
from tests.daemon.serving.support import Log, insecure
from tests.scheduler.extender_server import serving as extending

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.daemon.flags import parse
from kubesched.daemon.serving.preparation import listen, tls_settings

GOLDEN = Path(__file__).parents[1] / "config" / "default-configuration.yaml"
START = "import sys, kubesched; sys.exit(kubesched.run())"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
QUICK = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms")
PATIENCE = 180.0


@dataclass
class Cluster(ApiServer):
    """An API server that knows one token, may be slow to bind, and may take the lease away."""

    bind_seconds: float = 0.0
    binding: asyncio.Event = field(default_factory=asyncio.Event)
    lease_is_gone: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/binding"):
            self.binding.set()
            await asyncio.sleep(self.bind_seconds)
        if request.path == LEASE and self.lease_is_gone:
            return status(500, "InternalError", "etcd is on holiday")
        if request.path.endswith("/tokenreviews"):
            token = (await request.json())["spec"]["token"]
            user = {"authenticated": True, "user": {"username": "root", "groups": ["system:masters"]}}
            return web.json_response({"status": user if token == "good" else {"authenticated": False}}, status=201)
        return await super().handle(request)


@dataclass
class Daemon:
    """A scheduler that runs."""

    process: Process
    log_file: Path
    port: int

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(int(PATIENCE / 0.05)):
            if condition():
                return
            assert self.process.returncode is None, self.log
            await asyncio.sleep(0.05)
        raise AssertionError(self.log)

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.port}{path}"
        headers = {"Authorization": "Bearer good"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, url, ssl=insecure(), **more) as answer,
        ):
            return answer.status, await answer.text()

    async def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


def kubeconfig(folder: Path, url: str, user: JSON | None = None) -> str:
    file = folder / "scheduler.conf"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file.write_text(json.dumps(config))
    return str(file)


def free_port() -> int:
    with listen("127.0.0.1", 0) as found:
        return int(found.getsockname()[1])


@asynccontextmanager
async def daemon(folder: Path, cluster: Cluster, *flags: str, user: JSON | None = None) -> AsyncIterator[Daemon]:
    """Start a scheduler exactly as the seeds do."""
    config, port = kubeconfig(folder, cluster.url, user), free_port()
    log_file = folder / "log"
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            START,
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--kubeconfig={config}",
            f"--secure-port={port}",
            *flags,
            stderr=log,
            cwd=folder,
        )
        try:
            yield Daemon(process, log_file, port)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def node_of(cluster: Cluster, name: str) -> str:
    found = cluster.backend.get(api.Pod, f"default/{name}")
    return "" if found is None else found.node_name


async def refused(*flags: str, cwd: Path | None = None) -> tuple[int, str]:
    """What a process that does not get as far as running says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START, *flags, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=cwd
    )
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode is not None
    return process.returncode, errors.decode()


async def test_a_cluster_is_scheduled_as_a_leader(tmp_path: Path) -> None:
    """A pod is bound, health and verbosity can be asked for, SIGUSR2 tells the state, SIGTERM exits with 0."""
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        cluster.backend.create(pod("a", cpu=1))
        cluster.backend.create(pod("theirs", cpu=2, scheduler="another"))
        async with daemon(tmp_path, cluster, "--leader-elect=true") as scheduler:
            await scheduler.until(lambda: node_of(cluster, "a") == "n1")
            assert await scheduler.ask("GET", "/readyz?verbose") == (
                200,
                "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
            )
            answer = await scheduler.ask("PUT", "/debug/flags/v", data="5")
            assert answer == (200, "successfully set klog.logging.verbosity to 5\n")
            requests = (await scheduler.ask("GET", "/metrics/resources"))[1]
            assert 'resource="cpu",unit="cores"} 1\n' in requests
            assert 'scheduler="another",priority="",resource="cpu",unit="cores"} 2\n' in requests
            metrics = (await scheduler.ask("GET", "/metrics"))[1]
            assert 'leader_election_master_status{name="kube-scheduler"} 1' in metrics
            assert "rest_client_requests_total{" in metrics
            assert "kubesched_events_lost_total 0" in metrics
            assert "kubesched_event_loop_longest_stall_seconds " in metrics
            assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1' in metrics
            assert await scheduler.ask("DELETE", "/metrics") == (200, "metrics reset\n")
            assert "scheduler_schedule_attempts_total{" not in (await scheduler.ask("GET", "/metrics"))[1]
            scheduler.process.send_signal(signal.SIGUSR2)
            await scheduler.until(lambda: "Dump of scheduling queue" in scheduler.log)
            assert "Node name: n1" in scheduler.log
            assert await scheduler.end() == 0
            assert '"Successfully acquired lease" lock="kube-system/kube-scheduler"' in scheduler.log
            assert "Requested to terminate, exiting" in scheduler.log
        assert cluster.leases[LEASE]["spec"]["holderIdentity"] == ""


async def test_bindings_that_have_begun_are_seen_through(tmp_path: Path) -> None:
    """SIGTERM in the middle of a bind call leaves the pod bound and the exit code 0; no new pod is begun."""
    async with serving(Cluster(bind_seconds=1.0)) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        cluster.backend.create(pod("a", cpu=1))
        async with daemon(tmp_path, cluster, "--leader-elect=false") as scheduler:
            await asyncio.wait_for(cluster.binding.wait(), PATIENCE)
            assert await scheduler.end() == 0
        assert node_of(cluster, "a") == "n1"


async def test_a_lost_lease_ends_the_process_with_one(tmp_path: Path) -> None:
    """A leader that cannot renew in time stops, exits with 1 and says why."""
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        async with daemon(tmp_path, cluster, *QUICK) as scheduler:
            await scheduler.until(lambda: LEASE in cluster.leases)
            cluster.lease_is_gone = True
            assert await asyncio.wait_for(scheduler.process.wait(), PATIENCE) == 1
            assert "Leaderelection lost" in scheduler.log


async def test_who_stands_by_watches_and_is_ready(tmp_path: Path) -> None:
    """While another leads, a replica takes the cluster in, binds nothing, and goes with 0 when told to."""
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.leases[LEASE] = lease("another")
        cluster.backend.create(node("n1", cpu=4))
        cluster.backend.create(pod("a", cpu=1))
        async with daemon(tmp_path, cluster, "--leader-elect") as scheduler:
            await scheduler.until(lambda: "Serving securely" in scheduler.log)
            async with asyncio.timeout(PATIENCE):
                while (await scheduler.ask("GET", "/readyz"))[0] != 200:
                    await asyncio.sleep(0.05)
            assert await scheduler.ask("GET", "/metrics/resources") == (200, "")
            assert await scheduler.end() == 0
        assert node_of(cluster, "a") == ""
        assert cluster.leases[LEASE]["spec"]["holderIdentity"] == "another"


async def test_extenders_get_whole_objects(tmp_path: Path) -> None:
    """What scheduling does not read of pods and nodes reaches an extender all the same, as upstream passes it on."""
    whole_node = {"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(node("n1", cpu=4))}
    whole_node["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.0"}
    whole_pod = {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(pod("a", cpu=1))}
    whole_pod["spec"]["dnsPolicy"] = "ClusterFirst"
    async with serving(Cluster()) as cluster, extending() as extender:
        assert isinstance(cluster, Cluster)
        cluster.put_json(api.Node, whole_node)
        cluster.put_json(api.Pod, whole_pod)
        extender.answers["/filter"] = lambda arguments: {"Nodes": arguments["Nodes"]}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig(tmp_path, cluster.url)},
            "extenders": [{"urlPrefix": extender.url, "filterVerb": "filter"}],
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        async with daemon(tmp_path, cluster, "--config=config.json", "--leader-elect=false") as scheduler:
            await scheduler.until(lambda: node_of(cluster, "a") == "n1")
            assert await scheduler.end() == 0
    (_, arguments), *_ = extender.asked
    assert arguments["Pod"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert arguments["Nodes"]["items"][0]["status"]["nodeInfo"] == {"kubeletVersion": "v1.36.0"}
    assert "kind" not in arguments["Pod"]


async def test_no_secret_is_logged(tmp_path: Path) -> None:
    """At the highest verbosity the log has neither tokens nor keys: not of the kubeconfig, an exec plugin, an extender
    or a request, and not when something goes wrong with them."""
    secrets = ["secret-token", "secret-argument", "secret-variable", "secret-request"]
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps({**answer, 'status': {'token': secrets[0]}})}'\n")
    plugin.chmod(0o755)
    variable = {"name": "PASSWORD", "value": secrets[2]}
    command = {"command": str(plugin), "args": [secrets[1]], "env": [variable], "interactiveMode": "Never"}
    pair = trustme.CA().issue_cert("client.example.com")
    key = base64.b64encode(pair.private_key_pem.bytes()).decode()
    certificate = base64.b64encode(pair.cert_chain_pems[0].bytes()).decode()
    tls = {"certData": certificate, "keyData": key}
    extender = {"urlPrefix": "https://127.0.0.1:1", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": tls}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(tmp_path / "scheduler.conf")},
        "extenders": [{**extender, "ignorable": True}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    flags = ("--config=config.json", "--leader-elect=false", "--v=10")
    async with serving(Cluster(), context) as cluster:
        assert isinstance(cluster, Cluster)
        cluster.backend.create(node("n1", cpu=4))
        cluster.backend.create(pod("a", cpu=1))
        user = {"exec": {**command, "apiVersion": answer["apiVersion"]}}
        async with daemon(tmp_path, cluster, *flags, user=user) as scheduler:
            await scheduler.until(lambda: node_of(cluster, "a") == "n1")
            headers = {"Authorization": f"Bearer {secrets[3]}"}
            assert (await scheduler.ask("GET", "/metrics", headers=headers))[0] == 401
            assert await scheduler.end() == 0
            assert "Using component config" in scheduler.log
            assert "Unable to authenticate the request" in scheduler.log
            assert [each for each in (*secrets, key, "PRIVATE KEY") if each in scheduler.log] == []
    assert any(each.headers.get("Authorization") == f"Bearer {secrets[0]}" for each in cluster.received)


def lease(holder: str) -> JSON:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 600, "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}


PLUGIN = """
from kubesched.framework.plugin import Plugin
from kubesched.framework.status import unschedulable

class Picky(Plugin):
    name = "Picky"

    def filter(self, state, pod, node):
        return None if node.name.endswith("2") else unschedulable("not picky enough")
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %s}
profiles:
- schedulerName: default-scheduler
  plugins: {filter: {enabled: [{name: Picky}]}}
"""


async def test_a_plugin_of_ones_own(tmp_path: Path) -> None:
    """--plugin finds a module where the process was started, and a configuration file enables it."""
    (tmp_path / "picky.py").write_text(PLUGIN)
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG % kubeconfig(tmp_path, cluster.url))
        for name in ("n1", "n2"):
            cluster.backend.create(node(name, cpu=4))
        cluster.backend.create(pod("a", cpu=1))
        flags = ("--plugin", "picky:Picky", f"--config={config}")
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            await scheduler.until(lambda: node_of(cluster, "a") == "n2")
            assert "--kubeconfig has no effect: the configuration file" in scheduler.log


async def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Bad files, plugins and addresses are reported together, and the exit code is 1."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % "/nonexistent.conf" + "parallelism: 0\nfoo: bar\n")
    code, errors = await refused(
        f"--config={config}", "--plugin=nowhere:Plugin", "--plugin=os:path", "--tls-min-version=TLS9"
    )
    assert code == 1
    assert "Error: --plugin: nowhere:Plugin: ModuleNotFoundError: No module named 'nowhere'" in errors
    assert "Error: --plugin: os:path is not a plugin" in errors
    assert "Picky" in errors
    assert "parallelism" in errors
    assert "foo" in errors
    assert 'Error: unknown tls version "TLS9"' in errors


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bogus"], "Error: unknown flag: --bogus"),
        (["--config=/nonexistent.yaml"], "/nonexistent.yaml: No such file or directory"),
        (["--kubeconfig=/nonexistent.conf"], "/nonexistent.conf"),
        (
            ["--authentication-kubeconfig=/no", "--master=http://x"],
            "check the path given with --authentication-kubeconfig",
        ),
        (["--cert-dir=/proc/x", "--master=http://x"], "--cert-dir: /proc/x cannot be written: No such file"),
        (["--leader-elect-lease-duration=1s", "--master=http://x"], "leaseDuration"),
        (["--kube-api-burst=-5", "--master=http://x"], "burst"),
        (["--write-config-to=/nonexistent/x"], "/nonexistent/x cannot be written: No such file or directory"),
    ],
)
async def test_refusals_exit_with_one(flags: list[str], message: str) -> None:
    """Whatever keeps the scheduler from starting is named on stderr, and the exit code is 1."""
    code, errors = await refused(*flags)
    assert code == 1
    assert message in errors


async def test_an_extender_that_cannot_be_asked(tmp_path: Path) -> None:
    """An authority of an extender's that is not there is an error like any other, not a traceback."""
    tls = {"caFile": "/nonexistent.crt"}
    extender = {"urlPrefix": "https://127.0.0.1:1", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": tls}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "config.json").write_text(json.dumps({**head, "extenders": [extender]}))
    code, errors = await refused(f"--config={tmp_path / 'config.json'}", "--master=http://x", "--secure-port=0")
    assert code == 1
    assert "Error: /nonexistent.crt cannot be read: No such file or directory" in errors
    assert "Traceback" not in errors


async def test_a_port_that_is_taken() -> None:
    """A port in use is reported at the start, with what to do about it."""
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        flags = ["--bind-address=127.0.0.1", f"--secure-port={port}", "--master=http://127.0.0.1:1"]
        code, errors = await refused(*flags)
    assert code == 1
    assert f"failed to listen on 127.0.0.1:{port}: Address already in use; choose another --secure-port" in errors


async def test_the_default_configuration_is_written_as_upstream_writes_it(tmp_path: Path) -> None:
    """--write-config-to needs no cluster, and gives kube-scheduler's own file but for what flags say."""
    out = tmp_path / "out.yaml"
    code, _ = await refused(f"--write-config-to={out}", "--leader-elect-resource-name=second", "--kube-api-qps=7.5")
    assert code == 0
    expected = GOLDEN.read_text().replace("resourceName: kube-scheduler", "resourceName: second")
    assert out.read_text() == expected.replace("qps: 50", "qps: 7.5")


async def test_version_and_help_go_to_stdout() -> None:
    """--version and --help are data: they go to stdout, and the exit code is 0."""
    for flag, begin in (
        ("--version", "Kubernetes v1.36."),
        ("--version=raw", "version.Info{"),
        ("-h", "Schedules the"),
    ):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", START, flag, stdout=asyncio.subprocess.PIPE, env={**os.environ, "COLUMNS": "100"}
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        assert out.decode().startswith(begin)


@pytest.mark.parametrize(("curves", "warned"), [("23", False), ("23,29", not hasattr(ssl.SSLContext, "set_groups"))])
def test_curves_without_effect_say_so(curves: str, warned: bool) -> None:
    """Where Python can be told only one key exchange mechanism, more than one is a reason to say that none counts."""
    log = Log()
    tls_settings(parse([f"--tls-curve-preferences={curves}"]).options.serving, log)  # type: ignore[arg-type]
    assert ("--tls-curve-preferences has no effect" in log.text) is warned


def test_a_program_can_run_a_scheduler_with_its_own_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """`kubesched.run` takes flags as an argument, returns the exit code, and is no module of the command line."""
    import kubesched.cli.run

    assert kubesched.run(argv=["--version"]) == 0
    assert capsys.readouterr().out.startswith("Kubernetes v1.36")
    assert kubesched.run(argv=["--no-such-flag"]) == 1
