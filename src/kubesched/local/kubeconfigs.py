"""The kubeconfig files of local clusters: which to write, and which belong to a cluster that runs."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from kubesched.apiserver.http_server import HttpServer
from kubesched.client import kubeconfig
from kubesched.client.connection import resolve
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING


def usual() -> Path:
    """The file that a cluster writes unless another running cluster uses it."""
    return Path.home() / ".kube" / "kubesched.config"


def choose(server: HttpServer, log: Logger) -> Path:
    """Return the file to write for a server. Files of former clusters beside it are removed."""
    for path in _others():
        if _running(path, server.url) is None:
            path.unlink(missing_ok=True)
    if _running(usual(), server.url) is None:
        return usual()
    path = usual().with_name(f"kubesched-{server.port}.config")
    log(WARNING, f"{usual()} belongs to another running cluster; the kubeconfig of this one is {path}")
    return path


def running_at(url: str, *given: Path) -> Path | None:
    """The kubeconfig of the cluster that runs at a URL, if it is one of ours, or is given."""
    return next((path for path in (*given, usual(), *_others()) if _running(path) == url), None)


def _others() -> Iterator[Path]:
    yield from usual().parent.glob("kubesched-[0-9]*.config")


def _running(path: Path, own: str = "") -> str | None:
    """The URL of a kubeconfig's cluster if it runs: a server there has a certificate that the file trusts.

    None for a server of this process at the URL `own`, which could not answer meanwhile.
    """
    try:
        known = resolve(kubeconfig.load_file(str(path)))
        trust = ssl.create_default_context(cadata=known.tls.ca_data.decode())
        if known.server == own:
            return None
        host, port = urlsplit(known.server).hostname or "", urlsplit(known.server).port or 443
        with socket.create_connection((host, port), timeout=1) as plain, trust.wrap_socket(plain, server_hostname=host):
            return known.server
    except (OSError, ValueError, kubeconfig.KubeconfigError):
        return None
