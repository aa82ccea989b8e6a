"""Paths that are not resources: which methods and media types they take, and what is at an unknown one."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.tokens import Claims
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.store import decode
from kubesched.base.types import JSON

TEXT = "text/plain; charset=utf-8"
MISSING = (404, TEXT, b"404 page not found\n")


@pytest.mark.parametrize("path", ["/nope", "/livez/nope", "/readyz/", "/apis/nope", "/apis/nope/v1/things", "/logs"])
async def test_unknown_pages_are_plain_text(client: LocalClient, path: str) -> None:
    """Outside of the groups that are served, an unknown path has upstream's page, whatever the client accepts."""
    for method in ("GET", "POST"):
        found = await client.send(method, path, headers={"accept": "application/yaml"})
        assert (found.status, found.content_type, found.body) == MISSING


@pytest.mark.parametrize("path", ["/api/v1/nopes", "/apis/apps/v9", "/version/nope"])
async def test_unknown_paths_below_known_ones_are_objects(client: LocalClient, path: str) -> None:
    """Inside of a group that is served, the refusal is a Status."""
    found = await client.send("GET", path)
    assert (found.status, decode(found.body)["kind"]) == (404, "Status")


async def test_the_version_is_json_only(client: LocalClient) -> None:
    """Other media types are refused, in the form that the client accepts, and so are other methods."""
    refused = await client.send("GET", "/version", headers={"accept": "application/yaml"})
    assert (refused.status, refused.content_type) == (406, "application/yaml")
    assert b"Available representations: application/json" in refused.body
    assert (await client.send("GET", "/version", headers={"accept": "text/html, */*"})).status == 200
    assert (await client.send("POST", "/version")).status == 405
    assert (await client.send("HEAD", "/api/v1")).status == 405
    assert (await client.send("GET", "/api/v1", headers={"accept": "application/yaml"})).status == 200
    assert (await client.send("GET", "/api/v1", headers={"accept": "text/html"})).status == 406


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/apis"])
async def test_some_paths_ignore_the_method(client: LocalClient, path: str) -> None:
    """Health, metrics and lists of paths are the same for every method, as upstream."""
    assert (await client.send("POST", path)).status == 200


async def test_checks_have_the_names_that_probes_use(client: LocalClient) -> None:
    """The store's check is called etcd; a check can be left out, and asking for a single one gives no list."""
    single = await client.send("GET", "/readyz/etcd?verbose=")
    assert (single.status, single.body) == (200, b"ok")
    some = await client.send("GET", "/readyz?verbose=&exclude=etcd")
    assert some.body.decode().splitlines() == ["[+]ping ok", "[+]etcd excluded: ok", "readyz check passed"]
    unknown = await client.send("GET", "/readyz?verbose=&exclude=nope")
    assert b'warn: some health checks cannot be excluded: no matches for "nope"' in unknown.body


async def test_tokens_can_be_checked_by_others(api: ApiServer, client: LocalClient) -> None:
    """The published key verifies a service account token, and the configuration says where the key is."""
    headers = {"host": "127.0.0.1:6443"}
    configuration = await client.get("/.well-known/openid-configuration", headers=headers)
    assert configuration["jwks_uri"] == "https://127.0.0.1:6443/openid/v1/jwks"
    answer = await client.send("GET", "/openid/v1/jwks")
    assert answer.content_type == "application/jwk-set+json"
    (key,) = decode(answer.body)["keys"]
    head, body, signature = api.tokens.sign(Claims("default", "default", "u"), 0, 600).split(".")
    assert decode(_bytes(head))["kid"] == key["kid"]
    assert decode(_bytes(body))["iss"] == configuration["issuer"]
    signed = f"{head}.{body}".encode()
    _public(key).verify(_bytes(signature), signed, padding.PKCS1v15(), hashes.SHA256())
    assert (await client.send("GET", "/openid/v2")).status == 404


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _public(key: JSON) -> rsa.RSAPublicKey:
    exponent, modulus = (int.from_bytes(_bytes(key[part])) for part in "en")
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


async def test_every_group_and_page_is_listed(client: LocalClient) -> None:
    """The root names the paths that there are, those of groups too, and each of them can be read."""
    paths = decode((await client.send("GET", "/")).body)["paths"]
    assert paths == sorted(paths)
    assert {"/apis/apps", "/apis/apps/v1", "/flagz", "/livez/ping", "/openapi/v3/", "/statusz"} <= set(paths)
    for path in paths:
        assert (await client.send("GET", path)).status == 200, path


async def test_flags_and_status_of_the_server(client: LocalClient) -> None:
    """/flagz and /statusz are text, or objects for clients that ask for their kind, as every component has them."""
    found = await client.send("GET", "/statusz")
    assert (found.status, found.content_type) == (200, TEXT)
    assert found.body.startswith(b"\napiserver statusz\nWarning: This endpoint is not meant to be machine parseable")
    assert found.body.endswith(b"Paths: /flagz /healthz /livez /metrics /readyz /statusz /version\n")
    kind = "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
    found = await client.send("GET", "/flagz", headers={"accept": kind})
    assert found.content_type == kind
    assert decode(found.body)["metadata"] == {"name": "apiserver"}
    assert decode(found.body)["flags"]["authorization-mode"] == "[RBAC]"
    assert (await client.send("GET", "/flagz", headers={"accept": "application/json"})).status == 406
    for missing in ("/flagz/", "/statusz/x"):
        found = await client.send("GET", missing)
        assert (found.status, found.content_type, found.body) == MISSING
