"""Service account tokens: signed JWTs, as the TokenRequest API issues them.

The key is made with the first token, because making it takes a while and most test clusters never need it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "https://kubernetes.default.svc.cluster.local"
UNKNOWN = "invalid bearer token"
LEEWAY = 60
"""Seconds by which clocks may differ, as upstream's library has it: a token is accepted so long after its end."""
_BOUND_KINDS = ("pod", "secret", "node")


class TokenError(ValueError):
    """A token that is not valid. The text is upstream's if it says more than that the token is wrong."""


class BoundObject(NamedTuple):
    """An object by its name and UID."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says about its bearer."""

    namespace: str
    account: str
    account_uid: str
    id: str = ""
    bound: Mapping[str, BoundObject] = field(default_factory=dict)
    """What the token is bound to, by kind: pod, secret or node. The token of a pod also names the pod's node."""
    audiences: tuple[str, ...] = (ISSUER,)


class Tokens:
    """Signs and checks tokens."""

    def __init__(self, key_pem: bytes | None = None) -> None:
        self._pem = key_pem
        self._key: rsa.RSAPrivateKey | None = None

    @property
    def key(self) -> rsa.RSAPrivateKey:
        if self._key is None:
            self._key = self._load() if self._pem else rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return self._key

    def _load(self) -> rsa.RSAPrivateKey:
        key = serialization.load_pem_private_key(self._pem or b"", password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TokenError("the signing key is not an RSA key")
        return key

    @property
    def key_pem(self) -> bytes:
        """The signing key, to be kept with a durable store."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def key_id(self) -> str:
        public = self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return _base64(hashlib.sha256(public).digest())

    def public_key(self) -> dict[str, str]:
        """The key that checks tokens, as a JSON Web Key."""
        numbers = self.key.public_key().public_numbers()
        parts = {"n": _base64(_big_endian(numbers.n)), "e": _base64(_big_endian(numbers.e))}
        return {"use": "sig", "kty": "RSA", "kid": self.key_id, "alg": "RS256", **parts}

    def sign(self, claims: Claims, now: float, seconds: int) -> str:
        """A token that is valid from now on for this many seconds."""
        header = {"alg": "RS256", "kid": self.key_id}
        body = msgspec.json.encode(_to_json(claims, int(now), seconds))
        signed = f"{_base64(msgspec.json.encode(header))}.{_base64(body)}"
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def verify(self, token: str, now: float, audiences: tuple[str, ...] = ()) -> Claims:
        """The claims of a valid token for one of these audiences. Raises `TokenError` for any other."""
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenError(UNKNOWN)
        try:
            signature = _unbase64(parts[2])
            self.key.public_key().verify(
                signature, f"{parts[0]}.{parts[1]}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
            header, body = (msgspec.json.decode(_unbase64(part)) for part in parts[:2])
        except (InvalidSignature, binascii.Error, ValueError, msgspec.DecodeError):
            raise TokenError(UNKNOWN) from None
        if header.get("alg") != "RS256" or body.get("iss") != ISSUER:
            raise TokenError(UNKNOWN)
        if not set(body.get("aud") or ()) & set(audiences or (ISSUER,)):
            raise TokenError(UNKNOWN)
        if now < body.get("nbf", 0) - LEEWAY:
            raise TokenError("service account token is not valid yet")
        if now > body.get("exp", 0) + LEEWAY:
            raise TokenError("service account token has expired")
        return _from_json(body)


def _to_json(claims: Claims, now: int, seconds: int) -> dict[str, Any]:
    kubernetes: dict[str, Any] = {
        "namespace": claims.namespace,
        "serviceaccount": {"name": claims.account, "uid": claims.account_uid},
    }
    kubernetes |= {kind: {"name": each.name, "uid": each.uid} for kind, each in claims.bound.items()}
    return {
        "aud": list(claims.audiences),
        "exp": now + seconds,
        "iat": now,
        "iss": ISSUER,
        "jti": str(uuid.uuid4()),
        "kubernetes.io": kubernetes,
        "nbf": now,
        "sub": f"system:serviceaccount:{claims.namespace}:{claims.account}",
    }


def _from_json(body: dict[str, Any]) -> Claims:
    kubernetes = body.get("kubernetes.io") or {}
    account = kubernetes.get("serviceaccount") or {}
    bound = {kind: kubernetes[kind] for kind in _BOUND_KINDS if kubernetes.get(kind)}
    return Claims(
        namespace=kubernetes.get("namespace", ""),
        account=account.get("name", ""),
        account_uid=account.get("uid", ""),
        id=body.get("jti", ""),
        bound={kind: BoundObject(each.get("name", ""), each.get("uid", "")) for kind, each in bound.items()},
        audiences=tuple(body.get("aud") or ()),
    )


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _big_endian(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8)


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
