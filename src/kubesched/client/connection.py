"""How to reach an API server, from a kubeconfig, a service account or a bare address.

The order is kube-scheduler's: the given file, the given address, the service account of the pod it runs in. Where
kube-scheduler would then fail, the files in KUBECONFIG are read as kubectl reads them.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from kubesched.client.kubeconfig import (
    ConfigEntry,
    Exec,
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigContext,
    KubeconfigError,
    KubeconfigUser,
    load_file,
    load_files,
)
from kubesched.client.proxy import what_is_wrong

logger = logging.getLogger(__name__)

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class Tls:
    """The authorities to trust and the client certificate. Files may change at run time; data does not."""

    ca_file: str = ""
    ca_data: bytes = b""
    insecure: bool = False
    server_name: str = ""
    certificate_file: str = ""
    certificate_data: bytes = b""
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)

    @property
    def has_certificate(self) -> bool:
        return bool(self.certificate_file or self.certificate_data)


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to impersonate."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything that is needed to send requests: address, TLS, proxy and credentials."""

    server: str
    tls: Tls = Tls()
    namespace: str = "default"
    proxy_url: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: Exec | None = field(default=None, repr=False)
    exec_cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    """The description of the cluster for an exec plugin, if it wants one."""
    impersonate: Impersonation = Impersonation()


# --- where to look ----------------------------------------------------------------------------------------------------


def daemon_connection(
    kubeconfig: str = "",
    master: str = "",
    env: Mapping[str, str] = os.environ,
    *,
    flag: str = "--kubeconfig",
) -> Connection:
    """The connection of a component that is given a kubeconfig or an address, or runs in a pod. `flag` is the name of
    the option for the file, for errors."""
    if kubeconfig:
        return resolve(_load_explicit(kubeconfig, flag), master)
    if master:
        return Connection(server=_server(master, "--master"))
    if "KUBERNETES_SERVICE_HOST" not in env and (listed := env.get("KUBECONFIG")):
        files = load_files(listed.split(os.pathsep))
        if not files.files:
            raise KubeconfigError("", "KUBECONFIG", f"none of {listed!r} exists", "correct it or give --kubeconfig")
        return resolve(files)
    return in_cluster(env)


def _load_explicit(path: str, flag: str) -> Kubeconfig:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise KubeconfigError(path, "", "no such file", f"check the path given with {flag}") from None


