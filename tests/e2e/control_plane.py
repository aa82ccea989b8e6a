"""A control plane on loopback: etcd and kube-apiserver, RBAC on, with certificates and tokens made for the occasion."""

from __future__ import annotations

import json
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
from tests.e2e.api import JSON, JSON_TYPE, Api
from tests.e2e.parts import path_of
from tests.e2e.processes import Child, free_port
from tests.e2e.waiting import until

ADMIN, SCHEDULER, NOBODY = "admin-token", "scheduler-token", "nobody-token"
TOKENS = f'{ADMIN},admin,1,"system:masters"\n{SCHEDULER},system:kube-scheduler,2\n{NOBODY},nobody,3\n'
AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "resources": [{"group": "", "resources": ["pods/binding"]}]}, {"level": "None"}],
}
"""The API server writes down every binding, so that a test can see whether a pod was bound twice."""
ADMISSION_OFF = ("ServiceAccount", "TaintNodesByCondition")
"""There is no controller to make service accounts, and no kubelet to make nodes ready."""


class ControlPlane:
    """Starts on entering, is gone on leaving. Everything it writes is in `folder`."""

    def __init__(self, folder: Path, *flags: str, audited: JSON = AUDITED, fsync: bool = False) -> None:
        """`flags` are further ones of the API server; `audited` is what it writes down; `fsync` says whether etcd waits
        for its disk."""
        self.folder = folder
        self._flags = flags
        self._fsync = fsync
        self.port = free_port()
        self.etcd_port, self._peer_port = free_port(), free_port()
        self.etcd_served_at = self.etcd_port
        """Where the API server finds etcd."""
        self._certificates()
        (folder / "tokens.csv").write_text(TOKENS)
        (folder / "audit.json").write_text(json.dumps(audited))
        self.admin = self.api(ADMIN)
        self.children: list[Child] = []

    # --- certificates and credentials ---------------------------------------------------------------------------------

    def _certificates(self) -> None:
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(self.folder / "ca.crt")
        server = self._authority.issue_cert("127.0.0.1", "localhost")
        server.private_key_pem.write_to_path(self.folder / "server.key")
        server.cert_chain_pems[0].write_to_path(self.folder / "server.crt")

    def api(self, token: str = "", port: int = 0) -> Api:
        """A client with a token."""
        return Api(port or self.port, ssl.create_default_context(cafile=self.folder / "ca.crt"), token)

    def kubeconfig(self, *, user: str = "", token: str = "", port: int = 0) -> Path:
        """A kubeconfig file for a user with a certificate, or for whose token it is."""
        if user:
            pair = self._authority.issue_cert("client.invalid", common_name=user)
            pair.private_key_and_cert_chain_pem.write_to_path(self.folder / f"{user.replace(':', '-')}.pem")
            file = str(self.folder / f"{user.replace(':', '-')}.pem")
            credentials = {"client-certificate": file, "client-key": file}
        else:
            credentials = {"token": token}
        cluster = {
            "server": f"https://127.0.0.1:{port or self.port}",
            "certificate-authority": str(self.folder / "ca.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "e2e", "user": credentials}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }
        path = self.folder / f"kubeconfig-{(user or token)[:30].replace(':', '-')}-{port or self.port}"
        path.write_text(json.dumps(config))
        return path

    # --- processes ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start both and wait until they serve."""
        self.start_etcd()
        self.start_api_server()

    def start_etcd(self) -> None:
        """Start etcd, for the first time or again."""
        self.etcd = self.child("etcd", *self._etcd_command())

    def child(self, name: str, *command: str | Path) -> Child:
        """Start a program that ends, at the latest, with this control plane."""
        made = Child(name, command, self.folder / f"{name}.log")
        self.children.append(made)
        return made

    def start_api_server(self) -> None:
        """Start the API server, for the first time or again."""
        self.api_server = self.child("kube-apiserver", *self._api_server_command())
        until(self.is_ready, "kube-apiserver is ready")

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready."""
        self.api_server.running()
        try:
            return self.admin.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        """Kill everything. The API server's own way of stopping takes long, and nothing is worth keeping."""
        for child in reversed(self.children):
            child.kill()

    def compact(self) -> bool:
        """Make etcd forget its history up to now; False if it does not answer."""
        url = f"http://127.0.0.1:{self.etcd_port}/v3"
        try:
            found = self._post(f"{url}/maintenance/status", {})
            self._post(f"{url}/kv/compaction", {"revision": found["header"]["revision"]})
        except OSError:
            return False
        return True

    def _post(self, url: str, body: JSON) -> JSON:
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": JSON_TYPE})
        with urllib.request.urlopen(request, timeout=5) as answer:
            found: JSON = json.load(answer)
            return found

    @contextmanager
    def paused_etcd(self) -> Iterator[None]:
        """Etcd neither answers nor refuses."""
        self.etcd.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.etcd.signal(signal.SIGCONT)

    def _etcd_command(self) -> list[str | Path]:
        clients, peers = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            path_of("etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            *(() if self._fsync else ("--unsafe-no-fsync",)),
            "--log-level=warn",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        ]

    def _api_server_command(self) -> list[str | Path]:
        folder, key = self.folder, self.folder / "server.key"
        return [
            path_of("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self.etcd_served_at}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={folder}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            f"--disable-admission-plugins={','.join(ADMISSION_OFF)}",
            f"--audit-policy-file={folder / 'audit.json'}",
            f"--audit-log-path={folder / 'audit.log'}",
            *self._flags,
        ]

    # --- what the API server wrote down -------------------------------------------------------------------------------

    def bindings(self) -> list[JSON]:
        """All calls of pods/binding that were answered, as audit events."""
        path = self.folder / "audit.log"
        lines = path.read_text().splitlines() if path.exists() else []
        # A killed API server may have left half a line.
        return [json.loads(line) for line in lines if line.endswith("}")]

    def bound_times(self) -> dict[str, int]:
        """For each pod, how many bindings succeeded."""
        times: dict[str, int] = {}
        for event in self.bindings():
            if event["responseStatus"].get("code") == 201:
                key = f"{event['objectRef']['namespace']}/{event['objectRef']['name']}"
                times[key] = times.get(key, 0) + 1
        return times
