"""Claims on devices, device classes and slices in the API server: defaults, rules, statuses, columns, selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.apiserver.support import NAMESPACES, PODS, TABLE, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/default/resourceclaimtemplates"
CLASSES = f"{GROUP}/deviceclasses"
SLICES = f"{GROUP}/resourceslices"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
MERGE_PATCH = "application/merge-patch+json"
EXACTLY: JSON = {"deviceClassName": "gpu"}


def _request(name: str = "r", **exactly: Any) -> JSON:
    return {"name": name, "exactly": {**EXACTLY, **exactly}}


def _devices(*requests: JSON, **more: Any) -> JSON:
    return {"devices": {"requests": list(requests), **more}}


def _cel(expression: str) -> list[JSON]:
    return [{"cel": {"expression": expression}}]


def _claim(spec: JSON, name: str = "c") -> JSON:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def _slice(name: str = "s", **spec: Any) -> JSON:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    body = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0"}], **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": body}


def _device(**fields: Any) -> JSON:
    return {"devices": [{"name": "gpu-0", **fields}]}


def _shared(**policy: Any) -> JSON:
    return {"m": {"value": "10Gi", "requestPolicy": policy}}


def _result(**fields: Any) -> JSON:
    return {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0", **fields}


def _allocated(*results: JSON, **status: Any) -> JSON:
    return {"status": {"allocation": {"devices": {"results": list(results)}}, **status}}


async def test_defaults_of_requests(client: LocalClient) -> None:
    """A request is for exactly one device unless it says otherwise; a taint gets its time."""
    first = {"name": "f", "firstAvailable": [{"name": "s", **EXACTLY}]}
    claim = await client.create(CLAIMS, _claim(_devices(_request(), _request("all", allocationMode="All"), first)))
    exact, everything, listed = claim["spec"]["devices"]["requests"]
    assert exact["exactly"] == {**EXACTLY, "allocationMode": "ExactCount", "count": 1}
    assert everything["exactly"] == {**EXACTLY, "allocationMode": "All"}
    assert listed["firstAvailable"][0]["count"] == 1
    assert claim["status"] == {}
    taint = {"key": "a", "effect": "NoSchedule"}
    found = await client.create(SLICES, _slice(devices=[{"name": "d", "taints": [taint]}]))
    assert found["spec"]["devices"][0]["taints"][0]["timeAdded"] == found["metadata"]["creationTimestamp"]


BAD_CLAIMS: list[tuple[JSON, str]] = [
    (_devices({"name": "r"}), "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable`"),
    (
        _devices({**_request(), "firstAvailable": [{"name": "s", **EXACTLY}]}),
        "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but "
        "multiple fields are set",
    ),
    (_devices(_request(), _request()), 'spec.devices.requests[1]: Duplicate value: "r"'),
    (_devices(_request("R")), 'spec.devices.requests[0].name: Invalid value: "R": a lowercase RFC 1123 label'),
    (_devices(_request(deviceClassName="")), "spec.devices.requests[0].exactly.deviceClassName: Required value"),
    (_devices(_request(count=-1)), "exactly.count: Invalid value: -1: must be greater than zero"),
    (
        _devices(_request(allocationMode="All", count=2)),
        "exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
    ),
    (_devices(_request(allocationMode="Any")), 'Unsupported value: "Any": supported values: "All", "ExactCount"'),
    (_devices(*(_request(f"r{i}") for i in range(33))), "requests: Too many: 33: must have at most 32 items"),
    (_devices(_request(selectors=[{}])), "exactly.selectors[0].cel: Required value"),
    (
        _devices(_request(selectors=_cel("device.nothing"))),
        'selectors[0].cel.expression: Invalid value: "device.nothing": compilation failed: ERROR:',
    ),
    (_devices(_request(selectors=_cel("1 + 1"))), "must evaluate to bool or the unknown type, not int"),
    (_devices(_request(selectors=_cel("true || " * 2000 + "true"))), "Too long: may not be more than 10240 bytes"),
    (
        _devices(_request(tolerations=[{"operator": "Exists", "value": "x"}])),
        'tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`',
    ),
    (
        _devices(_request(tolerations=[{"operator": "Exists", "effect": "X"}])),
        'Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None"',
    ),
    (
        _devices(_request(), constraints=[{"matchAttribute": "model"}]),
        'matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name',
    ),
    (
        _devices(_request(), constraints=[{"matchAttribute": "a.com/b", "requests": ["x"]}]),
        'constraints[0].requests[0]: Invalid value: "x": must be the name of a request in the claim',
    ),
    (_devices(_request(), config=[{}]), "config[0].opaque: Required value"),
    (
        _devices(_request(), config=[{"opaque": {"driver": "a.com", "parameters": [1]}}]),
        'parameters: Invalid value: "<value omitted>": must be a valid JSON object',
    ),
    (
        _devices(_request(adminAccess=True)),
        "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace",
    ),
]


@pytest.mark.parametrize(("spec", "text"), BAD_CLAIMS)
async def test_claims_that_break_a_rule(client: LocalClient, spec: JSON, text: str) -> None:
    """Each broken rule of a claim is 422 with upstream's words, and so it is in a template."""
    error = await refusal(client.create(CLAIMS, _claim(spec)))
    assert (error.code, error.reason) == (422, "Invalid")
    assert text in error.message
    template = {"kind": "ResourceClaimTemplate", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "t"}}
    assert (await refusal(client.create(TEMPLATES, {**template, "spec": {"spec": spec}}))).code == 422


