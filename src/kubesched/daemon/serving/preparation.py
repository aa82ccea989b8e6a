"""What of serving can fail: it is done before anything is scheduled, and without the HTTP server, which takes long to
import."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress

from kubesched.client.http import HttpClient
from kubesched.daemon.flags import Options
from kubesched.daemon.flags.declarations import ServingFlags
from kubesched.daemon.serving.auth.client_authorities import Authorities, AuthorityError, ProxyHeaders
from kubesched.daemon.serving.tls import self_signed
from kubesched.daemon.serving.tls.context import PairSource, ServingError, ServingTls, TlsSettings, can_set_curves
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING

BACKLOG = 128
CONFIG_MAP = "configmap/extension-apiserver-authentication in kube-system"
LOOKUP_HINT = (
    "To require authentication configuration lookup to succeed, set --authentication-tolerate-lookup-failure=false"
)


def listening_socket(flags: ServingFlags) -> socket.socket:
    """Bind the port. Raises `ServingError`."""
    try:
        return listen(flags.bind_address, flags.secure_port, share_port=flags.permit_port_sharing)
    except ServingError as error:
        hint = "choose another --secure-port or --bind-address, or --secure-port=0 to serve nothing"
        raise ServingError(f"{error}; {hint}") from None


def tls_settings(flags: ServingFlags, log: Logger) -> TlsSettings:
    """Return the TLS settings, with a self-signed certificate if none is given."""
    others = [PairSource(each.cert_file, each.key_file, names=each.names) for each in flags.tls_sni_cert_key]
    settings = TlsSettings(
        _main_pair(flags, log), others, flags.tls_min_version, flags.tls_cipher_suites, flags.tls_curve_preferences
    )
    if not can_set_curves(settings.curves):
        why = "this Python accepts one key exchange mechanism, not several; OpenSSL's default applies"
        log(WARNING, f"--tls-curve-preferences has no effect: {why}")
    # Building the context once finds missing files, a key that does not match, and unknown names.
    ServingTls(settings, None, _FrozenClock(), log)
    return settings


class _FrozenClock:
    """A clock for a context that is built only to check it."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None: ...


def _main_pair(flags: ServingFlags, log: Logger) -> PairSource:
    if flags.tls_cert_file:
        return PairSource(flags.tls_cert_file, flags.tls_private_key_file)
    addresses = tuple(dict.fromkeys(("127.0.0.1", flags.bind_address)))
    specific = tuple(each for each in addresses if not ipaddress.ip_address(each).is_unspecified)
    made = self_signed.make_pair(specific)
    if not flags.cert_dir:
        log(0, "Generated self-signed cert in-memory")
        return PairSource(made=made)
    certificate_file, key_file = self_signed.files_in(flags.cert_dir)
    if certificate_file.exists() != key_file.exists():
        raise ServingError(f"--cert-dir: {certificate_file} and {key_file} must both be there, or neither")
    if not certificate_file.exists():
        try:
            self_signed.write(made, certificate_file, key_file)
        except OSError as error:
            raise ServingError(f"--cert-dir: {error.filename} cannot be written: {error.strerror}") from None
        log(0, f"Generated self-signed cert ({certificate_file}, {key_file})")
    return PairSource(str(certificate_file), str(key_file))


async def authorities_of(options: Options, api: HttpClient | None, log: Logger) -> Authorities:
    """Load the authorities of client certificates. A failed lookup in the cluster is fatal only if a flag says so."""
    flags = options.authentication
    if not (flags.authentication_skip_lookup or api):
        missing = f"No authentication-kubeconfig provided in order to lookup %s in {CONFIG_MAP}, so %s won't work."
        if not flags.client_ca_file:
            log(WARNING, missing % ("client-ca-file", "client certificate authentication"))
        if not flags.requestheader_client_ca_file:
            what = "request-header client certificate authentication"
            log(WARNING, missing % ("requestheader-client-ca-file", what))
    authorities = Authorities(
        log,
        client_file=flags.client_ca_file,
        proxy_file=flags.requestheader_client_ca_file,
        headers=ProxyHeaders(
            flags.requestheader_username_headers,
            flags.requestheader_uid_headers,
            flags.requestheader_group_headers,
            flags.requestheader_extra_headers_prefix,
            flags.requestheader_allowed_names,
        ),
        cluster=None if flags.authentication_skip_lookup else api,
    )
    try:
        authorities.read_files()
    except AuthorityError as problem:
        raise ServingError(f"unable to load the authorities of client certificates: {problem}") from None
    try:
        await authorities.look_up()
    except AuthorityError as problem:
        if not flags.authentication_tolerate_lookup_failure:
            raise ServingError(f"unable to look up the authorities of client certificates: {problem}") from None
        log(WARNING, f"Error looking up in-cluster authentication configuration: {problem}")
        log(WARNING, "Continuing without authentication configuration. This may treat all requests as anonymous.")
        log(WARNING, LOOKUP_HINT)
    return authorities


def listen(address: str, port: int, *, share_port: bool = False) -> socket.socket:
    """Open a port. An unspecified address means all of IPv4 and IPv6. Raises `ServingError`."""
    unspecified = ipaddress.ip_address(address).is_unspecified
    if unspecified and socket.has_dualstack_ipv6():
        with suppress(OSError):
            return _bound("::", port, share_port, dualstack=True)
        address = "0.0.0.0"  # noqa: S104 - the caller asked for all addresses
    try:
        return _bound(address, port, share_port)
    except OSError as problem:
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        raise ServingError(f"failed to create listener: failed to listen on {where}: {problem.strerror}") from None


def _bound(address: str, port: int, share_port: bool, *, dualstack: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dualstack))
        made.bind((address, port))
        made.listen(BACKLOG)  # who connects before the server is loaded waits for it
    except OSError:
        made.close()
        raise
    return made
