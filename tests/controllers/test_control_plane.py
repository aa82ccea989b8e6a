"""The objects by which a control plane describes itself: flow schemas, API services, ServiceCIDRs, leases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.controllers.world import World, world

from kubesched.apiserver.admission.allocation import ADDRESSES, RANGES
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.contrib.crds import DEFINITIONS
from kubesched.controllers.api_services import API_SERVICES
from kubesched.controllers.flow_control import FLOW_SCHEMAS, LEVELS, PRIORITY_LEVELS, SCHEMAS
from kubesched.embedded import ClusterSettings
from kubesched.reconcile.access import CONFIG_MAPS, ENDPOINT_SLICES, ENDPOINTS, LEASES, SERVICES

PORTS = {"ports": [{"port": 80}]}


@asynccontextmanager
async def described(clock: VirtualClock) -> AsyncIterator[World]:
    """A cluster with these objects."""
    async with world(clock, 1, ClusterSettings(seed=1, control_plane=True)) as w:
        w.api.bootstrap.announce("127.0.0.1", 6443)
        await clock.settle()
        yield w


def condition(w: World, storage: str, name: str) -> tuple[str, str, str]:
    """The only condition of an object: its type, status and reason."""
    (found,) = w.get(storage, name)["status"]["conditions"]
    return found["type"], found["status"], found["reason"]


@virtual_time
async def test_there_are_flow_schemas(clock: VirtualClock) -> None:
    """All default schemas and levels are there, valid, and no schema is dangling; deleted ones come back."""
    async with described(clock) as w:
        for storage, name in ((FLOW_SCHEMAS, "exempt"), (PRIORITY_LEVELS, "workload-low")):
            uid = w.get(storage, name)["metadata"]["uid"]
            w.delete(storage, name)
            await clock.settle()
            assert w.get(storage, name)["metadata"]["uid"] != uid
        assert w.names(FLOW_SCHEMAS) == sorted(SCHEMAS)
        assert w.names(PRIORITY_LEVELS) == sorted(LEVELS)
        assert {condition(w, FLOW_SCHEMAS, name) for name in SCHEMAS} == {("Dangling", "False", "Found")}


@virtual_time
async def test_a_schema_without_its_level_dangles(clock: VirtualClock) -> None:
    """A user's flow schema is dangling until the level that it names exists."""
    async with described(clock) as w:
        spec = {"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "mine"}}
        w.create(FLOW_SCHEMAS, "mine", spec)
        await clock.settle()
        assert condition(w, FLOW_SCHEMAS, "mine") == ("Dangling", "True", "NotFound")
        w.create(PRIORITY_LEVELS, "mine", LEVELS["catch-all"])
        await clock.settle()
        assert condition(w, FLOW_SCHEMAS, "mine") == ("Dangling", "False", "Found")


@virtual_time
async def test_what_is_served_is_registered(clock: VirtualClock) -> None:
    """There is an API service for each group and version; those of custom resources come and go with them."""
    async with described(clock) as w:
        served = {f"{each.version}.{each.group}" for each in w.api.registry} - {"v1.apiregistration.k8s.io"}
        assert set(w.names(API_SERVICES)) == served
        assert condition(w, API_SERVICES, "v1.apps") == ("Available", "True", "Local")
        w.api.bootstrap.define(DEFINITIONS[0])
        await clock.settle()
        (name,) = set(w.names(API_SERVICES)) - served
        w.delete(API_SERVICES, name)
        await clock.settle()
        assert condition(w, API_SERVICES, name) == ("Available", "True", "Local")
        w.delete("apiextensions.k8s.io/customresourcedefinitions", DEFINITIONS[0]["metadata"]["name"])
        await clock.advance(5)
        assert set(w.names(API_SERVICES)) == served


@virtual_time
async def test_an_api_of_another_server_is_not_available(clock: VirtualClock) -> None:
    """Its condition says that the service is missing, and with the service that requests are not passed on."""
    async with described(clock) as w:
        spec = {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "x", "namespace": "default"},
        }
        w.create(API_SERVICES, "v1.example.com", spec)
        await clock.settle()
        assert condition(w, API_SERVICES, "v1.example.com") == ("Available", "False", "ServiceNotFound")
        w.create(SERVICES, "x", PORTS)
        await clock.settle()
        assert condition(w, API_SERVICES, "v1.example.com") == ("Available", "False", "FailedDiscoveryCheck")


