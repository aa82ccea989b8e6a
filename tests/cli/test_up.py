"""`kubesched up` as a process: how it starts, what it says, how it refuses, and what is left of it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubesched.cli.explain import command as explain
from kubesched.cli.up import _announce, start
from kubesched.daemon.flags import parse
from kubesched.daemon.setup import SetupError
from kubesched.history.reader import load
from kubesched.local.cluster import LocalCluster, prepare_scheduler
from kubesched.local.flags import UpOptions

KUBESCHED = [sys.executable, "-c", "from kubesched.cli.main import main; main()"]
PATIENCE = 180.0
INDEX = Path(__file__).parents[2] / "examples/index-scheduling"


class Up:
    """A running `kubesched up`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._out, self._err = folder / "out", folder / "err"
        command = [*KUBESCHED, "up", "--port=0", "--secure-port=0", f"--write-kubeconfig={self.kubeconfig}"]
        command += ["--pod-start-delay=50ms", *flags]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder)
        eventually(lambda: "Ctrl-C stops it." in self.out or self.process.poll() is not None)
        assert self.process.poll() is None, self.err
        config = yaml.safe_load(self.kubeconfig.read_text("utf-8"))
        self.url = config["clusters"][0]["cluster"]["server"]
        self.token = config["users"][0]["user"]["token"]

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8")

    @property
    def err(self) -> str:
        return self._err.read_text("utf-8")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A request as the administrator."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
            return json.load(answer)

    def run_pod(self, name: str) -> None:
        """Create a pod and wait until it runs."""
        spec = {"containers": [{"name": "main", "image": "nginx"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.call("POST", "/api/v1/namespaces/default/pods", pod)
        eventually(lambda: self.phase(name) == "Running")

    def phase(self, name: str) -> str:
        return str(self.call("GET", f"/api/v1/namespaces/default/pods/{name}")["status"]["phase"])

    def node_of(self, name: str) -> str:
        return str(self.call("GET", f"/api/v1/namespaces/default/pods/{name}")["spec"].get("nodeName", ""))

    def names(self, plural: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.call("GET", f"/api/v1/{plural}")["items"]]

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def answers(port: int) -> bool:
    """Whether a server listens there."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts clusters, and sees that none is left."""
    started: list[Up] = []

    def start(*flags: str) -> Up:
        started.append(Up(tmp_path, *flags))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def refused(*flags: str) -> str:
    """What it says when it cannot start."""
    done = subprocess.run([*KUBESCHED, "up", *flags], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "up --help'." in done.stderr
    return done.stderr


def test_it_starts_runs_pods_and_stops(up: Callable[..., Up]) -> None:
    """It says where it is and what to type; a pod runs on one of the nodes; Ctrl-C stops it without an error."""
    cluster = up("--nodes=2", "--node-cpu=3", "--node-memory=5Gi")
    assert f"export KUBECONFIG={cluster.kubeconfig}" in cluster.out
    assert "kubectl get nodes" in cluster.out
    assert cluster.err.startswith(f"  API server on {cluster.url}\n")
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0
    assert cluster.names("nodes") == ["node-1", "node-2"]
    capacity = cluster.call("GET", "/api/v1/nodes/node-1")["status"]["capacity"]
    assert (capacity["cpu"], capacity["memory"]) == ("3", "5Gi")
    cluster.run_pod("one")
    assert cluster.stop() == 0
    assert "Traceback" not in cluster.err


def test_what_it_says_is_in_one_piece(up: Callable[..., Up]) -> None:
    """The log, in which nothing is wrong, does not cut through what there is."""
    port = free_port()
    cluster = up(f"--secure-port={port}", "--v=5")
    cluster.run_pod("one")
    lines = cluster.err.splitlines()
    begin = lines.index(f"  API server on {cluster.url}")
    assert lines[begin + 1 : begin + 4] == [
        "  3 nodes, controllers",
        f"  kubeconfig in {cluster.kubeconfig}",
        f"  scheduler of default-scheduler, serving on https://127.0.0.1:{port}",
    ]
    assert [line for line in lines if re.match(r"[EW]\d{4} ", line)] == []


def test_a_configuration_without_the_default_scheduler(up: Callable[..., Up], tmp_path: Path) -> None:
    """It says for whom it schedules, and proposes a pod that it will schedule."""
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(f"{head}profiles: [{{schedulerName: mine}}, {{schedulerName: other}}]\n", "utf-8")
    cluster = up(f"--config={config}")
    assert "  scheduler of mine, other\n" in cluster.err
    warning = 'No profile is named default-scheduler: pods stay Pending unless spec.schedulerName is "mine" or "other"'
    assert warning in cluster.err
    assert "create deployment" not in cluster.out
    assert """--overrides='{"spec": {"schedulerName": "mine"}}'""" in cluster.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("said", ["Generated self-signed cert", "Starting Kubernetes Scheduler", "Ctrl-C stops it."])
def test_a_signal_at_any_time(tmp_path: Path, number: signal.Signals, said: str) -> None:
    """Ctrl-C and SIGTERM end it in order, also while it is still starting."""
    flags = ["--port=0", f"--secure-port={free_port()}", f"--write-kubeconfig={tmp_path / 'c'}"]
    flags += [f"--data-dir={tmp_path / 'data'}", "--v=1"]
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen([*KUBESCHED, "up", *flags], stdout=output, stderr=output) as process,
    ):
        try:
            eventually(lambda: said in log.read_text("utf-8"))
            process.send_signal(number)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert "Traceback" not in log.read_text("utf-8")
    assert sorted(each.name for each in (tmp_path / "data").iterdir()) == ["cluster.db", "identity.json"]


HANGING = """import kubesched

class Hangs(kubesched.Plugin):
    name = "Hangs"

    def __init__(self, *given):
        while True:
            pass

    def filter(self, state, pod, node):
        pass
"""


@pytest.mark.parametrize("text", ["while True:\n    pass\n", HANGING], ids=["import", "init"])
def test_a_signal_while_a_plugin_hangs_at_the_start(tmp_path: Path, text: str) -> None:
    """Ctrl-C and SIGTERM interrupt a plugin that never finishes being imported or made."""
    begun = tmp_path / "begun"
    (tmp_path / "hangs.py").write_text(text.replace("while True:", f"while open({str(begun)!r}, 'w'):"))
    flags = ["--port=0", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'c'}", f"--plugin={tmp_path / 'hangs.py'}"]
    with subprocess.Popen([*KUBESCHED, "up", *flags, "--enable=Hangs"], stderr=subprocess.PIPE) as process:
        try:
            eventually(begun.exists)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) in (1, 130)
        finally:
            process.kill()


def test_a_signal_while_controllers_have_much_to_do(up: Callable[..., Up]) -> None:
    """The end does not wait for the pods of a ReplicaSet that has more than there will ever be."""
    cluster = up()
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    spec = {"replicas": 2**31 - 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "endless"}, "spec": spec}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    began = time.monotonic()
    cluster.call("POST", path, body)
    eventually(lambda: cluster.call("GET", f"{path}/endless")["status"].get("replicas", 0) >= 20_000)
    creating = time.monotonic() - began
    ended = time.monotonic()
    assert cluster.stop(signal.SIGTERM) == 0
    assert time.monotonic() - ended < creating
    assert "Traceback" not in cluster.err


def test_a_plugin_in_a_folder_is_loaded_anew_when_it_changes(up: Callable[..., Up], tmp_path: Path) -> None:
    """The next pod is judged by the rule as it is now, in the same cluster."""
    rule = tmp_path / "plugins/rule.py"
    rule.parent.mkdir()
    text = "import kubesched\n\n@kubesched.filter\ndef rule(pod, node):\n    return node.name == 'node-{}'\n"
    rule.write_text(text.format(1))
    cluster = up("--nodes=3", f"--plugin-dir={rule.parent}", "--enable=rule")
    cluster.run_pod("first")
    rule.write_text(text.format(3))
    eventually(lambda: '"Plugins have changed, restarting"' in cluster.err)
    cluster.run_pod("second")
    assert [cluster.node_of(name) for name in ("first", "second")] == ["node-1", "node-3"]


def test_an_extender_in_a_process_of_its_own(up: Callable[..., Up], tmp_path: Path) -> None:
    """The example's server and its configuration: pods go to the worker of their number, and one has none."""
    port = free_port()
    text = (INDEX / "index-extender.yaml").read_text("utf-8")
    assert ":10261/" in text
    (tmp_path / "config.yaml").write_text(text.replace(":10261/", f":{port}/"))
    extender = subprocess.Popen([sys.executable, INDEX / "index_extender.py", f"--port={port}"])
    try:
        eventually(lambda: answers(port))
        cluster = up("--nodes=2", "--node-name-format=worker{:02}.home.local", f"--config={tmp_path}/config.yaml")
        for sample in yaml.safe_load_all((INDEX / "samples.yaml").read_text("utf-8")):
            cluster.call("POST", "/api/v1/namespaces/default/pods", sample)
        eventually(lambda: "2 number does not match" in json.dumps(cluster.call("GET", "/api/v1/events")))
        eventually(lambda: all(cluster.phase(name) == "Running" for name in ("sample-01", "sample-02")))
        nodes = [cluster.node_of(f"sample-0{number}") for number in (1, 2, 3)]
        assert nodes == ["worker01.home.local", "worker02.home.local", ""]
    finally:
        extender.kill()
        extender.wait()


def test_with_a_data_directory_the_next_start_finds_everything(up: Callable[..., Up], tmp_path: Path) -> None:
    """Killed without warning and started again: the same nodes, the same pod, running, and a working cluster."""
    folder = f"--data-dir={tmp_path / 'data'}"
    first = up("--nodes=2", "--node-name-format=worker{:02}.home.local", folder)
    first.run_pod("one")
    before = first.call("GET", "/api/v1/namespaces/default/pods/one")
    assert first.stop(signal.SIGKILL) != 0
    second = up(folder)
    assert second.names("nodes") == ["worker01.home.local", "worker02.home.local"]
    after = second.call("GET", "/api/v1/namespaces/default/pods/one")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["podIP"] == before["status"]["podIP"]
    second.run_pod("two")
    two = second.call("GET", "/api/v1/namespaces/default/pods/two")
    assert two["status"]["podIP"] != after["status"]["podIP"]


def test_a_port_in_use(tmp_path: Path) -> None:
    """It says which port and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(f"--port={port}", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'c'}")
    assert "stopping" not in said
    assert f"cannot listen on 127.0.0.1:{port}: it is in use; choose another --port, or --port=0" in said


async def test_a_default_port_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside another cluster and scheduler free ports are used, told; a second one still notices the first."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = ["--ui=false", f"--write-kubeconfig={tmp_path / 'kubeconfig'}"]
        first, second = _with_default_ports(port, flags), _with_default_ports(port, flags)
        setup = prepare_scheduler(first, first.logging().logger())
        cluster = LocalCluster(first, setup.log)
        try:
            await cluster.start()
            _announce(cluster, setup, first, 0.0, "")
            said = capsys.readouterr().err
            assert f"API server on {cluster.server.url} (port {port} is in use)\n" in said
            own = first.serving.secure_port
            assert f"serving on https://127.0.0.1:{own} (port {port} is in use)\n" in said
            assert setup.socket is not None
            assert setup.socket.getsockname()[1] == own != port != cluster.server.port
            with pytest.raises(SetupError, match=f"a cluster is running already on {cluster.server.url}"):
                await asyncio.to_thread(asyncio.run, LocalCluster(second, setup.log).start())
        finally:
            await cluster.stop()
            if setup.socket is not None:
                setup.socket.close()


def _with_default_ports(port: int, flags: list[str]) -> UpOptions:
    options = UpOptions()
    assert parse(flags, options).problems == []
    options.cluster.port = options.serving.secure_port = port
    return options


async def test_without_a_scheduler_its_port_is_free(tmp_path: Path) -> None:
    """`kubesched run --kubeconfig=FILE`, as `up --no-scheduler` suggests, finds the default port free."""
    options = _with_default_ports(free_port(), ["--no-scheduler"])
    port = options.serving.secure_port
    assert prepare_scheduler(options, options.logging().logger()).socket is None
    socket.create_server(("127.0.0.1", port)).close()


def test_a_second_cluster_leaves_the_first_ones_kubeconfig_alone(tmp_path: Path) -> None:
    """The scheduler's port is taken: it says what to do, and the file that the first cluster wrote is as it was."""
    (tmp_path / "c").write_text("of the first", "utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ("--bind-address=127.0.0.1", f"--secure-port={port}", f"--write-kubeconfig={tmp_path / 'c'}")
        said = refused("--port=0", *flags)
    assert f"127.0.0.1:{port}: Address already in use; choose another --secure-port or" in said
    assert (tmp_path / "c").read_text("utf-8") == "of the first"


async def test_the_usual_kubeconfig_stays_with_the_cluster_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second cluster takes another file and says so; when the first has ended, its file is free."""
    monkeypatch.setenv("HOME", str(tmp_path))
    options = UpOptions()
    assert parse(["--port=0"], options).problems == []
    first, second = (LocalCluster(options, options.logging().logger()) for _ in range(2))
    usual = tmp_path / ".kube/kubesched.config"
    try:
        await first.start()
        await second.start()
        assert first.write_kubeconfig() == usual
        other = usual.with_name(f"kubesched-{second.server.port}.config")
        # In a thread, because it is this one in which the first cluster answers.
        assert await asyncio.to_thread(second.write_kubeconfig) == other
        assert f"{usual} belongs to another running cluster" in capsys.readouterr().err
    finally:
        await first.stop()
    try:
        assert second.write_kubeconfig() == usual
    finally:
        await second.stop()


def test_the_configuration_can_be_written(tmp_path: Path) -> None:
    """--write-config-to writes what would be used, and starts nothing."""
    out = tmp_path / "config.yaml"
    assert start([f"--write-config-to={out}", "--secure-port=0"]) == 0
    assert "kind: KubeSchedulerConfiguration" in out.read_text("utf-8")


def test_a_data_directory_of_another_version(tmp_path: Path) -> None:
    """A folder that this version cannot read is named, and left alone."""
    (tmp_path / "cluster.db").write_bytes(b"not a database, but for all we know somebody's work")
    said = refused("--port=0", "--secure-port=0", f"--data-dir={tmp_path}")
    assert f"--data-dir: {tmp_path}" in said
    assert (tmp_path / "cluster.db").read_bytes().startswith(b"not a database")


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a file with a mistake are errors that name the file and the field, before anything starts."""
    common = ("--port=0", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'c'}", f"--data-dir={tmp_path / 'data'}")
    said = refused("--config=no-such.yaml", *common)
    assert said.splitlines()[0] == "Error: no-such.yaml: No such file or directory"
    assert not (tmp_path / "data").exists()
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n", "utf-8"
    )
    assert "parallelism" in refused(f"--config={config}", *common)


def test_objects_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file is named, in the words that a missing configuration has."""
    said = refused("--port=0", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'c'}", "--from=no-such.yaml")
    assert said.splitlines()[0] == "Error: --from: no-such.yaml: No such file or directory"
    wrong = tmp_path / "nodes.yaml"
    wrong.write_text("{apiVersion: v1, kind: Node, metadata: {name: Not_A_Name}}", "utf-8")
    said = refused("--port=0", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'c'}", f"--from={wrong}")
    assert said.startswith(f"Error: --from: {wrong}: ")
    assert 'Invalid value: "Not_A_Name"' in said


def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path) -> None:
    """The place is named."""
    (tmp_path / "file").write_text("", "utf-8")
    said = refused("--port=0", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'file' / 'config'}")
    assert "--write-kubeconfig:" in said


def test_a_configuration_names_a_kubeconfig_that_is_not_there(up: Callable[..., Up], tmp_path: Path) -> None:
    """The embedded cluster is the one to schedule, whatever clientConnection says: configurations can be tried."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n",
        "utf-8",
    )
    cluster = up(f"--config={config}")
    cluster.run_pod("one")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--port=70000"], "--port 70000 must be between 0 and 65535"),
        (["--nodes=-1"], "--nodes -1 must be between 0 and 100000"),
        (["--node-cpu=many"], '--node-cpu "many" is not a quantity'),
        (["--node-cpu=-1m"], '--node-cpu "-1m" must not be negative'),
        (["--node-memory=-1Gi"], '--node-memory "-1Gi" must not be negative'),
        (["--node-pods=-1"], "--node-pods -1 must not be negative"),
        (["--devices=gpu.example.com"], '--devices: "gpu.example.com" needs a number of devices'),
        (["--pod-run-time=-5s"], "--pod-run-time -5s must not be negative"),
        (["--node-name-format=node"], "has no {} for the number"),
        (["--node-name-format={:099999999999}"], "is not a format"),
        (["--node-name-format={.x}"], "is not a format"),
        (["--node-name-format=Node-{}"], '"Node-1" is not a valid node name'),
        (["--node-name-format={nodes}"], "is not a format"),
        (["--node-cpus=3"], "unknown flag: --node-cpus; did you mean --node-cpu"),
        (["--pod-start-delay=soon"], "--pod-start-delay"),
        (["--zones=-1"], "--zones -1 must not be negative"),
        (["--node-labels=disk=s d"], '--node-labels: Invalid value: "s d"'),
        (["--node-taints=spot"], '--node-taints: "spot" is not a taint; write key=value:Effect'),
        (["--node-taints=s p:NoSchedule"], '--node-taints: "s p:NoSchedule": Invalid value: "s p"'),
    ],
)
def test_wrong_flags(flags: list[str], problem: str) -> None:
    """Each mistake is reported with what to write instead."""
    assert any(problem in each for each in parse(flags, UpOptions()).problems)


