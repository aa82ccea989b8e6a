"""Self-signed certificates for a scheduler without one: they encrypt, but clients cannot verify them."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from kubesched.base.certificates import Authority
from kubesched.base.key_pairs import Pair
from kubesched.base.private_files import make_folder

PAIR_NAME = "kube-scheduler"
VALIDITY = timedelta(days=365)
HOST = "localhost"


def make_pair(addresses: tuple[str, ...] = ("127.0.0.1",), names: tuple[str, ...] = (HOST,)) -> Pair:
    """Return a new certificate for these addresses and names, followed by the authority made to sign it."""
    stamp = int(time.time())
    authority = Authority(name=f"{HOST}-ca@{stamp}", validity=VALIDITY)
    pair = authority.server_pair(f"{HOST}@{stamp}", (*names, *addresses))
    return Pair(pair.certificate + authority.certificate_pem, pair.key)


def files_in(folder: str) -> tuple[Path, Path]:
    """Return the paths of the certificate and the key in the folder of ``--cert-dir``."""
    return Path(folder, f"{PAIR_NAME}.crt"), Path(folder, f"{PAIR_NAME}.key")


def write(pair: Pair, certificate_file: Path, key_file: Path) -> None:
    """Write a pair for the next start. The key file is created readable only for its owner."""
    make_folder(certificate_file.parent)
    for path, mode, data in ((certificate_file, 0o644, pair.certificate), (key_file, 0o600, pair.key)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
