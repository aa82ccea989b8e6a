"""A certificate of our own making, for a scheduler that is given none: good for encryption, not for trust."""

from __future__ import annotations

import datetime
import ipaddress
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PAIR_NAME = "kube-scheduler"
VALIDITY = datetime.timedelta(days=365)
HOST = "localhost"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its authority's, and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def self_made(addresses: tuple[str, ...] = ("127.0.0.1",), names: tuple[str, ...] = (HOST,)) -> Pair:
    """A new certificate for these addresses and names, and the authority that signed it and nothing else."""
    stamp = int(time.time())
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name(f"{HOST}-ca@{stamp}")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = [x509.DNSName(name) for name in dict.fromkeys(names)]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in dict.fromkeys(addresses)]  # type: ignore[misc]  # one list for both
    certificate = (
        _builder(_name(f"{HOST}@{stamp}"), authority_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    chain = certificate.public_bytes(encoding) + authority.public_bytes(encoding)
    plain, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Pair(chain, key.private_bytes(encoding, plain, none))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + VALIDITY)
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def in_folder(folder: str) -> tuple[Path, Path]:
    """Where a folder given with ``--cert-dir`` has its certificate and key."""
    return Path(folder, f"{PAIR_NAME}.crt"), Path(folder, f"{PAIR_NAME}.key")


def write(pair: Pair, certificate_file: Path, key_file: Path) -> None:
    """Keep a pair for the next start. Only we may read the key, from the moment at which it exists."""
    certificate_file.parent.mkdir(parents=True, exist_ok=True)
    certificate_file.write_bytes(pair.certificate)
    descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pair.key)
