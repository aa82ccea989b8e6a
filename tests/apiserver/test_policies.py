"""ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

GROUP = "/apis/admissionregistration.k8s.io/v1"
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
REPLICAS = [{"expression": "object.spec.replicas > 1", "messageExpression": "'got ' + string(object.spec.replicas)"}]


async def policy(client: LocalClient, rules: list[JSON], binding: JSON | None = None, **spec: Any) -> None:
    """Create the policy p and its binding b."""
    match = {"resourceRules": [EVERYTHING]}
    body: JSON = {"spec": {"matchConstraints": match, "validations": rules, **spec}}
    for kind, name, plural in (
        ("ValidatingAdmissionPolicy", "p", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "b", "validatingadmissionpolicybindings"),
    ):
        meta = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        await client.create(f"{GROUP}/{plural}", {**meta, **body})
        body = {"spec": {"policyName": "p", "validationActions": ["Deny"], **(binding or {})}}


async def test_a_broken_rule_refuses(client: LocalClient) -> None:
    """A write that breaks a rule is refused with the message of the rule; others pass."""
    only = {"resourceRules": [{**EVERYTHING, "resources": ["deployments"]}]}
    await policy(client, REPLICAS, matchConstraints=only)
    error = await refusal(client.create(DEPLOYMENTS, deployment("d", 1)))
    why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: got 1"
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == f'deployments.apps "d" is forbidden: {why}'
    await client.create(DEPLOYMENTS, deployment("d", 2))
    await client.create(PODS, pod())
    assert "denied request" in (await refusal(client.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 1}}))).message


async def test_variables_and_parameters(client: LocalClient) -> None:
    """Rules may use variables, which may use one another, and the parameters of the binding."""
    await client.create(CONFIG_MAPS, config_map("limits", most="3"))
    await policy(
        client,
        [{"expression": "variables.most >= object.spec.replicas", "reason": "Forbidden"}],
        {"paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}},
        matchConstraints={"resourceRules": [{**EVERYTHING, "resources": ["deployments"]}]},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[
            {"name": "text", "expression": "params.data.most"},
            {"name": "most", "expression": "int(variables.text)"},
        ],
    )
    error = await refusal(client.create(DEPLOYMENTS, deployment("d", 4)))
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message.endswith("denied request: failed expression: variables.most >= object.spec.replicas")
    await client.create(DEPLOYMENTS, deployment("d", 3))
    await client.delete(f"{CONFIG_MAPS}/limits")
    assert "no params found" in (await refusal(client.create(DEPLOYMENTS, deployment("e", 1)))).message


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ("request.operation != 'DELETE'", True),
        ("request.userInfo.username.startsWith('system:')", False),
        ("namespaceObject.metadata.name == 'default'", False),
        ("oldObject.data.size() == 0", True),
        ("object == null", False),
    ],
)
async def test_deletion(client: LocalClient, rule: str, refused: bool) -> None:
    """Deletions are checked as well; then there is an old object and no new one."""
    await client.create(CONFIG_MAPS, config_map("c", a="b"))
    deletions = {"resourceRules": [{**EVERYTHING, "operations": ["DELETE"]}]}
    await policy(client, [{"expression": rule}], matchConstraints=deletions)
    if refused:
        await refusal(client.delete(f"{CONFIG_MAPS}/c"))
    else:
        await client.delete(f"{CONFIG_MAPS}/c")


@pytest.mark.parametrize(
    ("spec", "binding"),
    [
        ({"matchConditions": [{"name": "m", "expression": "object.metadata.name != 'c'"}]}, {}),
        ({"failurePolicy": "Ignore", "validations": [{"expression": "object.no.such.field"}]}, {}),
        ({}, {"matchResources": {"namespaceSelector": {"matchLabels": {"no": "such"}}}}),
        ({}, {"matchResources": {"objectSelector": {"matchLabels": {"no": "such"}}}}),
        ({}, {"matchResources": {"excludeResourceRules": [EVERYTHING]}}),
        ({}, {"validationActions": ["Audit"]}),
    ],
)
async def test_writes_that_a_policy_does_not_refuse(client: LocalClient, spec: JSON, binding: JSON) -> None:
    """Conditions, selectors, excluded resources, ignored errors and other actions let a write pass."""
    await policy(client, [{"expression": "false"}], binding, **spec)
    await client.create(CONFIG_MAPS, config_map("c"))


async def test_an_error_refuses(client: LocalClient) -> None:
    """By default an expression that fails or does not compile refuses the write and says why."""
    await policy(client, [{"expression": "object.no.such.field"}])
    error = await refusal(client.create(CONFIG_MAPS, config_map("c")))
    assert "expression 'object.no.such.field' resulted in error: no such key: no" in error.message


async def test_warnings(client: LocalClient) -> None:
    """The action Warn stores the object and warns the client."""
    await policy(client, [{"expression": "false", "message": "not so good"}], {"validationActions": ["Warn"]})
    response = await client.send("POST", CONFIG_MAPS, config_map("c"))
    assert response.status == 201
    where = "ValidatingAdmissionPolicy 'p' with binding 'b'"
    assert response.warnings == [f"Validation failed for {where}: not so good"]
