"""A real etcd and kube-apiserver on loopback, started for a measurement.

The API server writes an audit log of created pods and bindings. It is the clock of every measurement: the timestamps
are the server's own, they cost every program the same, and nothing has to watch pods meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from kubesched.base.certificates import Authority
from kubesched.bench.peers.processes import ChildProcess, free_port
from kubesched.client.connection import Connection, Tls
from kubesched.client.http import HttpClient
from kubesched.client.protocol import ApiError

PARTS = ("etcd", "kube-apiserver", "kube-scheduler")
VARIABLE = "KUBESCHED_E2E_BIN"
READY_SECONDS = 60.0
ADMIN, SCHEDULER = "admin", "system:kube-scheduler"
_TOKENS = {ADMIN: "admin-token", SCHEDULER: "scheduler-token"}
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods", "pods/binding"]}]},
        {"level": "None"},
    ],
}
ADMISSION_OFF = "ServiceAccount,TaintNodesByCondition,Priority"
"""As scheduler_perf has it: there are no controllers here, and pods set their priority themselves."""
API_GROUPS = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3")


class PartsMissingError(FileNotFoundError):
    """Programs of a real control plane were not found. The message says how to get them."""


def find_parts(folder: Path | None) -> Path:
    """The folder with etcd, kube-apiserver and kube-scheduler: the given one, or where `make parts` puts them."""
    named = os.environ.get(VARIABLE)
    places = [folder] if folder else [*([Path(named)] if named else []), Path(".cache/e2e/bin")]
    for place in places:
        if all(os.access(place / part, os.X_OK) for part in PARTS):
            return place.resolve()
    tried = ", ".join(map(str, places))
    raise PartsMissingError(f"no {', '.join(PARTS)} in {tried}; run make parts, or name their folder with --parts")


class ControlPlane:
    """etcd and kube-apiserver. Everything they write is in one folder."""

    def __init__(self, folder: Path, parts: Path, gates: Mapping[str, bool]) -> None:
        self.folder = folder
        self.parts = parts
        self._gates = gates
        self._port, self._etcd_port, self._peer_port = free_port(), free_port(), free_port()
        self.audit_log = folder / "audit.log"
        self._write_credentials()
        self._etcd: ChildProcess | None = None
        self._api_server: ChildProcess | None = None

    def _write_credentials(self) -> None:
        authority = Authority()
        pair = authority.server_pair("kube-apiserver", ("127.0.0.1", "localhost"))
        (self.folder / "ca.crt").write_bytes(authority.certificate_pem)
        (self.folder / "server.crt").write_bytes(pair.certificate)
        (self.folder / "server.key").write_bytes(pair.key)
        (self.folder / "tokens.csv").write_text(
            f'{_TOKENS[ADMIN]},{ADMIN},1,"system:masters"\n{_TOKENS[SCHEDULER]},{SCHEDULER},2\n'
        )
        (self.folder / "audit.json").write_text(json.dumps(_AUDIT_POLICY))

    # --- clients ------------------------------------------------------------------------------------------------------

    def client(self) -> HttpClient:
        """A client that may do everything, without a rate limit."""
        tls = Tls(ca_file=str(self.folder / "ca.crt"))
        connection = Connection(f"https://127.0.0.1:{self._port}", tls, token=_TOKENS[ADMIN])
        return HttpClient(connection, qps=1e6, burst=10**6)

    def kubeconfig(self) -> Path:
        """The kubeconfig file of a scheduler."""
        cluster = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": str(self.folder / "ca.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bench", "cluster": cluster}],
            "users": [{"name": "bench", "user": {"token": _TOKENS[SCHEDULER]}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "current-context": "bench",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    # --- processes ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start both and wait until they serve."""
        self.audit_log.unlink(missing_ok=True)
        self._etcd = ChildProcess("etcd", self._etcd_command(), self.folder / "etcd.log")
        self._api_server = ChildProcess(
            "kube-apiserver", self._api_server_command(), self.folder / "kube-apiserver.log"
        )
        deadline = time.monotonic() + READY_SECONDS
        async with self.client() as client:
            while True:
                self._api_server.check()
                try:
                    await client.request("GET", "/readyz")
                    return
                except (OSError, ApiError):
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(0.1)

    def stop(self) -> None:
        """End both. etcd ends by itself, so that its data can be copied."""
        if self._api_server is not None:
            self._api_server.kill()
        if self._etcd is not None:
            self._etcd.stop()

    def save(self, name: str) -> Path:
        """Keep a copy of the data of a stopped control plane."""
        kept = self.folder / f"saved-{name}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self._data, kept)
        return kept

    def restore(self, saved: Path | None) -> None:
        """Replace the data of a stopped control plane; None removes it."""
        shutil.rmtree(self._data, ignore_errors=True)
        if saved is not None:
            shutil.copytree(saved, self._data)

    @property
    def _data(self) -> Path:
        return self.folder / "etcd"

    def _etcd_command(self) -> list[str | Path]:
        clients, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            self.parts / "etcd",
            f"--data-dir={self._data}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            "--quota-backend-bytes=8589934592",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        ]

    def _api_server_command(self) -> list[str | Path]:
        folder, key = self.folder, self.folder / "server.key"
        gates = ",".join(f"{name}={str(value).lower()}" for name, value in self._gates.items())
        return [
            self.parts / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={folder}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={key}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'server.crt'}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            f"--disable-admission-plugins={ADMISSION_OFF}",
            f"--audit-policy-file={folder / 'audit.json'}",
            f"--audit-log-path={self.audit_log}",
            f"--runtime-config={','.join(f'{group}=true' for group in API_GROUPS)}",
            *([f"--feature-gates={gates}"] if gates else []),
        ]
