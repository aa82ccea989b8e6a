"""TLS contexts: which authorities to trust and which client certificate to use, reloaded when their files change.

Certificates are rotated while a scheduler runs. A context cannot be changed while connections use it, so a new one is
made when a file has changed. New connections use it, and old connections are closed in time.
"""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from kubesched.base.clock import Clock
from kubesched.base.key_pairs import Pair, PairError, load_pair
from kubesched.client.connection import Tls

logger = logging.getLogger(__name__)

CHECK_PERIOD = 60.0
"""Seconds between checks whether files have changed."""


class TlsError(OSError):
    """Certificates or keys that cannot be used. The message names them and says what to do."""


class TlsContexts:
    """Provides the current TLS context."""

    def __init__(self, settings: Tls, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._checked_at = float("-inf")
        self._stamp: tuple[object, ...] = ()
        self._pair: Pair | None = None
        self._context: ssl.SSLContext | None = None

    def get(self, key_pair: Pair | None = None) -> ssl.SSLContext:
        """The context with `key_pair` as client certificate, or with the certificate of the connection."""
        if self._context is None or key_pair != self._pair:
            self._renew(key_pair)
        elif self._clock.monotonic() - self._checked_at >= CHECK_PERIOD and self._files_changed():
            try:
                self._renew(key_pair)
            except TlsError as error:
                # A certificate and its key may be in the middle of being replaced.
                logger.error("%s; the previous certificates stay in use", error)
        assert self._context is not None
        return self._context

    def _renew(self, key_pair: Pair | None) -> None:
        stamp = self._stamps()
        self._context = _context(self._settings, key_pair)
        self._pair, self._stamp = key_pair, stamp

    def _files_changed(self) -> bool:
        self._checked_at = self._clock.monotonic()
        return self._stamps() != self._stamp

    def _stamps(self) -> tuple[object, ...]:
        settings = self._settings
        return tuple(
            file_stamp(path) for path in (settings.ca_file, settings.certificate_file, settings.key_file) if path
        )


def file_stamp(path: str) -> object:
    """A value that changes when the file does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _context(settings: Tls, key_pair: Pair | None) -> ssl.SSLContext:
    """Not `ssl.create_default_context`: from Python 3.13 on it refuses the certificate authorities of many clusters."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _trust(context, settings)
    if key_pair is not None:
        _show(context, key_pair, "the exec plugin's answer")
    elif settings.has_certificate:
        _show(context, _own_pair(settings), _described(settings))
    return context


def _trust(context: ssl.SSLContext, settings: Tls) -> None:
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca_data or settings.ca_file:
        name = settings.ca_file or "certificate-authority-data"
        try:
            context.load_verify_locations(cadata=(settings.ca_data or _read(settings.ca_file)).decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError):
            raise TlsError(f"{name} holds no certificate in PEM form; put the cluster's authority there") from None
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def _own_pair(settings: Tls) -> Pair:
    certificate = settings.certificate_data or _read(settings.certificate_file)
    return Pair(certificate, settings.key_data or _read(settings.key_file))


def _described(settings: Tls) -> str:
    certificate = settings.certificate_file or "client-certificate-data"
    return f"{certificate} with {settings.key_file or 'client-key-data'}"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TlsError(f"{path} cannot be read: {error.strerror}; make it readable for this user") from None


def _show(context: ssl.SSLContext, pair: Pair, name: str) -> None:
    try:
        load_pair(context, pair)
    except PairError as problem:
        raise TlsError(f"{name}: {problem}") from None