@pytest.mark.parametrize("flag", ["--master=https://elsewhere", "--kubeconfig=elsewhere"])
def test_flags_that_name_another_cluster(flag: str) -> None:
    """The scheduler works on the cluster that is started with it, and says so to who wants another."""
    options = UpOptions()
    assert parse([flag], options).problems == []
    name = flag.partition("=")[0]
    assert list(options.warnings()) == [
        f"{name} has no effect: the scheduler always uses the cluster that is started here"
    ]


def test_it_listens_on_loopback() -> None:
    """The scheduler's port is on loopback too, unless a flag says otherwise."""
    options = UpOptions()
    assert options.serving.bind_address == "127.0.0.1"
    assert parse(["--bind-address=0.0.0.0"], options).problems == []
    assert options.serving.bind_address == "0.0.0.0"


def said(*words: str) -> str:
    """What `up` prints for a question about itself."""
    done = subprocess.run([*KUBESCHED, "up", *words], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stderr == ""
    return done.stdout


def test_the_short_help_has_the_flags_of_the_cluster() -> None:
    """It fits on two screens, and names the long one."""
    help_text = said("--help")
    assert re.search(r"--data-dir string +Folder to store the cluster in\n", help_text)
    assert "--leader-elect" not in help_text
    assert "kubesched up --help-all" in help_text or "up --help-all" in help_text
    assert len(help_text.splitlines()) < 90


def test_the_long_help_lists_all_flags() -> None:
    """Those of the cluster first, then all of the daemon's."""
    help_text = said("--help-all")
    assert help_text.index("--node-memory") < help_text.index("--leader-elect")
    assert re.search(r"--data-dir string +Folder to store the cluster in\. ", help_text)


def test_the_version() -> None:
    """--version prints it and starts nothing."""
    assert re.fullmatch(r"Kubernetes v1\.36\.0\+kubesched\.[\w.]+\n", said("--version"))


async def nodes_of(*flags: str) -> list[dict[str, Any]]:
    """The nodes that a cluster starts with."""
    options = UpOptions()
    assert parse(["--port=0", *flags], options).problems == []
    cluster = LocalCluster(options, options.logging().logger())
    try:
        await cluster.start()
        return [record.load() for record in cluster.server.api.store.records("/nodes")]
    finally:
        await cluster.stop()


async def test_zones_labels_and_taints() -> None:
    """Nodes are in the zones in turn, and all have the labels and taints."""
    nodes = await nodes_of(
        "--nodes=3",
        "--zones=2",
        "--node-labels=disk=ssd,team=a",
        "--node-taints=dedicated=batch:NoSchedule,spot:NoExecute",
    )
    labels = [node["metadata"]["labels"] for node in nodes]
    assert [each["topology.kubernetes.io/zone"] for each in labels] == ["zone-1", "zone-2", "zone-1"]
    assert {(each["disk"], each["team"]) for each in labels} == {("ssd", "a")}
    wanted = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}, {"key": "spot", "effect": "NoExecute"}]
    assert all([taint for taint in wanted if taint in node["spec"]["taints"]] == wanted for node in nodes)


