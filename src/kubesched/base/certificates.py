"""A certificate authority that signs certificates of servers and clients.

Keys are elliptic-curve keys because they are generated in no time, and a local cluster must start fast.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.base.key_pairs import Pair

YEARS = timedelta(days=3650)
_SKEW = timedelta(hours=1)


class Authority:
    """Signs certificates."""

    def __init__(self, pair: Pair | None = None, *, name: str = "kubesched-ca", validity: timedelta = YEARS) -> None:
        self._validity = validity
        if pair is None:
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._certificate = _self_signed(_name(name), self._key, validity)
        else:
            key = serialization.load_pem_private_key(pair.key, password=None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ValueError("the key of the certificate authority is not an elliptic-curve key")
            self._key = key
            self._certificate = x509.load_pem_x509_certificate(pair.certificate)

    @property
    def pair(self) -> Pair:
        return Pair(self.certificate_pem, _key_pem(self._key))

    @property
    def certificate_pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def server_pair(self, name: str, hosts: Iterable[str]) -> Pair:
        """A certificate for a server with these names and addresses."""
        names = x509.SubjectAlternativeName([_alternative(host) for host in dict.fromkeys(hosts)])
        return self._signed(_name(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client_pair(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate for a client: the common name is the user, organizations are groups."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._signed(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH)

    def sign_request(self, request: bytes, seconds: int) -> bytes:
        """A client's certificate for the subject and key of a request, valid for some seconds; both are PEM."""
        wanted = x509.load_pem_x509_csr(request)
        builder = _builder(wanted.subject, self._certificate.subject, wanted.public_key(), timedelta(seconds=seconds))
        certificate = self._completed(builder, ExtendedKeyUsageOID.CLIENT_AUTH).sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _signed(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None = None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key.public_key(), self._validity)
        builder = self._completed(builder, usage)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))

    def _completed(self, builder: x509.CertificateBuilder, usage: x509.ObjectIdentifier) -> x509.CertificateBuilder:
        """Add what all certificates of servers and clients have."""
        return (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _self_signed(name: x509.Name, key: ec.EllipticCurvePrivateKey, validity: timedelta) -> x509.Certificate:
    return (
        _builder(name, name, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, validity: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + validity)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign,
        crl_sign=sign,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
