"""The kinds of resource.k8s.io."""

import pytest

from kubesched.api import objects as api

SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"index": {"int": 1}, "ecc": {"bool": False}, "model": {"string": "a100"}},
                "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi"]}}},
                "allowMultipleAllocations": True,
                "bindingConditions": ["ready"],
            }
        ],
    },
}


def test_a_slice_has_what_the_allocator_reads() -> None:
    """A ResourceSlice decodes with attributes, capacities and policies of its devices."""
    found = api.decode(SLICE)
    assert isinstance(found, api.ResourceSlice)
    assert found.key == "s"
    (device,) = found.spec.devices
    assert device.attributes["index"].int_ == 1
    assert device.attributes["ecc"].bool_ is False
    policy = device.capacity["memory"].request_policy
    assert policy is not None
    assert policy.default == "1Gi"
    assert device.allow_multiple_allocations
    assert device.binding_conditions == ("ready",)


def test_a_malformed_capacity_is_named() -> None:
    """A capacity that is no quantity is refused with the path to it."""
    broken = {"metadata": {"name": "s"}, "spec": {"devices": [{"capacity": {"memory": {"value": "lots"}}}]}}
    with pytest.raises(api.InvalidObject, match=r'spec\.devices\[0\]\.capacity\["memory"\]\.value: quantity "lots"'):
        api.decode_as(api.ResourceSlice, broken)
