"""Discovery and OpenAPI: what clients learn about what is served."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.storage.store import decode
from kubesched.base.types import JSON


async def test_old_discovery(client: LocalClient) -> None:
    """Group by group, as clients before aggregation ask."""
    assert (await client.get("/api"))["versions"] == ["v1"]
    groups = {group["name"] for group in (await client.get("/apis"))["groups"]}
    assert {"apps", "batch", "rbac.authorization.k8s.io", "apiextensions.k8s.io"} <= groups
    core = {resource["name"]: resource for resource in (await client.get("/api/v1"))["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "kind": "Eviction",
        "verbs": ["create"],
        "group": "policy",
        "version": "v1",
    }
    assert (await client.get("/apis/apps"))["preferredVersion"]["groupVersion"] == "apps/v1"
    assert (await refusal(client.get("/apis/none"))).code == 404


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery(client: LocalClient, version: str) -> None:
    """Everything at once, in the version that the client knows."""
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList,application/json"
    response = await client.send("GET", "/apis", headers={"accept": accept})
    assert f"v={version}" in response.content_type
    body = decode(response.body)
    assert body["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    apps = next(group for group in body["items"] if group["metadata"]["name"] == "apps")
    deployments = next(r for r in apps["versions"][0]["resources"] if r["resource"] == "deployments")
    assert (deployments["scope"], deployments["shortNames"]) == ("Namespaced", ["deploy"])
    assert {sub["subresource"] for sub in deployments["subresources"]} == {"scale", "status"}


def test_every_kind_is_described() -> None:
    """Each built-in kind has a schema."""
    assert [resource.kind for resource in BUILT_IN if type_of(resource.schema) is None] == []


async def test_openapi_v3(client: LocalClient) -> None:
    """Each group has a document that says what kubectl looks for."""
    index = (await client.get("/openapi/v3"))["paths"]
    assert index["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")
    document = await client.get(index["api/v1"]["serverRelativeURL"])
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["properties"]["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["required"] == ["containers"]
    assert (await refusal(client.get("/openapi/v3/apis/none/v1"))).code == 404


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("Container.imagePullPolicy", {"enum": ["Always", "IfNotPresent", "Never"]}),
        ("PersistentVolumeSpec.accessModes", {"x-kubernetes-list-type": "atomic"}),
        ("PodSpec.containers", {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        ("PodSpec.nodeSelector", {"x-kubernetes-map-type": "atomic"}),
        ("PersistentVolumeSpec.claimRef", {"x-kubernetes-map-type": "granular"}),
        ("ContainerStateRunning.startedAt", {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Time"}),
    ],
)
async def test_openapi_says_what_upstreams_says_of_a_field(client: LocalClient, field: str, says: JSON) -> None:
    """The values that it may have, how its lists and maps merge, and the name of its type."""
    kind, _, name = field.partition(".")
    found = (await client.get("/openapi/v2"))["definitions"][f"io.k8s.api.core.v1.{kind}"]["properties"][name]
    assert says.items() <= found.items()


async def test_openapi_lists_the_values_of_items(client: LocalClient) -> None:
    """The values that the items of a list may have stand with the items."""
    definitions = (await client.get("/openapi/v2"))["definitions"]
    modes = definitions["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["accessModes"]
    assert modes["items"]["enum"] == ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
    assert definitions["io.k8s.api.core.v1.NodeSelector"]["x-kubernetes-map-type"] == "atomic"


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("core.v1.Container.name", {"type": "string", "default": ""}),
        ("core.v1.ContainerPort.protocol", {"default": "TCP"}),
        ("core.v1.Container.command", {"items": {"type": "string", "default": ""}}),
        ("apps.v1.DeploymentSpec.template", {"default": {}}),
        ("core.v1.PodList.metadata", {"default": {}}),
        ("autoscaling.v1.ScaleSpec.replicas", {"default": 0}),
    ],
)
async def test_openapi_v3_has_upstreams_defaults(client: LocalClient, field: str, says: JSON) -> None:
    """Zero values where Go's struct has no pointer, and the defaults that types declare."""
    kind, _, name = field.rpartition(".")
    group = "/openapi/v3/apis/apps/v1" if kind.startswith(("apps", "autoscaling")) else "/openapi/v3/api/v1"
    found = (await client.get(group))["components"]["schemas"][f"io.k8s.api.{kind}"]["properties"][name]
    assert says.items() <= found.items()


