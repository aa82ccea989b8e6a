"""Certificates that are shown: made, given, replaced, chosen by name; and what is demanded of connections."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from tests.daemon.serving.support import CLOCK, Log, insecure, pair_of, running

from kubesched.daemon.serving import server as server_module
from kubesched.daemon.serving.preparation import listen
from kubesched.daemon.serving.tls import context as serving_tls
from kubesched.daemon.serving.tls.ciphers import OPENSSL, cipher_string
from kubesched.daemon.serving.tls.context import PairSource, ServingError, ServingTls, TlsSettings
from kubesched.daemon.serving.tls.self_signed import files_in, make_pair, write


async def shown(url: str, name: str = "localhost", context: ssl.SSLContext | None = None) -> x509.Certificate:
    """The certificate that a server presents for a name."""
    host, port = url.removeprefix("https://").split(":")
    made = context or insecure()
    _, writer = await asyncio.open_connection(host, int(port), ssl=made, server_hostname=name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


def names(certificate: x509.Certificate) -> list[str]:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    )


async def test_a_self_made_certificate_can_be_verified() -> None:
    """A client that has the authority can verify a self-signed certificate."""
    pair = make_pair(("127.0.0.1", "10.1.2.3"))
    context = ssl.create_default_context(cadata=pair.certificate.decode())
    async with running(settings=TlsSettings(PairSource(made=pair))) as server:
        assert (await server.get("/healthz", ssl=context)) == (200, "ok")


def test_a_written_key_is_ours_alone(tmp_path: Path) -> None:
    """The pair that --cert-dir keeps is reused, and only its owner may read the key."""
    certificate_file, key_file = files_in(str(tmp_path / "certs"))
    pair = make_pair()
    write(pair, certificate_file, key_file)
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert PairSource(str(certificate_file), str(key_file)).read() == pair
    assert "PRIVATE" not in repr(pair)


async def test_a_replaced_certificate_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read again when they change; a pair that does not match leaves the last one in place."""
    monkeypatch.setattr(serving_tls, "CHECK_PERIOD", 0.0)
    authority = trustme.CA()
    certificate, key = tmp_path / "a.crt", tmp_path / "a.key"

    def put(name: str) -> None:
        pair = pair_of(authority.issue_cert(name))
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    put("one.example.com")
    log = Log()
    async with running(settings=TlsSettings(PairSource(str(certificate), str(key))), log=log) as server:
        assert names(await shown(server.url)) == ["one.example.com"]
        put("two.example.com")
        assert names(await shown(server.url)) == ["two.example.com"]
        key.write_bytes(pair_of(authority.issue_cert("x.example.com")).key)
        assert names(await shown(server.url)) == ["two.example.com"]
    assert "keeping the last ones" in log.text


async def test_certificates_are_chosen_by_name() -> None:
    """SNI: exact names before stars, names given before names in the certificate, else the main certificate."""
    authority = trustme.CA()
    main, star, exact = (pair_of(authority.issue_cert(name)) for name in ("main.org", "*.a.org", "b.a.org"))
    settings = TlsSettings(
        PairSource(made=main), [PairSource(made=star), PairSource(made=exact, names=("B.a.org", "c.org"))]
    )
    async with running(settings=settings) as server:
        wanted = {"x.a.org": "*.a.org", "b.a.org": "b.a.org", "c.org": "b.a.org", "d.org": "main.org"}
        assert {name: names(await shown(server.url, name))[0] for name in wanted} == wanted


async def test_the_lowest_version_is_kept_to() -> None:
    """VersionTLS13 refuses what is older."""
    settings = TlsSettings(PairSource(made=make_pair()), minimum_version="VersionTLS13")
    old = insecure()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with running(settings=settings) as server:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await shown(server.url, context=old)
        await shown(server.url)


async def test_cipher_suites_are_kept_to() -> None:
    """A client that offers none of the suites that are allowed is refused."""
    settings = TlsSettings(PairSource(made=make_pair()), cipher_suites=["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"])
    other, same = insecure(), insecure()
    for context, cipher in ((other, "ECDHE-ECDSA-AES128-GCM-SHA256"), (same, "ECDHE-ECDSA-AES256-GCM-SHA384")):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(cipher)
    async with running(settings=settings) as server:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await shown(server.url, context=other)
        await shown(server.url, context=same)


def test_every_known_suite_is_one_of_openssls() -> None:
    """The table holds names that OpenSSL takes; those of TLS 1.3 need no naming, unknown ones are refused."""
    for name in OPENSSL:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(f"{cipher_string([name])}:@SECLEVEL=0")
    assert cipher_string(["TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]) == "AES128-SHA"
    with pytest.raises(ValueError, match="Cipher suite FOO not supported or doesn't exist"):
        cipher_string(["FOO"])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (TlsSettings(PairSource("/nonexistent.crt", "/nonexistent.key")), "/nonexistent.crt cannot be read: No such"),
        (TlsSettings(PairSource(made=make_pair()), minimum_version="TLS1"), 'unknown tls version "TLS1"'),
        (TlsSettings(PairSource(made=make_pair()), cipher_suites=["FOO"]), "Cipher suite FOO not supported"),
        (TlsSettings(PairSource(made=make_pair()), curves=[99]), "unknown curve 99"),
    ],
)
def test_settings_that_cannot_be_served_with(settings: TlsSettings, problem: str) -> None:
    """What is wrong with files, versions, suites and curves is said at the start."""
    with pytest.raises(ServingError, match=problem):
        ServingTls(settings, None, CLOCK, Log())


def test_one_curve_may_be_chosen() -> None:
    """A single key exchange mechanism is set on every Python that is supported."""
    ServingTls(TlsSettings(PairSource(made=make_pair()), curves=[23]), None, CLOCK, Log())


@pytest.mark.skipif(ssl.OPENSSL_VERSION_INFO >= (3, 5), reason="this OpenSSL knows it")
def test_a_mechanism_that_openssl_lacks() -> None:
    """One that cannot be set is named in the error, with the OpenSSL that does not know it."""
    with pytest.raises(ServingError, match=r"OpenSSL .* does not support X25519MLKEM768 alone; choose another"):
        ServingTls(TlsSettings(PairSource(made=make_pair()), curves=[4588]), None, CLOCK, Log())


def test_listening() -> None:
    """A port is free or taken; all addresses means both families; sharing is by consent."""
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ServingError, match=f"failed to listen on 127.0.0.1:{port}: Address already in use"):
            listen("127.0.0.1", port)
    with listen("0.0.0.0", 0) as every:
        assert every.getsockname()[0] in ("::", "0.0.0.0")
    with listen("127.0.0.1", 0, share_port=True) as one, listen("127.0.0.1", one.getsockname()[1], share_port=True):
        pass


@pytest.mark.parametrize(
    "begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half of the headers"]
)
async def test_a_request_that_never_comes_is_not_awaited(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """A connection without a complete request is closed after a while."""
    monkeypatch.setattr(server_module, "IDLE_SECONDS", 0.2)
    async with running() as server:
        host, port = server.url.removeprefix("https://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=insecure(), server_hostname="localhost")
        try:
            writer.write(begun)
            async with asyncio.timeout(120):
                assert await reader.read() == b""
        finally:
            writer.transport.abort()
