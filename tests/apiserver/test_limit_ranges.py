"""LimitRanges: defaults of containers, and bounds for containers, pods and claims."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import PODS, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def limit(client: LocalClient, name: str = "l", **fields: Any) -> None:
    """Create a limit range with one limit."""
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [fields]}}
    await client.create("/api/v1/namespaces/default/limitranges", body)


def with_resources(name: str = "p", **resources: JSON) -> JSON:
    """A pod whose container has these resources."""
    return pod(name, containers=[{"name": "c", "image": "nginx:1", "resources": resources}])


async def test_defaults(client: LocalClient) -> None:
    """A container gets the default limits and requests that it does not have, and an annotation lists them."""
    await limit(client, type="Container", default={"cpu": "500m", "memory": "1Gi"}, defaultRequest={"cpu": "100m"})
    made = await client.create(PODS, pod())
    (container,) = made["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "1Gi"}
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    note = "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
    assert made["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": note}
    assert made["status"]["qosClass"] == "Burstable"


async def test_given_amounts_stay(client: LocalClient) -> None:
    """A given limit is also the request, so the default request does not apply."""
    await limit(client, type="Container", default={"cpu": "500m"}, defaultRequest={"cpu": "100m"})
    made = await client.create(PODS, with_resources(limits={"cpu": "300m"}))
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "300m"}, "requests": {"cpu": "300m"}}
    assert "annotations" not in made["metadata"]


@pytest.mark.parametrize(
    ("bounds", "resources", "why"),
    [
        (
            {"min": {"cpu": "100m"}},
            {"requests": {"cpu": "50m"}},
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"max": {"cpu": "1"}, "default": {"cpu": "1"}},
            {"limits": {"cpu": "1500m"}},
            "maximum cpu usage per Container is 1, but limit is 1500m",
        ),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            {"requests": {"memory": "1Gi"}, "limits": {"memory": "3Gi"}},
            "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"min": {"cpu": "2", "memory": "2Gi"}},
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            "[minimum cpu usage per Container is 2, but request is 1,"
            " minimum memory usage per Container is 2Gi, but request is 1Gi]",
        ),
    ],
)
async def test_bounds_of_a_container(client: LocalClient, bounds: JSON, resources: JSON, why: str) -> None:
    """A container out of bounds is refused with upstream's message."""
    await limit(client, type="Container", **bounds)
    error = await refusal(client.create(PODS, with_resources(**resources)))
    assert (error.code, error.message) == (403, f'pods "p" is forbidden: {why}')


async def test_bounds_of_a_pod(client: LocalClient) -> None:
    """A pod's containers add up; of its init containers the largest counts, with the sidecars before it."""
    await limit(client, type="Pod", max={"cpu": "2"})
    one: JSON = {"name": "a", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}}}
    fits = pod("fits", containers=[one, {**one, "name": "b"}], initContainers=[{**one, "name": "i"}])
    await client.create(PODS, fits)
    sidecar = {**one, "name": "s", "restartPolicy": "Always"}
    error = await refusal(client.create(PODS, pod(containers=[one, {**one, "name": "b"}], initContainers=[sidecar])))
    assert error.message == 'pods "p" is forbidden: maximum cpu usage per Pod is 2, but limit is 3'
    error = await refusal(client.create(PODS, pod()))
    assert error.message == 'pods "p" is forbidden: maximum cpu usage per Pod is 2.  No limit is specified'


async def test_bounds_of_a_claim(client: LocalClient) -> None:
    """Claims are checked when they are created and when they grow."""
    await limit(client, type="PersistentVolumeClaim", max={"storage": "5Gi"}, min={"storage": "1Gi"})
    spec: JSON = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    error = await refusal(client.create(CLAIMS, claim))
    why = "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"
    assert error.message == f'persistentvolumeclaims "c" is forbidden: {why}'
    spec["resources"]["requests"]["storage"] = "2Gi"
    await client.create(CLAIMS, claim)


async def test_a_resize_stays_within_bounds(client: LocalClient) -> None:
    """Containers of a running pod cannot grow out of bounds; other updates of the pod are not checked."""
    await client.create(PODS, with_resources(requests={"cpu": "1"}, limits={"cpu": "2"}))
    await limit(client, type="Container", max={"cpu": "1"}, default={"cpu": "1"})
    bigger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}}
    error = await refusal(client.patch(f"{PODS}/p/resize", bigger))
    assert error.message == 'pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2'
    await client.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
