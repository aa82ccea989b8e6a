"""Workloads and pod groups in the embedded API server."""

from __future__ import annotations

import pytest
from tests.apiserver.support import TABLE, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

ROOT = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
GROUPS = f"{ROOT}/podgroups"
GANG: JSON = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def group(spec: JSON, name: str = "g") -> JSON:
    """A PodGroup."""
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_group_is_stored_with_its_status(client: LocalClient) -> None:
    """A new group gets defaults; its status is written on its own, and shown in tables."""
    created = await client.create(GROUPS, group(GANG))
    assert created["spec"] == {**GANG, "disruptionMode": "Pod"}
    condition = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await client.patch(f"{GROUPS}/g/status", {"status": {"conditions": [condition]}})
    stored = await client.get(f"{GROUPS}/g")
    assert stored["status"] == {"conditions": [condition]}
    table = await client.get(GROUPS, headers=TABLE)
    assert table["rows"][0]["cells"][:4] == ["g", "Gang", "<none>", "Scheduled"]


async def test_a_group_gets_the_priority_of_its_class(client: LocalClient) -> None:
    """The class's value is the group's priority; a class that does not exist is refused."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.create(classes, {"metadata": {"name": "high"}, "value": 1000})
    created = await client.create(GROUPS, group({**GANG, "priorityClassName": "high"}))
    assert created["spec"]["priority"] == 1000
    error = await refusal(client.create(GROUPS, group({**GANG, "priorityClassName": "none"}, "other")))
    assert (error.code, "no PriorityClass with name none was found" in error.message) == (403, True)


PROBLEMS: list[tuple[JSON, str]] = [
    ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
    ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "must specify exactly one of: `basic`, `gang`"),
    ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
    ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "must be greater than or equal to 1"),
    ({**GANG, "disruptionMode": "Never"}, 'Unsupported value: "Never": supported values: "Pod", "PodGroup"'),
    (
        {**GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "Too many: 2: must have at most 1 item",
    ),
    ({**GANG, "schedulingConstraints": {"topology": [{"key": "a b"}]}}, "spec.schedulingConstraints.topology[0].key"),
    ({**GANG, "podGroupTemplateRef": {"workload": {"workloadName": "w"}}}, "podGroupTemplateName: Required value"),
    (
        {**GANG, "resourceClaims": [{"name": "a"}]},
        "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
    ),
    (
        {**GANG, "resourceClaims": [{"name": "a", "resourceClaimName": "b"}] * 2},
        'spec.resourceClaims[1]: Duplicate value: {"name":"a"}',
    ),
    (
        {**GANG, "resourceClaims": [{"name": f"a{n}", "resourceClaimName": "b"} for n in range(5)]},
        "spec.resourceClaims: Too many: 5: must have at most 4 items",
    ),
    (
        {**GANG, "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "B"}]},
        "spec.resourceClaims[0].resourceClaimTemplateName: Invalid value",
    ),
]


@pytest.mark.parametrize(("spec", "text"), PROBLEMS)
async def test_groups_that_break_a_rule(client: LocalClient, spec: JSON, text: str) -> None:
    """Each broken rule is 422 with upstream's words."""
    error = await refusal(client.create(GROUPS, group(spec)))
    assert error.code == 422
    assert text in error.message


async def test_a_group_cannot_be_changed(client: LocalClient) -> None:
    """The policy of a group is immutable; its labels are not."""
    await client.create(GROUPS, group(GANG))
    error = await refusal(client.patch(f"{GROUPS}/g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}))
    assert "spec.schedulingPolicy: Invalid value" in error.message
    assert "field is immutable" in error.message
    changed = await client.patch(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["labels"] == {"a": "b"}


async def test_workloads(client: LocalClient) -> None:
    """A Workload needs templates, with names of their own."""
    path = f"{ROOT}/workloads"
    template = {"name": "t", **GANG}
    await client.create(path, {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}})
    error = await refusal(client.create(path, {"metadata": {"name": "x"}, "spec": {"podGroupTemplates": []}}))
    assert "spec.podGroupTemplates: Required value" in error.message
    twice = {"metadata": {"name": "x"}, "spec": {"podGroupTemplates": [template, template]}}
    error = await refusal(client.create(path, twice))
    assert 'spec.podGroupTemplates[1]: Duplicate value: {"name":"t"}' in error.message


async def test_the_controller_of_a_workload(client: LocalClient) -> None:
    """A controllerRef needs kind and name, which fit into a path, and a group that is a domain."""
    path = f"{ROOT}/workloads"
    spec = {"podGroupTemplates": [{"name": "t", **GANG}]}
    for reference, text in (
        ({"name": "j"}, "spec.controllerRef.kind: Required value"),
        ({"kind": "Job"}, "spec.controllerRef.name: Required value"),
        ({"kind": "Job", "name": "a/b"}, "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'"),
        ({"kind": "..", "name": "a"}, "spec.controllerRef.kind: Invalid value: \"..\": may not be '..'"),
        ({"kind": "Job", "name": "a", "apiGroup": "B"}, "spec.controllerRef.apiGroup: Invalid value"),
    ):
        error = await refusal(
            client.create(path, {"metadata": {"name": "w"}, "spec": {**spec, "controllerRef": reference}})
        )
        assert (error.code, text in error.message) == (422, True), error.message
    good = {"kind": "Job", "name": "j", "apiGroup": "batch"}
    await client.create(path, {"metadata": {"name": "w"}, "spec": {**spec, "controllerRef": good}})


async def test_a_group_needs_the_template_it_refers_to(client: LocalClient) -> None:
    """A PodGroup is refused if its Workload, or the template in it, does not exist."""
    spec = {**GANG, "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}
    error = await refusal(client.create(GROUPS, group(spec)))
    assert (error.code, 'PodGroup rejected: Workload "w" not found' in error.message) == (403, True)
    workload = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "other", **GANG}]}}
    await client.create(f"{ROOT}/workloads", workload)
    error = await refusal(client.create(GROUPS, group(spec)))
    assert 'PodGroup rejected: PodGroupTemplate "t" not found in Workload "w"' in error.message
    spec["podGroupTemplateRef"]["workload"]["podGroupTemplateName"] = "other"
    await client.create(GROUPS, group(spec))


async def test_claim_statuses_of_a_group_match_its_claims(client: LocalClient) -> None:
    """A status for a claim that the group does not have is refused."""
    await client.create(GROUPS, group({**GANG, "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}))
    status = {"resourceClaimStatuses": [{"name": "other", "resourceClaimName": "c"}]}
    error = await refusal(client.patch(f"{GROUPS}/g/status", {"status": status}))
    assert "must match the name of an entry in `spec.resourceClaims`" in error.message


async def test_the_group_of_a_pod_has_a_valid_name(client: LocalClient) -> None:
    """A pod's schedulingGroup names a group, by a name that a group can have."""
    for name, text in ((None, "must specify one of: `podGroupName`"), ("A", "RFC 1123 subdomain"), ("", "RFC 1123")):
        spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": name}}
        error = await refusal(
            client.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        )
        assert (error.code, text in error.message) == (422, True), error.message
