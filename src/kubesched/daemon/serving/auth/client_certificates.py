"""The certificate that a client has shown.

OpenSSL checks it during the handshake, against all authorities that are known. What is left to find out is which of
them it leads to, because a proxy's authority makes no users and a users' authority makes no proxies.

One thing differs from upstream. Go lets a client in with a certificate that nobody known has signed and answers 401;
Python's ssl ends the handshake.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kubesched.daemon.serving.auth.users import UserInfo

UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_DER: Final = 2
"""OpenSSL's number for the binary form, as Python's private module calls for it."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate that has been checked, and the chain that leads from it to an authority, all in DER."""

    chain: tuple[bytes, ...]
    subject: x509.Name

    @property
    def name(self) -> str:
        """The common name."""
        names = self.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[-1].value) if names else ""

    def is_from(self, authorities: Collection[bytes]) -> bool:
        """Whether one of these authorities vouches for it."""
        return any(link in authorities for link in self.chain)

    def user(self) -> UserInfo | None:
        """The user that it names: common name, organizations as groups; None without a name."""
        if not self.name:
            return None
        groups = [str(each.value) for each in self.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        uids = [str(each.value) for each in self.subject.get_attributes_for_oid(UID)]
        digest = f"X509SHA256={hashlib.sha256(self.chain[0]).hexdigest()}"
        return UserInfo(self.name, uids[0] if len(uids) == 1 else "", tuple(groups), {CREDENTIAL_ID: (digest,)})


def shown_certificate(request: web.BaseRequest) -> ClientCertificate | None:
    """The certificate of whoever is at the other end, if one was shown."""
    transport = request.transport
    ssl_object = None if transport is None else transport.get_extra_info("ssl_object")
    if ssl_object is None:
        return None
    chain = verified_chain(ssl_object)
    if not chain:
        return None
    return ClientCertificate(chain, x509.load_der_x509_certificate(chain[0]).subject)


def verified_chain(ssl_object: ssl.SSLObject) -> tuple[bytes, ...]:
    """The checked chain, the client's own certificate first; empty if none was shown."""
    if ssl_object.getpeercert(binary_form=True) is None:
        return ()
    public: Any = getattr(ssl_object, "get_verified_chain", None)
    if public is not None:
        return tuple(public())
    # Before Python 3.13 the same is to be had only from underneath.
    private: Any = ssl_object._sslobj  # type: ignore[attr-defined]
    return tuple(link.public_bytes(_DER) for link in private.get_verified_chain() or ())


def certificates_in(pem: bytes) -> dict[bytes, x509.Certificate]:
    """The certificates of a PEM bundle, by their DER form. Raises ValueError."""
    return {each.public_bytes(Encoding.DER): each for each in x509.load_pem_x509_certificates(pem)}
