"""The flow schemas, priority levels and API services that the embedded cluster begins with are those of a real one."""

from __future__ import annotations

import json

from tests.e2e.control_plane import ControlPlane

from kubesched.apiserver.apiserver import ApiServer
from kubesched.base.types import JSON
from kubesched.controllers.api_services import API_SERVICES
from kubesched.controllers.flow_control import LEVELS, SCHEMAS
from kubesched.embedded import ClusterSettings, EmbeddedCluster


def _specs(plane: ControlPlane, path: str) -> dict[str, JSON]:
    body = json.loads(plane.admin.ask("GET", f"/apis/{path}")[1])
    return {each["metadata"]["name"]: each["spec"] for each in body["items"]}


def test_defaults_of_flow_control_are_the_same(plane: ControlPlane) -> None:
    """Names and specs are kube-apiserver's."""
    group = "flowcontrol.apiserver.k8s.io/v1"
    assert _specs(plane, f"{group}/flowschemas") == SCHEMAS
    assert _specs(plane, f"{group}/prioritylevelconfigurations") == LEVELS


async def test_api_services_have_the_same_priorities(plane: ControlPlane) -> None:
    """Every API service of kube-apiserver is there with its spec."""
    cluster = EmbeddedCluster(ApiServer(), ClusterSettings(control_plane=True))
    for controller in cluster.controllers.controllers:
        if controller.name == "autoregister":
            controller.sync("")
    own = {record.key: record.load()["spec"] for record in cluster.api.store.records(API_SERVICES)}
    theirs = _specs(plane, "apiregistration.k8s.io/v1/apiservices")
    assert {name: own.get(name) for name in theirs} == theirs
