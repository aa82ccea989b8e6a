"""The certificate that a client presents.

OpenSSL verifies it during the handshake, against all authorities. The code here finds which authority signed it,
because an authority of proxies does not vouch for users, nor an authority of users for proxies.

One thing differs from upstream. Go accepts a connection with a certificate of an unknown authority and returns 401;
Python's ssl ends the handshake.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kubesched.daemon.serving.auth.users import UserInfo

if TYPE_CHECKING:
    from aiohttp import web

UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_DER: Final = 2
"""OpenSSL's number for the binary form, which Python's private module expects."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A verified certificate: its chain up to an authority, in DER, and its subject."""

    chain: tuple[bytes, ...]
    subject: x509.Name

    @property
    def name(self) -> str:
        """The common name."""
        names = self.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[-1].value) if names else ""

    def is_from(self, authorities: Collection[bytes]) -> bool:
        """Whether one of these authorities signed it."""
        return any(link in authorities for link in self.chain)

    def user(self) -> UserInfo | None:
        """Return the user: the common name, with organizations as groups; None without a common name."""
        if not self.name:
            return None
        groups = [str(each.value) for each in self.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        uids = [str(each.value) for each in self.subject.get_attributes_for_oid(UID)]
        digest = f"X509SHA256={hashlib.sha256(self.chain[0]).hexdigest()}"
        return UserInfo(self.name, uids[0] if len(uids) == 1 else "", tuple(groups), {CREDENTIAL_ID: (digest,)})


def presented_certificate(request: web.BaseRequest) -> ClientCertificate | None:
    """Return the client's certificate, if it presented one."""
    transport = request.transport
    ssl_object = None if transport is None else transport.get_extra_info("ssl_object")
    if ssl_object is None:
        return None
    chain = verified_chain(ssl_object)
    if not chain:
        return None
    return ClientCertificate(chain, x509.load_der_x509_certificate(chain[0]).subject)


def verified_chain(ssl_object: ssl.SSLObject) -> tuple[bytes, ...]:
    """Return the verified chain, the client's own certificate first; empty if the client presented none."""
    if ssl_object.getpeercert(binary_form=True) is None:
        return ()
    public: Any = getattr(ssl_object, "get_verified_chain", None)
    if public is not None:
        return tuple(public())
    # Before Python 3.13 there is no public method for this.
    private: Any = ssl_object._sslobj  # type: ignore[attr-defined]  # private
    return tuple(link.public_bytes(_DER) for link in private.get_verified_chain() or ())


def certificates_in(pem: bytes) -> dict[bytes, x509.Certificate]:
    """Return the certificates of a PEM bundle by their DER form. Raises ValueError."""
    return {each.public_bytes(Encoding.DER): each for each in x509.load_pem_x509_certificates(pem)}
