"""Tokens of service accounts: how long they are valid, what they are bound to, and what a review says of them."""

from __future__ import annotations

import pytest
from tests.apiserver.support import NODES, PODS, FixedClock, node, pod, refusal

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.tokens import LEEWAY
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.base.types import JSON

PATH = "/api/v1/namespaces/default/serviceaccounts/default"
SECRETS = "/api/v1/namespaces/default/secrets"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


async def token_of(client: LocalClient, **spec: object) -> str:
    """A new token of the default account."""
    return str((await client.create(f"{PATH}/token", {"spec": spec}))["status"]["token"])


async def code_with(api: ApiServer, token: str) -> int:
    """The status code of a request with a token: 403 for a valid one, because the account may do nothing."""
    return (await api.handle(ApiRequest("GET", PODS, headers={"authorization": f"Bearer {token}"}))).status


async def review(client: LocalClient, token: str) -> JSON:
    """What another server learns about a token."""
    status: JSON = (await client.create(REVIEWS, {"spec": {"token": token}}))["status"]
    return status


@pytest.mark.parametrize("seconds", [600, 7200])
async def test_a_token_expires(api: ApiServer, client: LocalClient, clock: FixedClock, seconds: int) -> None:
    """It is refused with 401 a minute after the time that was requested: clocks may differ by that, as upstream."""
    token = await token_of(client, expirationSeconds=seconds)
    clock.time += seconds + LEEWAY
    assert await code_with(api, token) == 403
    clock.time += 1
    response = await api.handle(ApiRequest("GET", PODS, headers={"authorization": f"Bearer {token}"}))
    assert (response.status, b'"message":"Unauthorized"' in response.body) == (401, True)
    found = await review(client, token)
    assert (found.get("authenticated"), found["error"]) == (
        None,
        "[invalid bearer token, service account token has expired]",
    )


async def test_a_token_from_the_future(api: ApiServer, client: LocalClient, clock: FixedClock) -> None:
    """A clock that was set back by more than a minute makes a token invalid until then."""
    token = await token_of(client)
    clock.time -= LEEWAY
    assert await code_with(api, token) == 403
    clock.time -= 1
    assert await code_with(api, token) == 401
    assert (await review(client, token))["error"] == "[invalid bearer token, service account token is not valid yet]"
    assert (await review(client, "x.y.z"))["error"] == "invalid bearer token"


@pytest.mark.parametrize("seconds", [0, 599])
async def test_the_shortest_lifetime(client: LocalClient, seconds: int) -> None:
    """Ten minutes. Zero is not the default, which is an hour."""
    error = await refusal(client.create(f"{PATH}/token", {"spec": {"expirationSeconds": seconds}}))
    assert error.code == 422
    assert f"Invalid value: {seconds}: may not specify a duration less than 10 minutes" in error.message
    assert (await client.create(f"{PATH}/token", {}))["spec"]["expirationSeconds"] == 3600


async def test_a_token_is_bound_to_an_object(api: ApiServer, client: LocalClient) -> None:
    """With the secret or node that a token is bound to, it ends."""
    await client.create(NODES, node("n"))
    await client.create(SECRETS, {"metadata": {"name": "s"}})
    for kind, path in (("Secret", f"{SECRETS}/s"), ("Node", f"{NODES}/n")):
        reference = {"kind": kind, "apiVersion": "v1", "name": path[-1]}
        token = await token_of(client, boundObjectRef=reference)
        assert await code_with(api, token) == 403
        await client.delete(path)
        assert await code_with(api, token) == 401
        assert (await review(client, token))["error"].endswith("service account token has been invalidated]")
        assert (await refusal(client.create(f"{PATH}/token", {"spec": {"boundObjectRef": reference}}))).code == 404


async def test_a_pods_token_names_its_node(client: LocalClient) -> None:
    """The user's extra fields have pod and node. The token outlives the node, but not the pod."""
    await client.create(NODES, node("n"))
    await client.create(PODS, pod("p", nodeName="n"))
    token = await token_of(client, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    await client.delete(f"{NODES}/n")
    extra = (await review(client, token))["user"]["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == ["n"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/node-uid"] != extra["authentication.kubernetes.io/pod-uid"]


@pytest.mark.parametrize(
    ("request_body", "code", "words"),
    [
        ({"metadata": {"name": "x"}}, 422, "must match the service account name if specified"),
        ({"metadata": {"namespace": "x"}}, 422, "must match the service account namespace if specified"),
        ({"metadata": {"uid": "x"}}, 409, "the UID in the token request (x) does not match the UID of the service"),
        (
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ],
)
async def test_requests_that_name_something_else(
    client: LocalClient, request_body: JSON, code: int, words: str
) -> None:
    """They are refused in upstream's words."""
    error = await refusal(client.create(f"{PATH}/token", request_body))
    assert error.code == code
    assert words in error.message