async def test_admin_access_in_a_labelled_namespace(client: LocalClient) -> None:
    """The label on the namespace allows admin access."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await client.create(NAMESPACES, {"metadata": {"name": "admin", "labels": labels}})
    path = f"{GROUP}/namespaces/admin/resourceclaims"
    assert (await client.create(path, _claim(_devices(_request(adminAccess=True)))))["metadata"]["uid"]


async def test_the_spec_of_a_claim_is_immutable(client: LocalClient) -> None:
    """Neither a claim's nor a template's spec can change; labels can."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    changed = {"spec": {"devices": {"requests": [_request(count=2)]}}}
    error = await refusal(client.patch(f"{CLAIMS}/c", changed))
    assert error.message.endswith("field is immutable")
    assert (await client.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}}))["metadata"]["labels"] == {"a": "b"}


BAD_STATUSES: list[tuple[JSON, str]] = [
    (
        {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}},
        "may not be specified when `",
    ),
    (_allocated(_result(request="x")), 'results[0].request: Invalid value: "x": must be the name of a request'),
    (_allocated(_result(pool="")), "status.allocation.devices.results[0].pool: Required value"),
    (_allocated(_result(shareID="X")), "uid must be in RFC 4122 normalized form"),
    (_allocated(_result(bindingConditions=["a.com/b"])), "bindingFailureConditions are required to use binding"),
    (
        _allocated(_result(bindingConditions=["a"], bindingFailureConditions=["a"])),
        "bindingFailureConditions must not overlap with bindingConditions",
    ),
    (_allocated(_result(), reservedFor=[{"resource": "pods", "name": "p"}]), "reservedFor[0].uid: Required value"),
    (
        _allocated(_result(), devices=[{"driver": "gpu.example.com", "pool": "n", "device": "gpu-1"}]),
        'status.devices[0]: Invalid value: "gpu.example.com/n/gpu-1": must be an allocated device in the claim',
    ),
]


@pytest.mark.parametrize(("patch", "text"), BAD_STATUSES)
async def test_statuses_that_break_a_rule(client: LocalClient, patch: JSON, text: str) -> None:
    """A wrong allocation, reservation or device status is refused."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    error = await refusal(client.patch(f"{CLAIMS}/c/status", patch))
    assert error.code == 422
    assert text in error.message


async def test_an_allocation_cannot_change_and_takes_device_statuses_with_it(client: LocalClient) -> None:
    """An allocation can be removed but not replaced; then the statuses of its devices go too."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ok",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    state = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0", "conditions": [condition]}
    path = f"{CLAIMS}/c/status"
    claim = await client.patch(path, _allocated(_result(), devices=[state]))
    assert claim["status"]["devices"] == [state]
    error = await refusal(client.patch(path, _allocated(_result(device="gpu-1"), devices=None)))
    assert error.message.endswith("field is immutable")
    assert not (await client.patch(path, {"status": {"allocation": None}}))["status"].get("devices")


