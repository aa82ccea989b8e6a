"""Bodies that are meant to hurt: refused with the limit they break, while the server goes on."""

from __future__ import annotations

import io
import itertools
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
from tests.apiserver.support import CONFIG_MAPS, config_map, refusal
from tests.apiserver.test_crd import DEFINITIONS, TABS, definition, tab
from tests.apiserver.test_protobuf import PROTOBUF, envelope, text
from tests.base.test_documents import BOMB, NESTED

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.kinds.schema import ObjectType, type_of
from kubesched.apiserver.rest.patch import JSON_PATCH, MERGE_PATCH
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON
from kubesched.client.kubeconfig import KubeconfigError, parse

YAML = "application/yaml"
AUTOSCALERS = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
NOT = 28
"""The number of a schema's field `not`, which is a schema."""


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


@pytest.mark.parametrize("part", ["metrics", "behavior", "conditions", "current-metrics"])
async def test_json_in_an_annotation_is_read_as_its_type(client: LocalClient, part: str) -> None:
    """Annotations of an autoscaler that are too deep, or of another type, are dropped, as upstream."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    for number, value in enumerate(("[" * 5000, "1", '"x"', "[1]", '{"a":[]}', '[{"type":1}]')):
        metadata = {"name": f"a{number}", "annotations": {f"autoscaling.alpha.kubernetes.io/{part}": value}}
        made = await client.create(
            AUTOSCALERS, {"metadata": metadata, "spec": {"maxReplicas": 3, "scaleTargetRef": reference}}
        )
        assert "annotations" not in made["metadata"]


async def test_deep_json_in_a_secret_is_invalid(client: LocalClient) -> None:
    """Credentials for registries that are nested too deep are invalid, and not an internal error."""
    data = {".dockerconfigjson": b64encode(b"[" * 5000).decode()}
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    error = await refusal(client.create("/api/v1/namespaces/default/secrets", body))
    assert (error.code, "exceeded max depth" in error.message) == (422, True)


@pytest.mark.parametrize("depth", [300, 5000])
async def test_deep_protobuf_is_a_bad_request(client: LocalClient, depth: int) -> None:
    """A schema that contains a schema, and so on, is answered with 400 in protobuf too."""
    schema = b""
    for _ in range(depth):
        schema = text(NOT, schema)
    version = text(1, "v1") + text(4, text(1, schema))
    body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", text(2, text(7, version)))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    error = await refusal(client.call("POST", path, body, content_type=PROTOBUF))
    assert (error.code, "nested deeper than 128 levels" in error.message) == (400, True)


async def test_a_patch_does_not_make_a_deep_object(client: LocalClient) -> None:
    """A patch that nests an object in itself again and again is refused, and the object stays as it was."""
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    made = await client.create(path, {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}})
    patch = [{"op": "copy", "from": "/data", "path": "/data/a"}] * 200
    error = await refusal(client.patch(f"{path}/r", patch, JSON_PATCH))
    assert (error.code, "the patched object is nested deeper than 128 levels" in error.message) == (400, True)
    assert await client.get(f"{path}/r") == made


def with_nulls(type_: ObjectType, depth: int = 0) -> Iterator[JSON]:
    """Objects of a type with one null in a list or map, at every place up to a depth."""
    for field in type_.fields.values():
        shape, item = field.shape, field.shape.item
        if item is not None:
            wrap: Callable[[Any], Any] = (
                (lambda value: [value]) if shape.kind == "list" else (lambda value: {"a": value})
            )
            yield {field.name: wrap(None)}
            if item.object is not None and depth < 6:
                yield from ({field.name: wrap(part)} for part in with_nulls(item.object, depth + 1))
        elif shape.object is not None and depth < 6:
            yield from ({field.name: part} for part in with_nulls(shape.object, depth + 1))


@pytest.mark.parametrize(
    "name", ["Pod", "Deployment", "Service", "Node", "PersistentVolume", "RoleBinding", "ClusterRole"]
)
async def test_null_items_never_break_the_server(api: ApiServer, client: LocalClient, name: str) -> None:
    """A null in any list or map of an object is accepted as Go's zero value, or refused; it is never a 500."""
    resource = next(each for each in BUILT_IN if each.kind == name)
    root = f"/apis/{resource.group}/v1" if resource.group else "/api/v1"
    path = f"{root}/namespaces/default/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    type_ = type_of(resource.schema)
    assert type_ is not None
    for body in itertools.islice(with_nulls(type_), 1500):
        metadata = {"name": "x", **body.get("metadata", {})}
        response = await client.send("POST", f"{path}?dryRun=All", {**body, "metadata": metadata})
        assert response.status < 500, body


