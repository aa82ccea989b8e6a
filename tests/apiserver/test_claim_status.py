"""Who may write which part of a claim's status."""

from __future__ import annotations

from tests.apiserver.support import NAMESPACES, as_user, refusal
from tests.apiserver.test_devices import CLAIMS, MERGE_PATCH, _allocated, _claim, _devices, _request, _result

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.claim_status import ClaimStatusAuthorization
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.wire.request import UserInfo
from kubesched.base.types import JSON

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def grant(client: LocalClient, name: str, *rules: tuple[str, str]) -> None:
    """Let the user carol do these things, each a verb and a subresource of claims."""
    granted = [
        {"apiGroups": ["resource.k8s.io"], "verbs": [verb], "resources": [f"resourceclaims/{part}"]}
        for verb, part in rules
    ]
    await client.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": granted})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    await client.create(f"{RBAC}/clusterrolebindings", binding)


def status(**more: object) -> JSON:
    return _allocated(_result(), **more)


async def test_allocations_need_a_permission_of_their_own(api: ApiServer, client: LocalClient) -> None:
    """Whoever may only write the status cannot allocate, reserve or release; with resourceclaims/binding they can."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    carol = as_user(api, "carol")
    await grant(client, "status", ("patch", "status"))
    error = await refusal(carol.patch(f"{CLAIMS}/c/status", status(), MERGE_PATCH))
    assert error.code == 422
    assert (
        "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires"
        ' resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden:'
        ' User "carol" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io"'
        " at the cluster scope"
    ) in error.message
    await grant(client, "binding", ("patch", "binding"))
    stored = await carol.patch(f"{CLAIMS}/c/status", status(), MERGE_PATCH)
    assert stored["status"]["allocation"]


async def test_devices_need_the_permission_for_their_driver(api: ApiServer, client: LocalClient) -> None:
    """The status of a device is for those who may write for its driver on any node."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    await client.patch(f"{CLAIMS}/c/status", status(), MERGE_PATCH)
    carol = as_user(api, "carol")
    await grant(client, "status", ("patch", "status"))
    device = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    error = await refusal(carol.patch(f"{CLAIMS}/c/status", {"status": {"devices": [device]}}, MERGE_PATCH))
    wanted = 'status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission'
    assert wanted in error.message
    await grant(client, "driver", ("arbitrary-node:patch", "driver"))
    stored = await carol.patch(f"{CLAIMS}/c/status", {"status": {"devices": [device]}}, MERGE_PATCH)
    assert stored["status"]["devices"] == [device]


async def test_drivers_on_the_node_of_the_claim(api: ApiServer, client: LocalClient) -> None:
    """A service account on the node of the devices may use the weaker permission; one elsewhere may not."""
    await client.create(
        f"{RBAC}/clusterroles",
        {
            "metadata": {"name": "driver"},
            "rules": [
                {
                    "apiGroups": ["resource.k8s.io"],
                    "verbs": ["associated-node:update"],
                    "resources": ["resourceclaims/driver"],
                }
            ],
        },
    )
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "driver"}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "driver"}
    await client.create(
        f"{RBAC}/clusterrolebindings", {"metadata": {"name": "driver"}, "roleRef": role, "subjects": [subject]}
    )
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    old: JSON = {"metadata": {"namespace": "default"}, **status()}
    old["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    device = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    new = {**old, "status": {**old["status"], "devices": [device]}}
    rules = ClaimStatusAuthorization(api.authorizer)
    for node, refused in (("n1", 0), ("n2", 1)):
        extra = {"authentication.kubernetes.io/node-name": (node,)}
        user = UserInfo("system:serviceaccount:default:driver", ("system:serviceaccounts",), extra=extra)
        assert len(list(rules.problems("update", user, old, new))) == refused


async def test_admin_access_needs_the_namespaces_label(client: LocalClient) -> None:
    """An allocation with admin access is refused in a namespace without the label."""
    await client.create(CLAIMS, _claim(_devices(_request())))
    body = _allocated(_result(adminAccess=True))
    error = await refusal(client.patch(f"{CLAIMS}/c/status", body, MERGE_PATCH))
    assert "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices" in error.message
    await client.patch(
        f"{NAMESPACES}/default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}, MERGE_PATCH
    )
    await client.patch(f"{CLAIMS}/c/status", body, MERGE_PATCH)