async def test_openapi_v3_has_no_default_for_what_may_be_absent(client: LocalClient) -> None:
    """An optional struct that Go keeps behind a pointer has none, and its reference can have a description."""
    schemas = (await client.get("/openapi/v3/api/v1"))["components"]["schemas"]
    affinity = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["affinity"]
    assert affinity["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Affinity"}]
    assert "default" not in affinity


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
async def test_openapi_names_unions_and_required_fields_as_upstream(client: LocalClient, path: str) -> None:
    """Of a union one field is set at a time; required fields are in the order of the Go struct."""
    document = await client.get(path)
    definitions = document.get("definitions") or document["components"]["schemas"]
    unions = definitions["io.k8s.api.core.v1.SeccompProfile"]["x-kubernetes-unions"]
    assert unions == [{"discriminator": "type", "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}]
    required = ["name", "ready", "restartCount", "image", "imageID"]
    assert definitions["io.k8s.api.core.v1.ContainerStatus"]["required"] == required


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("api.apps.v1.ControllerRevision.data", "io.k8s.apimachinery.pkg.runtime.RawExtension"),
        ("apimachinery.pkg.apis.meta.v1.WatchEvent.object", "io.k8s.apimachinery.pkg.runtime.RawExtension"),
        ("apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry.fieldsV1", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
        (
            "api.autoscaling.v1.HorizontalPodAutoscalerSpec.scaleTargetRef",
            "io.k8s.api.autoscaling.v1.CrossVersionObjectReference",
        ),
        ("api.scheduling.v1alpha2.PodGroup.spec", "io.k8s.api.scheduling.v1alpha2.PodGroupSpec"),
        ("api.resource.v1alpha3.DeviceTaintRule.spec", "io.k8s.api.resource.v1alpha3.DeviceTaintRuleSpec"),
    ],
)
async def test_openapi_references_upstreams_types(client: LocalClient, field: str, name: str) -> None:
    """Values without a fixed type, and types in the version of their resource."""
    kind, _, field = field.rpartition(".")
    definitions = (await client.get("/openapi/v2"))["definitions"]
    assert definitions[f"io.k8s.{kind}"]["properties"][field]["$ref"] == f"#/definitions/{name}"


@pytest.mark.parametrize(
    ("path", "method", "name", "returns"),
    [
        ("/api/v1/namespaces/{namespace}/pods", "get", "listCoreV1NamespacedPod", "core.v1.PodList"),
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "core.v1.PodList"),
        ("/api/v1/namespaces/{namespace}/pods/{name}", "delete", "deleteCoreV1NamespacedPod", "core.v1.Pod"),
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "put",
            "replaceAppsV1NamespacedDeploymentScale",
            "autoscaling.v1.Scale",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "createCoreV1NamespacedPodEviction",
            "policy.v1.Eviction",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "post",
            "createRbacAuthorizationV1ClusterRole",
            "rbac.v1.ClusterRole",
        ),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval",
            "patch",
            "patchCertificatesV1CertificateSigningRequestApproval",
            "certificates.v1.CertificateSigningRequest",
        ),
    ],
)
async def test_operations_have_upstreams_names_and_types(
    client: LocalClient, path: str, method: str, name: str, returns: str
) -> None:
    """What client generators turn into methods: the operation's name, its parameters and what it returns."""
    item = (await client.get("/openapi/v2"))["paths"][path]
    assert item[method]["operationId"] == name
    assert item[method]["responses"]["200"]["schema"] == {"$ref": f"#/definitions/io.k8s.api.{returns}"}
    named = {each["name"] for each in item["parameters"] if each["in"] == "path"}
    assert named == {part.strip("{}") for part in path.split("/") if part.startswith("{")}


