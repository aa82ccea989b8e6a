"""TLS contexts for the server, rebuilt when certificates or client authorities change.

asyncio keeps the context that a server was started with. So it gets one that delegates each new connection to the
latest context. Certificates and authorities can change while old connections continue.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubesched.base.clock import Clock
from kubesched.base.key_pairs import Pair, PairError, load_pair
from kubesched.base.log import ERROR, Log
from kubesched.client.tls import file_stamp
from kubesched.daemon.serving.auth.client_authorities import Authorities
from kubesched.daemon.serving.tls.ciphers import cipher_string

CHECK_PERIOD: Final = 10.0
"""How often files are checked for changes, in seconds."""

VERSIONS: Final = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
CURVES: Final = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519", 4588: "X25519MLKEM768"}
"""Key exchange mechanisms: Go's numbers, OpenSSL's names."""


class ServingError(Exception):
    """Invalid settings or files that prevent serving."""


@dataclass(frozen=True, slots=True)
class PairSource:
    """The source of a certificate and its key: files, re-read when they change, or memory."""

    certificate_file: str = ""
    key_file: str = ""
    made: Pair | None = None
    names: tuple[str, ...] = ()
    """The server names for this certificate; by default those in it."""

    def read(self) -> Pair:
        if self.made is not None:
            return self.made
        try:
            return Pair(Path(self.certificate_file).read_bytes(), Path(self.key_file).read_bytes())
        except OSError as problem:
            raise ServingError(f"{problem.filename} cannot be read: {problem.strerror}") from None

    @property
    def stamp(self) -> tuple[object, ...]:
        """A value that changes when a file changes."""
        return () if self.made is not None else (file_stamp(self.certificate_file), file_stamp(self.key_file))


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of the flags."""

    main: PairSource
    others: Sequence[PairSource] = ()
    minimum_version: str = ""
    cipher_suites: Sequence[str] = ()
    curves: Sequence[int] = ()


class ServingContext(ssl.SSLContext):
    """A context that delegates to the latest one."""

    def __new__(cls, current: Callable[[], ssl.SSLContext]) -> ServingContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, current: Callable[[], ssl.SSLContext]) -> None:
        self._current = current

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self._current().wrap_bio(*args, **kwargs)


class ServingTls:
    """Builds contexts, and rebuilds them when certificates or authorities have changed."""

    def __init__(self, settings: TlsSettings, authorities: Authorities | None, clock: Clock, log: Log) -> None:
        self._settings = settings
        self._authorities = authorities
        self._clock = clock
        self._log = log
        self._checked_at = clock.monotonic()
        self._state = self._look()
        self._context = self._make()

    def context(self) -> ssl.SSLContext:
        """The context to serve with."""
        return ServingContext(self.current)

    def current(self) -> ssl.SSLContext:
        """Return the latest context. If the files have changed and do not match, the previous one stays in use."""
        if self._is_due() and (state := self._look()) != self._state:
            try:
                self._context = self._make()
                self._log(2, "Reloaded serving certificates")
            except ServingError as problem:
                # The certificate may have been replaced and the key not yet.
                self._log(ERROR, "Failed to reload serving certificates, keeping the last ones", err=problem)
            self._state = state
        return self._context

    def _is_due(self) -> bool:
        now = self._clock.monotonic()
        if self._authorities is not None and self._authorities.version != self._state[0]:
            return True
        if now - self._checked_at < CHECK_PERIOD:
            return False
        self._checked_at = now
        return True

    def _look(self) -> tuple[object, ...]:
        version = 0 if self._authorities is None else self._authorities.version
        return (version, self._settings.main.stamp, *(other.stamp for other in self._settings.others))

    def _make(self) -> ssl.SSLContext:
        main = self._with(self._settings.main.read(), self._settings.main.certificate_file)
        by_name: dict[str, ssl.SSLContext] = {}
        explicit: dict[str, ssl.SSLContext] = {}
        for other in self._settings.others:
            pair = other.read()
            context = self._with(pair, other.certificate_file)
            for name in other.names or _names_in(pair.certificate):
                (explicit if other.names else by_name)[name.lower()] = context
        contexts = by_name | explicit
        if contexts:

            def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
                connection.context = _chosen(contexts, name) or main

            main.sni_callback = choose
        return main

    def _with(self, pair: Pair, name: str) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _version(settings.minimum_version)
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session has no certificate chain, so the user could not be identified.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        if settings.cipher_suites:
            context.set_ciphers(_ciphers(settings.cipher_suites))
        _set_curves(context, settings.curves)
        _load(context, pair, name or "the self-signed certificate")
        if self._authorities is not None and self._authorities.pem.strip():
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=self._authorities.pem.decode("ascii", "ignore"))
        return context


def _version(name: str) -> ssl.TLSVersion:
    if name and name not in VERSIONS:
        raise ServingError(f'unknown tls version "{name}"; use one of {", ".join(VERSIONS)}')
    return VERSIONS.get(name, ssl.TLSVersion.TLSv1_2)


def _ciphers(names: Iterable[str]) -> str:
    try:
        return cipher_string(names)
    except ValueError as problem:
        raise ServingError(str(problem)) from None


def can_set_curves(curves: Sequence[int]) -> bool:
    """Whether Python can set these: before 3.15 it accepts at most one mechanism."""
    return len(curves) < 2 or hasattr(ssl.SSLContext, "set_groups")


def _set_curves(context: ssl.SSLContext, curves: Sequence[int]) -> None:
    if not curves:
        return
    unknown = [number for number in curves if number not in CURVES]
    if unknown:
        raise ServingError(f"unknown curve {unknown[0]}; use one of {', '.join(map(str, CURVES))}")
    names = ":".join(CURVES[number] for number in curves)
    choose: Any = getattr(context, "set_groups", context.set_ecdh_curve)
    try:
        if can_set_curves(curves):
            choose(names)
    except (ValueError, ssl.SSLError):
        raise ServingError(f"{ssl.OPENSSL_VERSION} does not support {names} alone; choose another") from None


def _load(context: ssl.SSLContext, pair: Pair, name: str) -> None:
    try:
        load_pair(context, pair)
    except PairError as problem:
        raise ServingError(f"{name}: {problem}") from None


def _names_in(pem: bytes) -> list[str]:
    certificate = x509.load_pem_x509_certificates(pem)[0]
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


def _chosen(contexts: dict[str, ssl.SSLContext], name: str | None) -> ssl.SSLContext | None:
    """Return the context for a server name: an exact match, or a wildcard for its first label."""
    if not name:
        return None
    lower = name.lower()
    return contexts.get(lower) or contexts.get(f"*.{lower.partition('.')[2]}")
