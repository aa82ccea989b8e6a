"""Who may see what, over real TLS: tokens, certificates, proxies, anonymous requests; in upstream's words."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from tests.client.server import answering, serving
from tests.daemon.serving.support import CLOCK, FakeApi, Log, insecure, pem, running, served

from kubesched.api.objects import ObjectMeta
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.http import HttpClient
from kubesched.client.protocol import ApiError
from kubesched.daemon.serving.auth.authorization import AllowedPaths, DelegatingAuthorizer
from kubesched.daemon.serving.auth.client_authorities import (
    NAME,
    NAMESPACE,
    Authorities,
    AuthorityError,
    ConfigMap,
    ProxyHeaders,
)
from kubesched.daemon.serving.auth.reviews import ReviewError
from kubesched.daemon.serving.auth.users import ANONYMOUS, UserInfo
from kubesched.logs.callers import upstream_caller
from kubesched.scheduler.metrics import Metrics
from kubesched.testing.faulty_api import FaultyApi

USERS: dict[str, Any] = {
    "good": {"username": "prom", "groups": ["monitoring"], "uid": "7", "extra": {"scopes": ["a", "b"]}},
    "root": {"username": "admin", "groups": ["system:masters"]},
}
FORBIDDEN = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": 'forbidden: User "system:anonymous" cannot get path "/metrics": not today',
    "reason": "Forbidden",
    "details": {},
    "code": 403,
}
UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


def bearer(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


@pytest.mark.parametrize(
    ("path", "token", "code"),
    [
        ("/metrics", "good", 200),
        ("/metrics", "root", 200),
        ("/configz", "root", 200),
        ("/configz", "good", 403),
        ("/metrics", "bad", 401),
        ("/healthz", "bad", 401),
        ("/metrics", "", 403),
        ("/healthz", "", 200),
        ("/healthz/ping", "", 403),
        ("/nope", "root", 404),
        ("/nope", "", 403),
    ],
)
async def test_tokens_and_paths(path: str, token: str, code: int) -> None:
    """A token's user may what the API server says, masters everything, anybody look at health; a bad token nothing."""
    api = FakeApi(users=USERS, allowed={("prom", "get", "/metrics")})
    async with running(api=api) as server:
        assert (await server.get(path, **(bearer(token) if token else {})))[0] == code


async def test_bodies_are_upstreams() -> None:
    """403 and 401 carry the Status that kube-scheduler sends, in lines for curl and in one for programs."""
    async with running(api=FakeApi(users=USERS)) as server:
        status, text, headers = await server.ask("GET", "/metrics", headers={"User-Agent": "curl/8"})
        assert (status, text) == (403, json.dumps(FORBIDDEN, indent=2))
        assert headers["Content-Type"].startswith("application/json")
        assert headers["X-Content-Type-Options"] == "nosniff"
        status, text, _ = await server.ask("GET", "/metrics", **bearer("bad"))
        assert (status, text) == (401, json.dumps(UNAUTHORIZED, separators=(",", ":")) + "\n")


async def test_paths_in_bodies_are_no_html() -> None:
    """What looks like HTML in a path is not sent back as such."""
    async with running(api=FakeApi()) as server:
        _, text = await server.get("/a%3Cb")
        assert '"/a\\u0026lt;b\\"' in text


