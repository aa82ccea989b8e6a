"""Certificates with their keys. Using them needs no cryptography library, which takes long to import; making them does
(`certificates.py`).
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, possibly followed by its authority's, and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class PairError(ValueError):
    """A certificate and key that cannot be used. The message says why and what to do."""


def load_pair(context: ssl.SSLContext, pair: Pair) -> None:
    """Load a certificate and key into a context. Raises `PairError`."""

    def encrypted() -> str:
        raise PairError("the key is encrypted; give it without a passphrase")

    # OpenSSL reads only files. Only this user can read the temporary file, and it is removed at once.
    with tempfile.NamedTemporaryFile(prefix="kubesched-") as file:
        file.write(pair.certificate + b"\n" + pair.key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=encrypted)
        except ssl.SSLError:
            raise PairError("not a certificate and key in PEM form that belong together; check both") from None