async def test_parts_that_are_missing_are_refused_with_words(client: LocalClient) -> None:
    """Nameless ephemeral containers, a claim template with an empty spec and a slice that loses its spec get 422."""
    containers = [{"name": "c", "image": "i"}]
    specs: tuple[JSON, ...] = (
        {"containers": [{}], "ephemeralContainers": [{}]},
        {"containers": containers, "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": None}}}]},
    )
    for part in specs:
        error = await refusal(
            client.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": part})
        )
        assert error.code == 422
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "a"}]}
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    await client.create(slices, {"metadata": {"name": "s"}, "spec": spec})
    error = await refusal(client.call("PATCH", f"{slices}/s", b'{"spec":null}', content_type=MERGE_PATCH))
    assert (error.code, "spec.driver: Required value" in error.message) == (422, True)


async def test_null_items_are_zero_values(client: LocalClient) -> None:
    """Null items become what Go's decoder makes of them."""
    made = await client.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": None}})
    assert made["data"] == {"a": ""}


@pytest.mark.parametrize("metadata", [[], "x", {"labels": 5}, {"finalizers": [None]}, {"ownerReferences": [None]}])
async def test_the_metadata_of_custom_resources_is_checked(client: LocalClient, metadata: Any) -> None:
    """Metadata of the wrong type is refused for custom resources too."""
    await client.create(DEFINITIONS, definition())
    assert (await client.send("POST", TABS, {**tab("a"), "metadata": metadata})).status in (400, 422)


@pytest.mark.parametrize(
    "query",
    [
        f"resourceVersion={'9' * 5000}",
        f"resourceVersion={2**64}",
        "resourceVersion=-1",
        f"watch=true&timeoutSeconds={'9' * 400}",
        f"limit={2**63}",
        "limit=1_0",
    ],
)
async def test_absurd_numbers_are_a_bad_request(client: LocalClient, query: str) -> None:
    """Numbers beyond 64 bits, and what Go does not read as a number, are the client's mistake."""
    assert (await refusal(client.get(f"{CONFIG_MAPS}?{query}"))).code == 400


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


async def test_a_percentage_of_thousands_of_digits_is_invalid(client: LocalClient) -> None:
    """It is too large, as one of four digits is, and no internal error."""
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    for digits in ("1000", "9" * 5000):
        strategy = {"rollingUpdate": {"maxUnavailable": f"{digits}%"}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod, "strategy": strategy}
        deployment = {"metadata": {"name": "web"}, "spec": spec}
        with pytest.raises(StatusError, match="must not be greater than 100%") as caught:
            await client.create("/apis/apps/v1/namespaces/default/deployments", deployment)
        assert caught.value.code == 422


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_body_is_a_bad_request(server: HttpServer, coding: str) -> None:
    """It is 400 at once, with a Status, also if it is cut off: no request is decompressed."""
    headers = {"Authorization": f"Bearer {server.identity.admin_token}", "Content-Encoding": coding}
    headers["Content-Type"] = "application/json"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session:
        request = session.post(f"{server.url}{CONFIG_MAPS}", data=io.BytesIO(b"abc"), headers=headers, ssl=False)
        async with request as answer:
            assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("text", [NESTED, BOMB], ids=["nested", "aliases"])
def test_a_hostile_kubeconfig_is_an_error(text: str) -> None:
    """A kubeconfig beyond a limit is an error with the file's name."""
    with pytest.raises(KubeconfigError, match=r"^x: line 1?1?\d+, column \d+: (nested|more than)"):
        parse(text.encode(), "x")