async def test_a_custom_resource_changes_the_document_of_its_group_only(client: LocalClient) -> None:
    """Other groups' documents are not made again."""
    before = await client.get("/openapi/v3")
    definition = {
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "boxes", "kind": "Box"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    after = await client.get("/openapi/v3")
    assert set(after["paths"]) - set(before["paths"]) == {"apis/example.com/v1"}
    assert {path: after["paths"][path] for path in before["paths"]} == before["paths"]
    document = await client.get("/openapi/v3/apis/example.com/v1")
    listed = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/boxes"]["get"]
    assert listed["operationId"] == "listExampleComV1NamespacedBox"


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for item in value for name in _references(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
    return own | {name for item in value.values() for name in _references(item)}


async def test_references_lead_somewhere(client: LocalClient) -> None:
    """Whatever a document mentions is in it."""
    for path in (await client.get("/openapi/v3"))["paths"]:
        document = await client.get(f"/openapi/v3/{path}")
        assert _references(document) <= set(document["components"]["schemas"]), path
    document = await client.get("/openapi/v2")
    assert _references(document) <= set(document["definitions"])


@pytest.mark.parametrize("separator", [".", "@"])
async def test_openapi_v2_as_protobuf(client: LocalClient, separator: str) -> None:
    """kubectl takes it in no other form; it begins with the version of Swagger, and knows what JSON knows."""
    headers = {"accept": f"application/com.github.proto-openapi.spec.v2{separator}v1.0+protobuf"}
    response = await client.send("GET", "/openapi/v2", headers=headers)
    assert response.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert response.body.startswith(b"\x0a\x032.0")
    for name in (await client.get("/openapi/v2"))["definitions"]:
        assert name.encode() in response.body


@pytest.mark.parametrize("separator", [".", "@"])
async def test_openapi_v3_as_protobuf(client: LocalClient, separator: str) -> None:
    """The document of a group is served as protobuf too, with the paths and schemas of the one in JSON."""
    headers = {"accept": f"application/com.github.proto-openapi.spec.v3{separator}v1.0+protobuf"}
    response = await client.send("GET", "/openapi/v3/apis/apps/v1", headers=headers)
    assert response.content_type == "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
    assert response.body.startswith(b"\x0a\x053.0.0")
    found = dict(_message(response.body))
    plain = await client.get("/openapi/v3/apis/apps/v1")
    paths = [dict(_message(entry))[1].decode() for _, entry in _message(found[4])]
    assert paths == list(plain["paths"])
    schemas = {}
    for _, entry in _message(dict(_message(found[5]))[1]):
        name, schema = (value for _, value in _message(entry))
        schemas[name.decode()] = _message(dict(_message(schema))[1])
    assert list(schemas) == list(plain["components"]["schemas"])
    spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]
    assert [value.decode() for number, value in spec if number == 23] == ["selector", "template"]


def _message(data: bytes) -> list[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message."""
    found, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = (8, at) if tag & 7 == 1 else _varint(data, at)
        if tag & 7 == 2:
            found.append((tag >> 3, data[at : at + value]))
        at += value if tag & 7 in (1, 2) else 0
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
async def test_other_forms_of_openapi_are_not_acceptable(client: LocalClient, path: str) -> None:
    """A client that accepts neither JSON nor protobuf gets 406; one that accepts anything gets JSON."""
    assert (await client.send("GET", path, headers={"accept": "application/xml"})).status == 406
    response = await client.send("GET", path, headers={"accept": "application/xml, */*;q=0.5"})
    assert (response.status, response.content_type) == (200, "application/json")


async def test_health_and_version(client: LocalClient) -> None:
    """The server says how it is and what it pretends to be."""
    assert (await client.send("GET", "/healthz")).body == b"ok"
    assert b"[+]etcd ok" in (await client.send("GET", "/readyz?verbose")).body
    assert (await client.get("/version"))["minor"] == "36"
    metrics = (await client.send("GET", "/metrics")).body.decode()
    assert 'apiserver_storage_objects{resource="namespaces"} 4' in metrics
    assert 'apiserver_request_total{verb="GET",code="200"}' in metrics
    assert "/apis" in (await client.get("/"))["paths"]