BAD_SLICES: list[tuple[JSON, str]] = [
    ({"driver": ""}, "spec.driver: Required value"),
    ({"pool": {"name": "a_b", "resourceSliceCount": 1}}, 'spec.pool.name: Invalid value: "a_b"'),
    ({"pool": {"name": "p"}}, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"),
    ({"nodeName": None}, "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDevice"),
    ({"allNodes": True}, 'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of'),
    ({"sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}]}, "only one of `sharedCounters` or `dev"),
    ({"devices": None, "sharedCounters": [{"name": "s"}]}, "spec.sharedCounters[0].counters: Required value"),
    ({"devices": [{"name": "a"}, {"name": "a"}]}, 'spec.devices[1]: Duplicate value: "a"'),
    ({"devices": [{"name": f"d{i}"} for i in range(129)]}, "spec.devices: Too many: 129: must have at most 128 items"),
    (_device(attributes={"a-b": {"int": 1}}), 'spec.devices[0].attributes: Invalid value: "a-b": a valid C identifier'),
    (_device(attributes={"a": {}}), 'attributes[a]: Invalid value: "": exactly one value must be specified'),
    (_device(attributes={"a": {"version": "1"}}), "must be a string compatible with semver.org spec 2.0.0"),
    (_device(attributes={f"a{i}": {"int": 1} for i in range(33)}), "attributes and capacities must not exceed 32"),
    (_device(taints=[{"key": "a"}]), "spec.devices[0].taints[0].effect: Required value"),
    (_device(nodeName="n"), "can only be set if `perDeviceNodeSelection` is set to true"),
    (
        _device(capacity={"m": {"value": "10Gi", "requestPolicy": {"default": "1Gi"}}}),
        "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
    ),
    (
        _device(
            allowMultipleAllocations=True,
            capacity={
                "m": {"value": "10Gi", "requestPolicy": {"default": "3Gi", "validRange": {"min": "1Gi", "max": "2Gi"}}}
            },
        ),
        'validRange.max: Invalid value: "3Gi": default is more than max: 2Gi',
    ),
    (
        _device(
            allowMultipleAllocations=True,
            capacity=_shared(default="3Gi", validValues=["2Gi", "1Gi"]),
        ),
        "values must be sorted in ascending order",
    ),
    (_device(consumesCounters=[{"counterSet": "s"}]), "consumesCounters[0].counters: Required value"),
]


@pytest.mark.parametrize(("spec", "text"), BAD_SLICES)
async def test_slices_that_break_a_rule(client: LocalClient, spec: JSON, text: str) -> None:
    """Each broken rule of a slice is 422 with upstream's words."""
    error = await refusal(client.create(SLICES, _slice(**spec)))
    assert error.code == 422
    assert text in error.message


async def test_what_a_slice_is_of_never_changes(client: LocalClient) -> None:
    """Node, driver and pool of a slice are immutable, its devices are not."""
    await client.create(SLICES, _slice())
    assert (
        "spec.nodeName: Invalid value"
        in (await refusal(client.patch(f"{SLICES}/s", {"spec": {"nodeName": "m"}}))).message
    )
    found = await client.patch(f"{SLICES}/s", {"spec": {"devices": [{"name": "gpu-1"}]}})
    assert found["metadata"]["generation"] == 2


async def test_slices_are_selected_by_node_and_driver(client: LocalClient) -> None:
    """Kubelets and drivers list their own slices by field."""
    for name, node in (("a", "one"), ("b", "two")):
        await client.create(SLICES, _slice(name, nodeName=node))
    found = await client.get(SLICES, query={"fieldSelector": "spec.nodeName=two,spec.driver=gpu.example.com"})
    assert [each["metadata"]["name"] for each in found["items"]] == ["b"]


async def test_columns(client: LocalClient) -> None:
    """kubectl shows a claim's state, and a slice's node, driver and pool."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    table = await client.get(CLAIMS, headers=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
    assert table["rows"][0]["cells"][:2] == ["c", "pending"]
    user = {"resource": "pods", "name": "p", "uid": "u"}
    await client.patch(f"{CLAIMS}/c/status", _allocated(_result(), reservedFor=[user]))
    assert (await client.get(CLAIMS, headers=TABLE))["rows"][0]["cells"][1] == "allocated,reserved"
    await client.create(SLICES, _slice())
    assert (await client.get(SLICES, headers=TABLE))["rows"][0]["cells"][:4] == ["s", "n", "gpu.example.com", "pool"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"selectors": _cel("device.driver")}, "must evaluate to bool"),
        ({"extendedResourceName": "cpu"}, 'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended'),
        ({"extendedResourceName": "kubernetes.io/gpu"}, "must be a valid extended resource name"),
        ({"config": [{"opaque": {"parameters": {}}}]}, "spec.config[0].opaque.driver: Required value"),
    ],
)
async def test_classes_that_break_a_rule(client: LocalClient, spec: JSON, text: str) -> None:
    """A class needs selectors that compile, and an extended resource needs a proper name."""
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}
    assert text in (await refusal(client.create(CLASSES, body))).message


async def test_taint_rules(client: LocalClient) -> None:
    """A rule needs an effect, gets the time of its taint, and its creation warns of the gate."""
    path = RULES
    body: JSON = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a"}, "deviceSelector": {"driver": "A_B"}}}
    error = await refusal(client.create(path, body))
    assert [cause.field for cause in error.causes] == ["spec.deviceSelector.driver", "spec.taint.effect"]
    body["spec"] = {"taint": {"key": "a", "effect": "None"}}
    response = await client.send("POST", path, body)
    assert response.status == 201
    assert "DRADeviceTaintRules" in "".join(response.warnings)
    assert (await client.get(f"{path}/r"))["spec"]["taint"]["timeAdded"]


async def test_taint_rules_in_two_versions(client: LocalClient) -> None:
    """The older version of the kind serves the same objects, each under the version that was asked for."""
    older = RULES.replace("v1beta2", "v1alpha3")
    body: JSON = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a", "effect": "NoSchedule"}}}
    made = await client.create(older, {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", **body})
    assert made["apiVersion"] == "resource.k8s.io/v1alpha3"
    found = await client.get(f"{RULES}/r")
    assert found["apiVersion"] == "resource.k8s.io/v1beta2"
    (listed,) = (await client.get(older))["items"]
    assert (listed["spec"], listed["metadata"]["uid"]) == (found["spec"], found["metadata"]["uid"])


@pytest.mark.parametrize(
    ("claims", "used", "text"),
    [
        ([{"name": "a"}], [], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        (
            [{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}],
            [],
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        ),
        ([{"name": "a", "resourceClaimName": "x"}] * 2, [], 'spec.resourceClaims[1].name: Duplicate value: "a"'),
        (
            [{"name": "a", "resourceClaimName": "x"}],
            [{"name": "b"}],
            'resources.claims[0]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a',
        ),
        ([], [{"name": "b"}], "must be one of the names in pod.spec.resourceClaims which is empty"),
        ([{"name": "a", "resourceClaimName": "x"}], [{"name": "a"}] * 2, 'claims[1]: Duplicate value: "a"'),
    ],
)
async def test_claims_of_pods(client: LocalClient, claims: list[JSON], used: list[JSON], text: str) -> None:
    """A pod names each claim once and from one source, and its containers use only those."""
    container = {"name": "c", "image": "nginx", "resources": {"claims": used}}
    error = await refusal(client.create(PODS, pod("p", resourceClaims=claims, containers=[container])))
    assert text in error.message


HOSTILE: list[Any] = [None, "x", 5, [None], {"a": None}, [], {}, [{}], {"a": {}}]
SLICE_FIELDS = ("driver", "nodeName", "pool", "devices", "sharedCounters", "nodeSelector")
DEVICE_FIELDS = ("name", "attributes", "capacity", "taints", "consumesCounters", "bindingConditions")
POLICY_FIELDS = ("default", "validValues", "validRange")
REQUEST_FIELDS = ("deviceClassName", "selectors", "tolerations", "count", "allocationMode", "capacity")


def _hostile_bodies(value: Any) -> Iterator[tuple[str, JSON]]:
    for field in SLICE_FIELDS:
        yield SLICES, _slice(**{field: value})
    for field in DEVICE_FIELDS:
        yield SLICES, _slice(**_device(**{field: value}))
    for field in POLICY_FIELDS:
        policy = {"default": "1", field: value}
        yield SLICES, _slice(**_device(allowMultipleAllocations=True, capacity=_shared(**policy)))
    for field in ("requests", "constraints", "config"):
        yield CLAIMS, _claim({"devices": {field: value}})
    for field in REQUEST_FIELDS:
        yield CLAIMS, _claim(_devices(_request(**{field: value})))
    for path in (CLAIMS, TEMPLATES, CLASSES, RULES):
        yield path, {"metadata": {"name": "x"}, "spec": value}
    yield TEMPLATES, {"metadata": {"name": "x"}, "spec": {"spec": value, "metadata": value}}
    yield PODS, pod("p", resourceClaims=value)


@pytest.mark.parametrize("value", HOSTILE)
async def test_hostile_values(client: LocalClient, value: Any) -> None:
    """A value of the wrong kind anywhere is stored or refused, never an internal error."""
    codes = {(await client.send("POST", path, body)).status for path, body in _hostile_bodies(value)}
    await client.create(CLAIMS, _claim(_devices(_request()), "allocated"))
    statuses: list[JSON] = [{field: value} for field in ("allocation", "devices", "reservedFor")]
    statuses += [{"allocation": {"devices": {field: value}}} for field in ("results", "config")]
    statuses += [{"allocation": {"devices": value, "nodeSelector": value}}]
    path = f"{CLAIMS}/allocated/status"
    codes |= {(await client.send("PATCH", path, {"status": s}, content_type=MERGE_PATCH)).status for s in statuses}
    assert codes <= {200, 201, 400, 409, 422}
