"""ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.patch import MERGE_PATCH
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


@pytest.mark.parametrize(("resources", "refused"), [("deployments", False), ("deployments/scale", True), ("*/*", True)])
async def test_scaling_is_a_write_of_its_own(client: LocalClient, resources: str, refused: bool) -> None:
    """kubectl scale writes a Scale: policies about deployments do not see it, those about deployments/scale do."""
    await client.create(DEPLOYMENTS, deployment("d", 2))
    await policy(client, REPLICAS, matchConstraints={"resourceRules": [{**EVERYTHING, "resources": [resources]}]})
    response = await client.send("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 1}}, content_type=MERGE_PATCH)
    assert response.status == (422 if refused else 200)


@pytest.mark.parametrize("part", ["binding", "eviction"])
async def test_bindings_and_evictions_are_writes_of_their_own(client: LocalClient, part: str) -> None:
    """Policies about pods/binding and pods/eviction see the body, under the kind that it has; others do not see it."""
    await client.create(PODS, pod())
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    if part == "eviction":
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    rule = "request.kind.kind != object.kind || request.subResource != '{}' || request.namespace != 'default'"
    only = {"resourceRules": [{**EVERYTHING, "resources": [f"pods/{part}"]}]}
    await policy(client, [{"expression": rule.format(part)}], matchConstraints=only)
    error = await refusal(client.create(f"{PODS}/p/{part}", body))
    assert error.message.startswith("pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied")
    only["resourceRules"][0]["resources"] = ["pods"]
    await client.patch(f"{GROUP}/validatingadmissionpolicies/p", {"spec": {"matchConstraints": only}})
    await client.create(f"{PODS}/p/{part}", body)


@pytest.mark.parametrize(
    ("expression", "refused"),
    [
        ("request.subResource == ''", "resulted in error: no such key: subResource"),
        ("has(request.subResource) || has(request.userInfo.extra)", "failed expression"),
        ("has(request.name) && has(request.namespace) && has(request.dryRun)", ""),
        ("request.options.kind == 'CreateOptions' && request.options.apiVersion == 'meta.k8s.io/v1'", ""),
    ],
)
async def test_what_is_empty_in_a_request_is_missing(client: LocalClient, expression: str, refused: str) -> None:
    """As in a real API server, an expression that reads the name of a subresource where there is none fails."""
    await policy(client, [{"expression": expression}])
    if refused:
        assert refused in (await refusal(client.create(CONFIG_MAPS, config_map("c")))).message
    else:
        await client.create(CONFIG_MAPS, config_map("c"))


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
        ({"failurePolicy": "Ignore", "validations": [{"expression": "object.no.such.field == 1"}]}, {}),
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
    await policy(client, [{"expression": "object.no.such.field == 1"}])
    error = await refusal(client.create(CONFIG_MAPS, config_map("c")))
    assert "expression 'object.no.such.field == 1' resulted in error: no such key: no" in error.message


async def test_warnings(client: LocalClient) -> None:
    """The action Warn stores the object and warns the client."""
    await policy(client, [{"expression": "false", "message": "not so good"}], {"validationActions": ["Warn"]})
    response = await client.send("POST", CONFIG_MAPS, config_map("c"))
    assert response.status == 201
    where = "ValidatingAdmissionPolicy 'p' with binding 'b'"
    assert response.warnings == [f"Validation failed for {where}: not so good"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"validations": [{"expression": "object.a"}]}, 'Invalid value: "object.a": must evaluate to bool but got dyn'),
        ({"validations": [{"expression": "1 +"}]}, "spec.validations[0].expression: Invalid value"),
        ({"validations": []}, "spec.validations: Required value: validations or auditAnnotations must contain"),
        ({"validations": [{"expression": "true", "messageExpression": "1"}]}, "must evaluate to string but got int"),
        ({"validations": [{"expression": "true", "reason": "Odd"}]}, 'reason: Unsupported value: "Odd"'),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, "must not contain line breaks"),
        ({"matchConstraints": None}, "spec.matchConstraints: Required value"),
        ({"matchConditions": [{"name": "", "expression": "true"}]}, "spec.matchConditions[0].name: Required value"),
        (
            {"matchConstraints": {"resourceRules": [{**EVERYTHING, "operations": ["*", "CREATE"]}]}},
            "if '*' is present, must not specify other operations",
        ),
    ],
)
async def test_policies_that_are_refused(client: LocalClient, spec: JSON, message: str) -> None:
    """A policy that cannot work is refused with upstream's words."""
    whole = {"matchConstraints": {"resourceRules": [EVERYTHING]}, "validations": [{"expression": "true"}], **spec}
    error = await refusal(
        client.create(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": whole})
    )
    assert error.code == 422
    assert message in error.message


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "at least one validation action is required"),
        (["Deny", "Warn"], "must not contain both Deny and Warn"),
        (["Sing"], 'Unsupported value: "Sing": supported values: "Audit", "Deny", "Warn"'),
        (["Deny", "Deny"], 'spec.validationActions[1]: Duplicate value: "Deny"'),
    ],
)
async def test_actions_that_are_refused(client: LocalClient, actions: list[str], message: str) -> None:
    """A binding needs actions that make sense together."""
    body = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": actions}}
    error = await refusal(client.create(f"{GROUP}/validatingadmissionpolicybindings", body))
    assert message in error.message