async def test_nodes_from_files(tmp_path: Path) -> None:
    """-f can be repeated; the files' nodes take the place of the default ones, and --nodes adds some if given."""
    for name, cpu in (("big", 64), ("small", 1)):
        text = f'apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{capacity: {{cpu: "{cpu}"}}}}\n'
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    files = (f"-f={tmp_path}/big.yaml", "-f", f"{tmp_path}/small.yaml")
    assert [node["metadata"]["name"] for node in await nodes_of(*files)] == ["big", "small"]
    more = await nodes_of(*files, "--nodes=1")
    assert [(node["metadata"]["name"], node["status"]["capacity"]["cpu"]) for node in more] == [
        ("big", "64"),
        ("node-1", "4"),
        ("small", "1"),
    ]


def test_without_a_scheduler_pods_wait_for_another(up: Callable[..., Up], tmp_path: Path) -> None:
    """--no-scheduler says how to start one; a second process schedules, and a configuration is refused."""
    cluster = up("--nodes=1", "--no-scheduler")
    assert f"no scheduler: start one with kubesched run --kubeconfig={cluster.kubeconfig}\n" in cluster.err
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    cluster.call(
        "POST", "/api/v1/namespaces/default/pods", {**pod, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    )
    with pytest.raises(urllib.error.HTTPError, match="400"):
        cluster.call("POST", "/api/v1/schedulerconfiguration", {"profiles": []})
    assert cluster.phase("one") == "Pending"
    command = [*KUBESCHED, "run", f"--kubeconfig={cluster.kubeconfig}", "--secure-port=0", "--leader-elect=false"]
    with (tmp_path / "scheduler").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as scheduler:
        try:
            eventually(lambda: cluster.phase("one") == "Running")
        finally:
            scheduler.terminate()
    assert cluster.stop() == 0


async def test_a_second_cluster_says_that_one_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address, its kubeconfig, and how to start another one, although the scheduler's port is in use too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    options = UpOptions()
    assert parse(["--port=0"], options).problems == []
    first = LocalCluster(options, options.logging().logger())
    try:
        await first.start()
        path = first.write_kubeconfig()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            flags = (f"--port={first.server.port}", f"--secure-port={taken.getsockname()[1]}")
            said = await asyncio.to_thread(refused, *flags, "--bind-address=127.0.0.1")
    finally:
        await first.stop()
    assert f"a cluster is running already on {first.server.url}. Use it with export KUBECONFIG={path}" in said


@pytest.mark.parametrize("exported", [False, True])
async def test_a_cluster_with_another_kubeconfig_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: bool
) -> None:
    """A second cluster on the port of one with another --write-kubeconfig says that it runs, and finds $KUBECONFIG."""
    monkeypatch.setenv("HOME", str(tmp_path))
    options = UpOptions()
    path = tmp_path / "elsewhere"
    assert parse(["--port=0", f"--write-kubeconfig={path}"], options).problems == []
    first = LocalCluster(options, options.logging().logger())
    try:
        await first.start()
        assert first.write_kubeconfig() == path
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{path}" if exported else "")
        flags = (f"--port={first.server.port}", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'second'}")
        said = await asyncio.to_thread(refused, *flags)
    finally:
        await first.stop()
    use = f"export KUBECONFIG={path}" if exported else "the kubeconfig that it has written"
    assert f"a cluster is running already on {first.server.url}. Use it with {use}, stop it, or start a second" in said


