"""Bodies that are meant to hurt: refused with the limit they break, while the server goes on."""

from __future__ import annotations

import io

import aiohttp
import pytest
from tests.apiserver.support import CONFIG_MAPS, config_map, refusal
from tests.base.test_documents import BOMB, NESTED

from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.patch import JSON_PATCH, MERGE_PATCH
from kubesched.client.kubeconfig import KubeconfigError, parse

YAML = "application/yaml"


@pytest.mark.parametrize(
    ("body", "limit"),
    [(NESTED, "nested deeper than 128 levels"), (BOMB, "values, with those that aliases repeat")],
    ids=["nested", "aliases"],
)
async def test_hostile_yaml_is_a_bad_request(client: LocalClient, body: str, limit: str) -> None:
    """Deep nesting and alias bombs are answered with 400 and the limit; the server lives."""
    error = await refusal(client.call("POST", CONFIG_MAPS, body.encode(), content_type=YAML))
    assert (error.code, limit in error.message) == (400, True)
    assert await client.create(CONFIG_MAPS, config_map("after"))


@pytest.mark.parametrize("content_type", ["application/json", MERGE_PATCH, JSON_PATCH])
@pytest.mark.parametrize("depth", [300, 5000])
async def test_deep_json_is_a_bad_request(client: LocalClient, content_type: str, depth: int) -> None:
    """Objects, patches and delete options that are nested too deep are answered with 400, never with 500."""
    await client.create(CONFIG_MAPS, config_map("c"))
    deep = b"[" * depth + b"]" * depth
    is_patch = content_type != "application/json"
    body = deep if content_type == JSON_PATCH else b'{"metadata":{"name":"x"},"data":%b}' % deep
    for method, path in (
        [("PATCH", f"{CONFIG_MAPS}/c")] if is_patch else [("POST", CONFIG_MAPS), ("DELETE", f"{CONFIG_MAPS}/c")]
    ):
        error = await refusal(client.call(method, path, body, content_type=content_type))
        assert (error.code, "nested deeper than 128 levels" in error.message) == (400, True)


async def test_a_patch_does_not_make_a_deep_object(client: LocalClient) -> None:
    """A patch that nests an object in itself again and again is refused, and the object stays as it was."""
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    made = await client.create(path, {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}})
    patch = [{"op": "copy", "from": "/data", "path": "/data/a"}] * 200
    error = await refusal(client.patch(f"{path}/r", patch, JSON_PATCH))
    assert (error.code, "the patched object is nested deeper than 128 levels" in error.message) == (400, True)
    assert await client.get(f"{path}/r") == made


async def test_invalid_utf_8_is_a_bad_request(client: LocalClient) -> None:
    """Bytes that are no text are the client's mistake, not the server's."""
    for form in ("application/json", YAML):
        error = await refusal(client.call("POST", CONFIG_MAPS, b'{"metadata":{"name":"\xff"}}', content_type=form))
        assert error.code == 400


async def test_a_body_that_is_too_long_is_413(server: HttpServer) -> None:
    """Upstream's limit of three megabytes, with upstream's words."""
    headers = {"Authorization": f"Bearer {server.identity.admin_token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.post(f"{server.url}{CONFIG_MAPS}", data=io.BytesIO(b" " * (4 << 20)), ssl=False) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")
        async with session.get(f"{server.url}{CONFIG_MAPS}", ssl=False) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("text", [NESTED, BOMB], ids=["nested", "aliases"])
def test_a_hostile_kubeconfig_is_an_error(text: str) -> None:
    """A kubeconfig beyond a limit is an error with the file's name."""
    with pytest.raises(KubeconfigError, match=r"^x: line 1?1?\d+, column \d+: (nested|more than)"):
        parse(text.encode(), "x")