async def test_reviews_are_asked_as_upstream_asks_and_remembered() -> None:
    """One TokenReview and one SubjectAccessReview answer many requests, also those that come at the same time."""
    api = FakeApi(users=USERS, allowed={("prom", "get", "/metrics")})
    async with running(api=api) as server:
        codes = await asyncio.gather(*(server.get("/metrics", **bearer("good")) for _ in range(8)))
        assert {code for code, _ in codes} == {200}
        await server.get("/metrics")
        await server.get("/metrics")
    assert api.kinds() == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]
    assert api.asked[0] == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "good"},
    }
    assert api.asked[1]["apiVersion"] == "authorization.k8s.io/v1"
    assert api.asked[1]["spec"] == {
        "user": "prom",
        "uid": "7",
        "groups": ["monitoring", "system:authenticated"],
        "extra": {"scopes": ["a", "b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_requests_and_reviews_are_counted() -> None:
    """Authentication, authorization, the token cache and reviews are counted under kube-scheduler's names."""
    metrics = Metrics()
    async with running(api=FakeApi(users=USERS, allowed={("prom", "get", "/metrics")}), metrics=metrics) as server:
        for token in ("good", "good", "root", "bad", ""):
            await server.get("/metrics", **(bearer(token) if token else {}))
    lines = metrics.render()[0].decode().splitlines()
    for line in (
        'authenticated_user_requests{username="admin"} 1.0',
        'authenticated_user_requests{username="other"} 3.0',
        'authentication_attempts{result="success"} 4.0',
        'authentication_attempts{result="failure"} 1.0',
        'authentication_duration_seconds_count{result="success"} 4.0',
        'authorization_attempts_total{result="allowed"} 3.0',
        'authorization_attempts_total{result="no-opinion"} 1.0',
        'authentication_token_cache_request_total{status="hit"} 1.0',
        'authentication_token_cache_request_total{status="miss"} 3.0',
        'authentication_token_cache_fetch_total{status="ok"} 3.0',
        'authentication_token_cache_active_fetch_count{status="in_flight"} 0.0',
        'apiserver_delegated_authn_request_total{code="201"} 3.0',
        'apiserver_delegated_authz_request_total{code="201"} 2.0',
    ):
        assert line in lines


async def test_an_api_server_out_of_reach() -> None:
    """When reviews fail, a token is refused and a question of permission is an error; health is served all the same."""
    api = FakeApi(error=ConnectionError("refused"))
    async with running(api=api) as server:
        assert (await server.get("/metrics", **bearer("good")))[0] == 401
        status, text = await server.get("/metrics")
        assert (status, text) == (500, 'Internal Server Error: "/metrics": refused\n')
        assert (await server.get("/healthz"))[0] == 200


async def test_without_an_api_server_only_open_paths_are_served() -> None:
    """Without an API server, tokens are ignored and all but the open paths are forbidden."""
    async with running() as server:
        status, text = await server.get("/metrics", **bearer("good"))
        assert status == 403
        assert json.loads(text)["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
        assert (await server.get("/livez"))[0] == 200


async def test_tokens_are_never_logged() -> None:
    """Whatever goes wrong with a token, the log has no trace of it."""
    log = Log()
    for error in (None, ConnectionError("refused")):
        async with running(api=FakeApi(error=error), log=log) as server:
            await server.get("/metrics?x=1", **bearer("s3cr3t"))
    assert "Unable to authenticate the request" in log.text
    assert "s3cr3t" not in log.text


@pytest.mark.parametrize("header", ["Basic Zm9v", "Bearer", "Bearer ", "Token x", ""])
async def test_other_headers_are_no_tokens(header: str) -> None:
    """What is no bearer token is not looked at, and the request is anonymous."""
    api = FakeApi(users=USERS)
    async with running(api=api) as server:
        assert (await server.get("/healthz", headers={"Authorization": header}))[0] == 200
    assert api.asked == []


# --- certificates -----------------------------------------------------------------------------------------------------


def client(authority: trustme.CA, name: str, *organizations: str) -> ssl.SSLContext:
    leaf = authority.issue_cert(
        "client.example.com", common_name=name, organization_name=organizations[0] if organizations else None
    )
    return insecure(leaf)


def known(**published: str) -> Authorities:
    """What the cluster publishes under these names, whose dashes Python does not allow."""
    authorities = Authorities(Log())
    authorities.use_published(_dashed(published))
    return authorities


def _dashed(fields: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in fields.items()}


def publishing(**published: str) -> FaultyApi:
    """A cluster with the ConfigMap."""
    cluster = FaultyApi()
    cluster.create(config_map(**published))
    return cluster


def config_map(**published: str) -> ConfigMap:
    return ConfigMap(ObjectMeta(name=NAME, namespace=NAMESPACE), _dashed(published))


async def test_client_certificates_name_users() -> None:
    """A certificate of a known authority makes a user of its common name and a group of its organization."""
    users, proxies = trustme.CA(), trustme.CA()
    api = FakeApi(allowed={("monitor", "get", "/metrics")})
    authorities = known(client_ca_file=pem(users), requestheader_client_ca_file=pem(proxies))
    async with running(api=api, authorities=authorities) as server:
        assert (await server.get("/metrics", ssl=client(users, "monitor")))[0] == 200
        assert (await server.get("/metrics", ssl=client(users, "somebody")))[0] == 403
        assert (await server.get("/metrics", ssl=client(users, "root", "system:masters")))[0] == 200
    spec = next(each["spec"] for each in api.asked if each["spec"]["user"] == "somebody")
    assert spec["groups"][-1] == "system:authenticated"
    assert spec["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


async def test_an_authority_of_proxies_makes_no_users() -> None:
    """A proxy's certificate says nothing about itself: without the headers it is refused."""
    users, proxies = trustme.CA(), trustme.CA()
    authorities = known(client_ca_file=pem(users), requestheader_client_ca_file=pem(proxies))
    async with running(api=FakeApi(), authorities=authorities) as server:
        assert (await server.get("/healthz", ssl=client(proxies, "root", "system:masters")))[0] == 401


async def test_trusted_proxies_speak_for_users() -> None:
    """Headers count when they come with a proxy's certificate of an allowed name, and only then."""
    users, proxies = trustme.CA(), trustme.CA()
    api = FakeApi(allowed={("alice", "get", "/metrics")})
    authorities = known(
        client_ca_file=pem(users),
        requestheader_client_ca_file=pem(proxies),
        requestheader_allowed_names='["front-proxy"]',
        requestheader_username_headers='["X-Remote-User"]',
        requestheader_group_headers='["X-Remote-Group"]',
        requestheader_uid_headers='["X-Remote-Uid"]',
        requestheader_extra_headers_prefix='["X-Remote-Extra-"]',
    )
    headers = [
        ("X-Remote-User", "alice"),
        ("X-Remote-Uid", "42"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Some%2fThing", "x"),
    ]
    async with running(api=api, authorities=authorities) as server:
        assert (await server.get("/metrics", headers=headers, ssl=client(proxies, "front-proxy")))[0] == 200
        assert (await server.get("/metrics", headers=headers, ssl=client(proxies, "impostor")))[0] == 401
        assert (await server.get("/metrics", headers=headers, ssl=client(users, "bob")))[0] == 403
        assert (await server.get("/metrics", headers=headers))[0] == 403
    assert api.asked[0]["spec"] == {
        "user": "alice",
        "uid": "42",
        "groups": ["a", "b", "system:authenticated"],
        "extra": {"some/thing": ["x"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_a_strangers_certificate_ends_the_handshake() -> None:
    """A certificate that no known authority has signed does not get as far as a request."""
    async with running(api=FakeApi(), authorities=known(client_ca_file=pem(trustme.CA()))) as server:
        with pytest.raises(aiohttp.ClientError):
            await server.get("/healthz", ssl=client(trustme.CA(), "mallory"))
        assert (await server.get("/healthz"))[0] == 200


async def test_authorities_are_replaced_while_serving() -> None:
    """When the API server publishes others, new certificates count and old ones no longer do, at once."""
    old, new = trustme.CA(), trustme.CA()
    cluster = publishing(client_ca_file=pem(old))
    authorities = Authorities(Log(), cluster=cluster)
    following = asyncio.create_task(authorities.watch_for_changes(CLOCK))
    async with running(api=FakeApi(), authorities=authorities) as server:
        old_client, new_client = client(old, "a", "system:masters"), client(new, "b", "system:masters")
        assert (await server.get("/metrics", ssl=old_client))[0] == 200
        cluster.update(config_map(client_ca_file=pem(new)))
        assert (await server.get("/metrics", ssl=new_client))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await server.get("/metrics", ssl=client(old, "c", "system:masters"))
        cluster.delete(config_map())
        assert (await server.get("/metrics", ssl=new_client))[0] == 200
    following.cancel()
    await asyncio.wait((following,))


@virtual_time
async def test_authorities_are_found_as_soon_as_they_can_be(clock: VirtualClock) -> None:
    """A cluster that is out of reach, or has not published them yet, is followed until it has."""
    cluster = FaultyApi(clock)
    cluster.fail("list", OSError("out of reach"), times=3)
    authorities = Authorities(Log(), cluster=cluster)
    following = asyncio.create_task(authorities.watch_for_changes(clock))
    await clock.advance(20)
    assert authorities.version == 0
    cluster.create(config_map(client_ca_file=pem(trustme.CA())))
    await clock.settle()
    assert authorities.version == 1
    following.cancel()
    await asyncio.wait((following,))


async def test_only_that_config_map_is_asked_for() -> None:
    """The role that clusters have for this allows one name in one namespace."""
    path = "/api/v1/namespaces/kube-system/configmaps"
    only = {"fieldSelector": "metadata.name=extension-apiserver-authentication"}
    empty = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": []}
    async with serving() as server, HttpClient(server.connection) as http:
        server.script = [answering(lambda: web.json_response(empty)), answering(lambda: web.Response(status=403))]
        following = asyncio.create_task(Authorities(Log(), cluster=http).watch_for_changes(CLOCK))
        while len(server.received) < 2:
            await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.wait((following,))
    assert [each.path for each in server.received] == [path, path]
    assert all(each.query.items() >= only.items() for each in server.received)
    assert server.received[1].query["watch"] == "true"


async def test_authorities_from_files_go_before_the_cluster(tmp_path: Path) -> None:
    """Flags name files; what they leave open is looked up, and a lookup that fails takes nothing from the files."""
    users, proxies = trustme.CA(), trustme.CA()
    file = tmp_path / "ca.crt"
    file.write_text(pem(users))
    cluster = publishing(client_ca_file="ignored", requestheader_client_ca_file=pem(proxies))
    cluster.fail("read", OSError("out of reach"))
    headers = ProxyHeaders(allowed_names=("x",))
    authorities = Authorities(Log(), client_file=str(file), headers=headers, cluster=cluster)
    authorities.read_files()
    with pytest.raises(AuthorityError, match="out of reach"):
        await authorities.look_up()
    assert (len(authorities.clients), len(authorities.proxies)) == (1, 0)
    await authorities.look_up()
    assert len(authorities.clients) == len(authorities.proxies) == 1
    assert authorities.version == 2
    authorities.read_files()
    await authorities.look_up()
    assert authorities.version == 2


@virtual_time
async def test_files_are_read_again(clock: VirtualClock, tmp_path: Path) -> None:
    """A file with authorities may be replaced; one that cannot be read is reported and the last good one counts."""
    file, log = tmp_path / "ca.crt", Log()
    file.write_text(pem(trustme.CA()))
    authorities = Authorities(log, client_file=str(file))
    authorities.read_files()
    following = asyncio.create_task(authorities.watch_for_changes(clock))
    file.write_text(pem(trustme.CA()))
    await clock.advance(60)
    assert authorities.version == 2
    file.unlink()
    await clock.advance(60)
    assert authorities.version == 2
    assert "ca.crt cannot be read: No such file or directory" in log.text
    following.cancel()
    await asyncio.wait((following,))


@pytest.mark.parametrize(
    ("published", "problem"),
    [
        ({"client_ca_file": "no certificate"}, "the client authorities are not certificates in PEM form"),
        ({"requestheader_client_ca_file": "x"}, "the requestheader client authorities are not certificates"),
        (
            {"requestheader_client_ca_file": "x", "requestheader_allowed_names": "["},
            "requestheader-allowed-names in the ConfigMap is not a JSON list",
        ),
        (None, 'configmaps "extension-apiserver-authentication" not found'),
    ],
)
async def test_authorities_that_cannot_be_read(published: dict[str, str] | None, problem: str) -> None:
    """What is wrong with published authorities is said, and the last good ones stay."""
    cluster = FaultyApi() if published is None else publishing(**published)
    authorities = Authorities(Log(), cluster=cluster)
    with pytest.raises(AuthorityError, match=problem):
        await authorities.look_up()
    assert authorities.version == 0


def test_one_unreadable_authority_does_not_cost_the_other() -> None:
    """Users are known by their certificates although the proxies' authority is garbage."""
    authorities = Authorities(Log())
    published = {"client-ca-file": pem(trustme.CA()), "requestheader-client-ca-file": "garbage"}
    with pytest.raises(AuthorityError, match="requestheader"):
        authorities.use_published(published)
    assert (len(authorities.clients), len(authorities.proxies)) == (1, 0)


# --- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "path", "allowed"),
    [
        (["/healthz"], "/healthz", True),
        (["/healthz"], "/healthz/ping", False),
        (["healthz"], "/healthz", True),
        (["/healthz*"], "/healthz/ping", True),
        (["/*"], "/anything/at/all", True),
        (["*"], "/x", True),
        (["/"], "/", True),
        (["/"], "/x", False),
        ([], "/", False),
    ],
)
def test_allowed_paths(patterns: list[str], path: str, allowed: bool) -> None:
    """Paths match exactly, or by what is before a star; a leading slash may be left out."""
    assert (path in AllowedPaths(patterns)) is allowed


async def test_permissions_and_refusals_are_remembered_apart() -> None:
    """Each has its own time to live; none at all means to ask every time."""
    api = FakeApi(allowed={("a", "get", "/metrics")})
    authorizer = DelegatingAuthorizer(CLOCK, api=api, allowed_ttl=0, denied_ttl=60)
    for _ in range(3):
        assert (await authorizer.authorize(UserInfo("a"), "get", "/metrics")).allowed
        assert not (await authorizer.authorize(UserInfo("b"), "get", "/metrics")).allowed
    assert [each["spec"]["user"] for each in api.asked] == ["a", "b", "a", "a"]


async def test_very_long_requests_are_not_remembered() -> None:
    """A client cannot fill the memory with paths."""
    api = FakeApi()
    authorizer = DelegatingAuthorizer(CLOCK, api=api)
    for _ in range(2):
        await authorizer.authorize(ANONYMOUS, "get", "/" + "x" * 20_000)
    assert len(api.asked) == 2


async def test_a_refused_review_is_an_error() -> None:
    """An API server that does not let us ask has not said no."""
    api = FakeApi(error=ApiError(403, "Forbidden", "may not create subjectaccessreviews"))
    with pytest.raises(ReviewError, match="may not create"):
        await DelegatingAuthorizer(CLOCK, api=api).authorize(ANONYMOUS, "get", "/metrics")


async def test_requests_are_logged_at_level_three() -> None:
    """With -v=3 every request leaves a line, as upstream's does."""
    log = Log(verbosity=3)
    async with running(served(log), log=log) as server:
        await server.get("/healthz?verbose")
    (fields,) = [fields for _, message, fields in log.lines if message == "HTTP"]
    assert (fields["verb"], fields["URI"], fields["resp"]) == ("GET", "/healthz?verbose", 200)
    assert list(fields) == ["verb", "URI", "latency", "userAgent", "audit-ID", "srcIP", "resp"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", str(fields["srcIP"]))
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(fields["audit-ID"]))
    assert upstream_caller("HTTP", fields) == "httplog/httplog.go:134"