async def test_a_running_clusters_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    """A second cluster on another port that is to write the same file is refused, until the first has ended."""
    options = UpOptions()
    path = tmp_path / "kubeconfig"
    assert parse(["--port=0", f"--write-kubeconfig={path}"], options).problems == []
    first, second = (LocalCluster(options, options.logging().logger()) for _ in range(2))
    try:
        await first.start()
        await second.start()
        first.write_kubeconfig()
        before = path.read_bytes()
        with pytest.raises(SetupError, match=f"belongs to the cluster that is running on {first.server.url}; choose"):
            await asyncio.to_thread(second.write_kubeconfig)
        assert path.read_bytes() == before
        await first.stop()
        assert await asyncio.to_thread(second.write_kubeconfig) == path
        assert path.read_bytes() != before
    finally:
        await second.stop()
        await first.stop()


async def test_kubeconfigs_of_former_clusters_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the usual file, those whose cluster does not run go at the next start, and its own at the end."""
    monkeypatch.setenv("HOME", str(tmp_path))
    options = UpOptions()
    assert parse(["--port=0"], options).problems == []
    first, second = (LocalCluster(options, options.logging().logger()) for _ in range(2))
    try:
        await first.start()
        await second.start()
        usual = first.write_kubeconfig()
        old, unrelated = usual.with_name("kubesched-1.config"), usual.with_name("config")
        old.write_text(usual.read_text("utf-8").replace(str(first.server.port), "1"), "utf-8")
        unrelated.write_text("of another cluster", "utf-8")
        other = await asyncio.to_thread(second.write_kubeconfig)
        assert (old.exists(), unrelated.exists(), other.exists()) == (False, True, True)
    finally:
        await second.stop()
        await first.stop()
    assert sorted(each.name for each in usual.parent.iterdir()) == ["config", "kubesched.config"]


def test_decisions_are_served_logged_annotated_and_in_events(up: Callable[..., Up], tmp_path: Path) -> None:
    """`up` keeps decisions by itself, and writes them wherever its flags say; the administrator may read all of it."""
    port = free_port()
    flags = ("--explain-in-events", "--annotate-results", "--decision-log=log.jsonl", "--decision-db=decisions.db")
    cluster = up(f"--secure-port={port}", *flags)
    cluster.run_pod("web")
    key = "kube-scheduler-simulator.sigs.k8s.io/selected-node"
    pod = "/api/v1/namespaces/default/pods/web"
    runner_up = re.compile(r"(?=.*runner-up node-).*3 of 3 nodes fit", re.DOTALL)
    eventually(lambda: key in cluster.call("GET", pod)["metadata"].get("annotations", {}))
    assert cluster.call("GET", pod)["metadata"]["annotations"][key] == cluster.node_of("web")
    api, cluster.url = cluster.url, f"https://127.0.0.1:{port}"
    (attempt,) = cluster.call("GET", "/debug/scheduling/pods/default/web")["attempts"]
    cluster.url = api
    assert (attempt["node"], attempt["binding"], len(attempt["scores"])) == (cluster.node_of("web"), "bound", 3)
    events = "/apis/events.k8s.io/v1/events"
    eventually(lambda: any(runner_up.search(each["note"]) for each in cluster.call("GET", events)["items"]))
    assert cluster.stop() == 0
    assert load(tmp_path / "log.jsonl") == load(tmp_path / "decisions.db")
    assert [each.pod for each in load(tmp_path / "decisions.db", "default", "web")] == ["web"]


def test_a_decision_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """The flag and the file are named, before anything is scheduled."""
    command = [*KUBESCHED, "up", "--port=0", "--secure-port=0", f"--write-kubeconfig={tmp_path / 'k'}"]
    done = subprocess.run(
        [*command, "--decision-log=/nowhere/log"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert "--decision-log: /nowhere/log cannot be written: No such file or directory" in done.stderr


PERMIT = """
import kubesched
from kubesched import Code, Status


