"""The kubeconfig files of local clusters: which to write, and which belong to a cluster that runs."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from kubesched.apiserver.health import BUILD
from kubesched.apiserver.http_server import HttpServer
from kubesched.client import kubeconfig
from kubesched.client.connection import resolve
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING

TIMEOUT = 5.0
MAX_VERSION = 4096
"""Bytes of a version to read."""


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


def running_at(url: str, given: str = "") -> Path | None:
    """The kubeconfig of the cluster that runs at a URL: the file that is given, one of $KUBECONFIG, or a usual one."""
    named = (given, *os.environ.get("KUBECONFIG", "").split(os.pathsep))
    paths = (*(Path(each).expanduser() for each in named if each), usual(), *_others())
    return next((path for path in paths if _running(path) == url), None)


def other_cluster(path: Path, server: HttpServer) -> str:
    """The URL of another running cluster that a file belongs to, or an empty string."""
    return _running(path, server.url) or ""


def is_ours(url: str) -> bool:
    """Whether a local cluster runs at a URL, wherever its kubeconfig is. Sends no credentials."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection(urlsplit(url).netloc, timeout=TIMEOUT, context=unverified)
    try:
        connection.request("GET", "/version")
        return BUILD.encode() in connection.getresponse().read(MAX_VERSION)
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


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
        with (
            socket.create_connection((host, port), timeout=TIMEOUT) as plain,
            trust.wrap_socket(plain, server_hostname=host),
        ):
            return known.server
    except (OSError, ValueError, kubeconfig.KubeconfigError):
        return None