@virtual_time
async def test_addresses_of_services_are_objects(clock: VirtualClock) -> None:
    """Every service's address is an IPAddress, which comes back while the service has it and goes with it."""
    async with described(clock) as w:
        assert w.names(ADDRESSES) == ["10.96.0.1"]
        address = w.create(SERVICES, "web", PORTS)["spec"]["clusterIP"]
        await clock.settle()
        parent = {"resource": "services", "namespace": "default", "name": "web"}
        assert w.get(ADDRESSES, address)["spec"] == {"parentRef": parent}
        w.delete(ADDRESSES, address)
        await clock.settle()
        assert address in w.names(ADDRESSES)
        w.delete(SERVICES, "web")
        await clock.settle()
        assert w.names(ADDRESSES) == ["10.96.0.1"]


@virtual_time
async def test_services_take_addresses_of_every_range(clock: VirtualClock) -> None:
    """A new ServiceCIDR is ready and used; it is deleted only when no service has one of its addresses."""
    async with described(clock) as w:
        assert condition(w, RANGES, "kubernetes") == ("Ready", "True", "")
        far: JSON = {**PORTS, "clusterIP": "10.200.0.5"}
        with pytest.raises(StatusError, match="the provided network does not match the current range"):
            w.create(SERVICES, "far", far)
        w.create(RANGES, "more", {"cidrs": ["10.200.0.0/24"]})
        w.create(SERVICES, "far", far)
        await clock.settle()
        w.delete(RANGES, "more")
        await clock.settle()
        assert condition(w, RANGES, "more") == ("Ready", "False", "Terminating")
        w.delete(SERVICES, "far")
        await clock.settle()
        assert w.names(RANGES) == ["kubernetes"]


@virtual_time
async def test_the_api_server_keeps_its_own_objects(clock: VirtualClock) -> None:
    """Its lease is renewed, and its service and endpoints are there again ten seconds after somebody deletes them."""
    async with described(clock) as w:
        tracking = "kube-apiserver-legacy-service-account-token-tracking"
        assert list(w.get(CONFIG_MAPS, tracking, "kube-system")["data"]) == ["since"]
        (lease,) = w.names(LEASES, "kube-system")
        before = w.get(LEASES, lease, "kube-system")["spec"]
        for storage in (SERVICES, ENDPOINTS, ENDPOINT_SLICES):
            w.delete(storage, "kubernetes")
        await clock.advance(11)
        after = w.get(LEASES, lease, "kube-system")["spec"]
        assert after["renewTime"] > before["renewTime"]
        assert after["holderIdentity"] == before["holderIdentity"]
        assert w.get(SERVICES, "kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
        assert w.get(ENDPOINTS, "kubernetes")["subsets"][0]["ports"][0]["port"] == 6443
        assert w.get(ENDPOINT_SLICES, "kubernetes")["endpoints"][0]["addresses"] == ["127.0.0.1"]


@virtual_time
async def test_load_balancers_have_addresses(clock: VirtualClock) -> None:
    """Each gets an address of its own or the one that it asks for, and loses it with its type; classes are others'."""
    given = {"c": {"loadBalancerIP": "203.0.113.7"}, "d": {"loadBalancerClass": "example.com/other"}}
    async with described(clock) as w:
        for name in "abcd":
            w.create(SERVICES, name, {"ports": [{"port": 80}], "type": "LoadBalancer", **given.get(name, {})})
        await clock.settle()
        found = [w.get(SERVICES, name)["status"]["loadBalancer"].get("ingress") for name in "abcd"]
        wanted = ["198.18.0.1", "198.18.0.2", "203.0.113.7"]
        assert found == [*([{"ip": text, "ipMode": "VIP"}] for text in wanted), None]
        w.edit(SERVICES, "a", type="ClusterIP")
        await clock.settle()
        assert w.get(SERVICES, "a")["status"]["loadBalancer"] == {}
