"""Building a server, in memory or on a data directory, with its keys."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kubesched.apiserver.admission.admission import AdmissionSettings
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.tokens import Tokens
from kubesched.apiserver.http_server import ClusterIdentity, HttpServer
from kubesched.apiserver.storage.durable import DataDirectoryError, DurableStore
from kubesched.apiserver.storage.store import Store
from kubesched.base.certificates import Authority
from kubesched.base.clock import Clock
from kubesched.base.key_pairs import Pair

_IDENTITY_FILE = "identity.json"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a server."""

    address: str = "127.0.0.1"
    port: int = 0
    data_dir: Path | None = None
    tls: bool = True
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)


class _Keys(msgspec.Struct):
    """The keys of a durable cluster, in a file beside its data."""

    certificate: bytes
    key: bytes
    admin_token: str
    signing_key: bytes


def build_server(options: ServerOptions, clock: Clock | None = None) -> HttpServer:
    """Build a server, not yet started. Raises `DataDirectoryError` for a directory that cannot be used."""
    store: Store = Store() if options.data_dir is None else DurableStore(options.data_dir)
    identity, tokens = _new_keys() if options.data_dir is None else _load_keys(options.data_dir)
    api = ApiServer(
        store,
        clock=clock,
        admission=options.admission,
        tokens=tokens,
        client_ca=identity.authority.certificate_pem.decode(),
        all_roles=True,
    )
    return HttpServer(api, identity, address=options.address, port=options.port, tls=options.tls)


def _new_keys() -> tuple[ClusterIdentity, Tokens]:
    return ClusterIdentity(), Tokens()


def _load_keys(directory: Path) -> tuple[ClusterIdentity, Tokens]:
    path = directory / _IDENTITY_FILE
    try:
        if not path.exists():
            identity, tokens = _new_keys()
            _write(path, identity, tokens)
            return identity, tokens
        keys = msgspec.json.decode(path.read_bytes(), type=_Keys)
        authority = Authority(Pair(keys.certificate, keys.key))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise DataDirectoryError(f"{path}: cannot be used: {error}; choose another --data-dir") from error
    return ClusterIdentity(authority, keys.admin_token), Tokens(keys.signing_key)


def _write(path: Path, identity: ClusterIdentity, tokens: Tokens) -> None:
    pair = identity.authority.pair
    data = msgspec.json.encode(_Keys(pair.certificate, pair.key, identity.admin_token, tokens.key_pem))
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