class Hold(kubesched.Plugin):
    name = "Hold"

    def permit(self, state, pod, node_name):
        return (Status(Code.WAIT), 600.0) if pod.name == "held" else None
"""
SECOND_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}, {schedulerName: other}]
"""


def test_explain_uses_the_configuration_and_the_queue_of_the_scheduler(up: Callable[..., Up], tmp_path: Path) -> None:
    """Its profiles are known, a plugin that is missing here is named, and so is who holds a pod at Permit."""
    (tmp_path / "hold.py").write_text(PERMIT)
    (tmp_path / "config.yaml").write_text(SECOND_PROFILE)
    cluster = up(f"--secure-port={free_port()}", "--config=config.yaml", "--plugin=hold.py", "--enable=Hold")
    big = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "64"}}}
    for name, spec in (("held", {}), ("second", {"schedulerName": "other", "containers": [big]})):
        whole = {"containers": [{"name": "main", "image": "nginx"}], **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}
        cluster.call("POST", "/api/v1/namespaces/default/pods", body)

    def explained(*more: str) -> tuple[dict[str, Any], str]:
        asked = CliRunner().invoke(explain, ["--kubeconfig", str(cluster.kubeconfig), "-o", "json", *more])
        return {each["pod"]: each for each in json.loads(asked.stdout)["pods"]}, asked.stderr

    eventually(lambda: explained()[0]["default/held"]["state"] == "waitingAtPermit")
    pods, said = explained()
    assert pods["default/held"]["words"] == "The pod has a node and waits at Permit for Hold."
    assert pods["default/second"]["state"] == "pending"
    assert "the scheduler also uses Hold, not known here, so it may decide otherwise; add --plugin FILE" in said
    pods, said = explained("--plugin", str(tmp_path / "hold.py"))
    assert (pods["default/second"]["beside"], said) == (None, "")  # that is what the scheduler has
    pods, said = explained("--plugin", str(tmp_path / "hold.py"), "--config", str(tmp_path / "config.yaml"))
    assert (pods["default/second"]["beside"]["configuration"], said) == ("scheduler's", "")

    def is_recorded(*more: str) -> bool:
        arguments = ["pod", "free", "--kubeconfig", str(cluster.kubeconfig), "--plugin", str(tmp_path / "hold.py")]
        return "the scheduler's own record" in CliRunner().invoke(explain, [*arguments, *more]).stdout

    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "free"}}
    body["spec"] = {"containers": [{"name": "main", "image": "nginx"}]}
    cluster.call("POST", "/api/v1/namespaces/default/pods", body)
    eventually(is_recorded)  # as the plugin is the scheduler's, nothing is decided otherwise
    assert not is_recorded("--config", str(tmp_path / "config.yaml"))