def in_cluster(env: Mapping[str, str] = os.environ, folder: str = SERVICE_ACCOUNT) -> Connection:
    """The service account of the pod this runs in."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    hint = "give --kubeconfig or --master, set KUBECONFIG, or run in a pod with a service account"
    if not host or not port:
        problem = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this does not run in a pod"
        raise KubeconfigError("", "", problem, hint)
    token_file, ca_file = f"{folder}/token", f"{folder}/ca.crt"
    try:
        Path(token_file).read_bytes()
    except OSError as error:
        raise KubeconfigError(token_file, "", f"cannot be read: {error.strerror}", hint) from None
    if not Path(ca_file).exists():
        logger.error(
            "%s does not exist: the API server's certificate is verified with the system's authorities", ca_file
        )
        ca_file = ""
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=Tls(ca_file=ca_file),
        namespace=env.get("POD_NAMESPACE") or _text(f"{folder}/namespace") or "default",
        token_file=token_file,
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


# --- from a kubeconfig to a connection --------------------------------------------------------------------------------


def resolve(config: Kubeconfig, master: str = "") -> Connection:
    """The connection that the current context describes. `master` replaces its server."""
    entry = _context(config)
    cluster = _part(config.clusters, entry, "cluster", entry.value.cluster) or ConfigEntry(
        entry.file, "clusters", KubeconfigCluster()
    )
    user = _part(config.users, entry, "user", entry.value.user) or ConfigEntry(entry.file, "users", KubeconfigUser())
    connection = Connection(
        server=_server_of(cluster, master),
        tls=_tls(cluster, user),
        namespace=entry.value.namespace or "default",
        proxy_url=_proxy(cluster),
        impersonate=_impersonation(user),
    )
    if master:
        connection = replace(connection, tls=replace(connection.tls, server_name=""))
    if not connection.server.startswith("https:"):
        # As upstream: credentials are never sent unencrypted.
        return replace(connection, tls=Tls())
    return _with_credentials(connection, cluster, user)


def _context(config: Kubeconfig) -> ConfigEntry[KubeconfigContext]:
    name = config.current_context
    if name in config.contexts:
        return config.contexts[name]
    problem = f"there is no context {name!r}" if name else "is not set"
    hint = f"set it to one of the existing contexts: {', '.join(sorted(config.contexts)) or 'none'}"
    raise KubeconfigError(", ".join(config.files), "current-context", problem, hint)


def _part(
    parts: Mapping[str, ConfigEntry[Any]], context: ConfigEntry[KubeconfigContext], field: str, name: str
) -> ConfigEntry[Any] | None:
    if not name:
        return None
    if name not in parts:
        known = ", ".join(sorted(parts)) or "none"
        raise context.wrong(field, f"there is no {field} {name!r}", f"define it; existing {field}s: {known}")
    return parts[name]


def _server_of(cluster: ConfigEntry[KubeconfigCluster], master: str) -> str:
    server = master or cluster.value.server
    if not server:
        raise cluster.wrong("server", "is not set", "give the API server's address, such as https://10.0.0.1:6443")
    try:
        return _server(server, "--master" if master else "server")
    except KubeconfigError as error:
        if master:
            raise
        raise cluster.wrong("server", error.problem, error.hint) from None


def _server(address: str, place: str) -> str:
    """An address without a scheme means plain HTTP, as upstream."""
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        hint = "give an address such as https://10.0.0.1:6443"
        shown = address.rpartition("@")[2]  # before it there may be a password
        raise KubeconfigError("", place, f"{shown!r} is not an address of an API server", hint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _proxy(cluster: ConfigEntry[KubeconfigCluster]) -> str:
    address = cluster.value.proxy_url
    if not address:
        return ""
    if problem := what_is_wrong(address):
        raise cluster.wrong("proxy-url", problem, "give an address such as http://proxy.example.com:3128")
    return address


def _tls(cluster: ConfigEntry[KubeconfigCluster], user: ConfigEntry[KubeconfigUser]) -> Tls:
    server, client = cluster.value, user.value
    _only_one(cluster, "certificate-authority", server.certificate_authority, server.certificate_authority_data)
    if server.insecure_skip_tls_verify and (server.certificate_authority or server.certificate_authority_data):
        problem = "is set together with a certificate authority, which it would ignore"
        raise cluster.wrong("insecure-skip-tls-verify", problem, "remove one of the two")
    has_certificate = bool(client.client_certificate or client.client_certificate_data)
    if has_certificate:
        _check_client_certificate(user)
    return Tls(
        ca_file=_readable(cluster, "certificate-authority", server.certificate_authority),
        ca_data=_base64(cluster, "certificate-authority-data", server.certificate_authority_data),
        insecure=server.insecure_skip_tls_verify,
        server_name=server.tls_server_name,
        certificate_file=_readable(user, "client-certificate", client.client_certificate),
        certificate_data=_base64(user, "client-certificate-data", client.client_certificate_data),
        key_file=_readable(user, "client-key", client.client_key) if has_certificate else "",
        key_data=_base64(user, "client-key-data", client.client_key_data) if has_certificate else b"",
    )


def _check_client_certificate(user: ConfigEntry[KubeconfigUser]) -> None:
    value = user.value
    _only_one(user, "client-certificate", value.client_certificate, value.client_certificate_data)
    _only_one(user, "client-key", value.client_key, value.client_key_data)
    if not value.client_key and not value.client_key_data:
        raise user.wrong(
            "client-key", "is not set, but a client certificate is", "give its client-key or client-key-data"
        )


def _only_one(entry: ConfigEntry[Any], field: str, file: str, data: str) -> None:
    if file and data:
        raise entry.wrong(field, f"and {field}-data are both set", "keep one of the two")


def _readable(entry: ConfigEntry[Any], field: str, value: str) -> str:
    path = entry.path(value)
    if path:
        try:
            Path(path).read_bytes()
        except OSError as error:
            problem = f"{path!r} cannot be read: {error.strerror}"
            raise entry.wrong(field, problem, "correct the path or make the file readable for this user") from None
    return path


def _base64(entry: ConfigEntry[Any], field: str, value: str) -> bytes:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        hint = "put the PEM text there, encoded with base64 in one line"
        raise entry.wrong(field, f"is not valid base64 ({len(value)} characters)", hint) from None


def _impersonation(user: ConfigEntry[KubeconfigUser]) -> Impersonation:
    value = user.value
    if not value.as_user and (value.as_uid or value.as_groups or value.as_user_extra):
        problem = "is not set, but a UID, groups or extra fields to impersonate are"
        raise user.wrong("as", problem, "say which user to act as")
    return Impersonation(value.as_user, value.as_uid, value.as_groups, value.as_user_extra)


def _with_credentials(
    connection: Connection, cluster: ConfigEntry[KubeconfigCluster], user: ConfigEntry[KubeconfigUser]
) -> Connection:
    value = user.value
    if value.token and (value.username or value.password):
        raise user.wrong("token", "and username are both set", "keep one way to authenticate")
    if value.auth_provider is not None:
        name = str(value.auth_provider.get("name", ""))
        hint = "use an exec plugin instead, as Kubernetes recommends"
        raise user.wrong("auth-provider", f"{name!r} is not supported", hint)
    connection = replace(
        connection,
        token=value.token,
        token_file=_readable(user, "tokenFile", value.token_file),
        username=value.username,
        password=value.password,
    )
    identified = value.token or value.token_file or value.username or connection.tls.has_certificate
    if value.exec is None or identified:
        return connection
    command = _checked_exec(user, value.exec)
    return replace(connection, exec=command, exec_cluster=_exec_cluster(connection, cluster.value, command))


def _checked_exec(user: ConfigEntry[KubeconfigUser], command: Exec) -> Exec:
    if not command.command:
        raise user.wrong("exec.command", "is not set", "name the program that returns credentials")
    if command.api_version not in EXEC_VERSIONS:
        problem = f"{command.api_version!r} is not known"
        raise user.wrong("exec.apiVersion", problem, f"use one of: {', '.join(EXEC_VERSIONS)}")
    if any(not variable.name for variable in command.env):
        raise user.wrong("exec.env", "has an entry without a name", "name the variable or remove the entry")
    mode = command.interactive_mode or ("IfAvailable" if command.api_version == EXEC_VERSIONS[1] else "")
    if mode not in INTERACTIVE_MODES:
        raise user.wrong(
            "exec.interactiveMode", f"{mode!r} is not known", f"use one of: {', '.join(INTERACTIVE_MODES)}"
        )
    path = user.path(command.command) if os.sep in command.command else command.command
    return structs.replace(command, command=path, interactive_mode=mode)


def _exec_cluster(connection: Connection, cluster: KubeconfigCluster, command: Exec) -> Mapping[str, Any] | None:
    if not command.provide_cluster_info:
        return None
    tls = connection.tls
    ca = tls.ca_data or (Path(tls.ca_file).read_bytes() if tls.ca_file else b"")
    config = next((item.extension for item in cluster.extensions if item.name == EXEC_EXTENSION), None)
    facts = {
        "server": connection.server,
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.insecure,
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "proxy-url": connection.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    return {**{name: value for name, value in facts.items() if value}, "config": config}
