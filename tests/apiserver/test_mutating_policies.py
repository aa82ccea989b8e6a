"""MutatingAdmissionPolicies and their bindings. The messages are those of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import CONFIG_MAPS, DEPLOYMENTS, PODS, as_user, config_map, deployment, pod, refusal
from tests.apiserver.test_crd import DEFINITIONS, TABS, definition, tab

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

GROUP = "/apis/admissionregistration.k8s.io/v1"
TEMPLATE = "Object.spec.template"


def rule(*resources: str, **fields: Any) -> JSON:
    """Writes to some resources."""
    return {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        **fields,
    }


def merged(expression: str) -> JSON:
    """A mutation by an apply configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> JSON:
    """A mutation by a JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy_object(*mutations: JSON, name: str = "p", resource: str = "deployments", **spec: Any) -> JSON:
    """A policy for one resource."""
    body = {"matchConstraints": {"resourceRules": [rule(resource)]}, "reinvocationPolicy": "Never", **spec}
    return {"metadata": {"name": name}, "spec": {"mutations": list(mutations), **body}}


async def policy(client: LocalClient, *mutations: JSON, binding: JSON | None = None, **spec: Any) -> None:
    """Create a policy and its binding of the same name."""
    made = await client.create(f"{GROUP}/mutatingadmissionpolicies", policy_object(*mutations, **spec))
    name = made["metadata"]["name"]
    body = {"metadata": {"name": name}, "spec": {"policyName": name, **(binding or {})}}
    await client.create(f"{GROUP}/mutatingadmissionpolicybindings", body)


async def test_apply_configurations_merge(client: LocalClient) -> None:
    """An object is merged as by server-side apply: containers by name, defaults for what is new, the rest kept."""
    containers = f"{TEMPLATE}.spec.containers"
    env = f"env: [{containers}.env{{name: 'A', value: object.metadata.name}}]"
    both = f"[{containers}{{name: 'c', {env}}}, {containers}{{name: 'side', image: 'proxy'}}]"
    spec = f"{TEMPLATE}{{spec: {TEMPLATE}.spec{{containers: {both}}}}}"
    await policy(client, merged(f"Object{{spec: Object.spec{{replicas: 3, template: {spec}}}}}"))
    made = await client.create(DEPLOYMENTS, deployment("d", 1))
    first, second = made["spec"]["template"]["spec"]["containers"]
    assert (made["spec"]["replicas"], first["image"], first["env"]) == (3, "nginx", [{"name": "A", "value": "d"}])
    assert (second["image"], second["imagePullPolicy"]) == ("proxy", "Always")
    assert made["metadata"]["generation"] == 1
    changed = await client.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 9, "paused": True}})
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (3, 2)


async def test_json_patches(client: LocalClient) -> None:
    """Operations are applied in order; keys can be escaped; a test that fails leaves the object as it was."""
    key = "'/metadata/annotations/' + jsonpatch.escapeKey('example.com/a')"
    await policy(
        client,
        patched("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'x': 'y'}}]"),
        patched(f"[JSONPatch{{op: 'add', path: {key}, value: string(object.metadata.annotations.size())}}]"),
        patched("[JSONPatch{op: 'test', path: '/data/a', value: 'no'}, JSONPatch{op: 'remove', path: '/data'}]"),
        patched("object.data.a == 'b' ? [JSONPatch{op: 'copy', from: '/data/a', path: '/data/c'}] : []"),
        resource="configmaps",
    )
    made = await client.create(CONFIG_MAPS, config_map("c", a="b"))
    assert made["metadata"]["annotations"] == {"x": "y", "example.com/a": "1"}
    assert made["data"] == {"a": "b", "c": "b"}


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (merged("Object{spec: Object.wrong{replicas: 1}}"), 'type mismatch: unexpected type name "Object.wrong"'),
        (merged("Object{spec: Object.spec{foo: 1}}"), ".spec.foo: field not declared in schema"),
        (merged("Object{spec: Object.spec{replicas: object.nope}}"), "resulted in error: no such key: nope"),
        (
            merged("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}"),
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector",
        ),
        (
            patched("[JSONPatch{op: 'add', path: '/spec/a/b', value: 1}]"),
            'JSON Patch: add operation does not apply: doc is missing path: "/spec/a/b": missing value',
        ),
        (
            patched("[JSONPatch{op: 'remove', path: '/spec/nope'}]"),
            "JSON Patch: error in remove for path: '/spec/nope': Unable to remove nonexistent key: nope: missing value",
        ),
    ],
)
async def test_a_mutation_that_fails(client: LocalClient, mutation: JSON, why: str) -> None:
    """A failing mutation refuses the write and says why, unless the policy ignores failures."""
    await policy(client, mutation)
    error = await refusal(client.create(DEPLOYMENTS, deployment()))
    assert (error.code, error.reason) == (403, "Invalid")
    assert error.message.startswith("policy 'p' with binding 'p' denied request: ")
    assert why in error.message
    await client.patch(f"{GROUP}/mutatingadmissionpolicies/p", {"spec": {"failurePolicy": "Ignore"}})
    await client.create(DEPLOYMENTS, deployment())


async def test_a_patch_to_an_unknown_field(client: LocalClient) -> None:
    """The result of a patch must be an object of the kind."""
    await policy(client, patched("[JSONPatch{op: 'add', path: '/spec/nope', value: 1}]"))
    error = await refusal(client.create(DEPLOYMENTS, deployment()))
    assert (error.code, 'unknown field "spec.nope"' in error.message) == (500, True)


@pytest.mark.parametrize(
    ("operation", "patch"),
    [
        ("CREATE", "'replace', path: '/metadata/namespace', value: 'other'"),
        ("UPDATE", "'replace', path: '/metadata/namespace', value: 'other'"),
        ("CREATE", "'remove', path: '/metadata'"),
    ],
)
async def test_an_object_stays_where_it_is(client: LocalClient, operation: str, patch: str) -> None:
    """A patch that moves an object to another namespace, or takes a new one's name away, is refused."""
    matches = {"resourceRules": [rule("configmaps", operations=[operation])]}
    await policy(client, patched(f"[JSONPatch{{op: {patch}}}]"), matchConstraints=matches)
    if operation == "UPDATE":
        await client.create(CONFIG_MAPS, config_map("c"))
        error = await refusal(client.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "b"}}))
    else:
        error = await refusal(client.create(CONFIG_MAPS, config_map("c")))
    assert error.code in (400, 422)


async def test_identity_is_the_servers(client: LocalClient) -> None:
    """No policy can choose the uid or the deletion time of a new object."""
    patches = "[JSONPatch{op: 'add', path: '/metadata/uid', value: 'forged'}, JSONPatch{op: 'add', "
    patches += "path: '/metadata/deletionTimestamp', value: '2026-01-01T00:00:00Z'}]"
    await policy(client, patched(patches), resource="configmaps")
    made = await client.create(CONFIG_MAPS, config_map("c"))
    assert made["metadata"]["uid"] != "forged"
    assert "deletionTimestamp" not in made["metadata"]


async def test_variables_conditions_and_parameters(client: LocalClient) -> None:
    """Mutations use variables and parameters; conditions decide whether they run, and false wins over an error."""
    await client.create(CONFIG_MAPS, config_map("limits", most="3"))
    await policy(
        client,
        merged("Object{spec: Object.spec{replicas: variables.most}}"),
        binding={"paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "most", "expression": "int(params.data.most)"}],
        matchConditions=[
            {"name": "broken", "expression": "object.metadata.name == 'd' || object.nope == 1"},
            {"name": "many", "expression": "object.spec.replicas > 3"},
        ],
    )
    assert (await client.create(DEPLOYMENTS, deployment("d", 5)))["spec"]["replicas"] == 3
    assert (await client.create(DEPLOYMENTS, deployment("e", 2)))["spec"]["replicas"] == 2
    assert "no such key: nope" in (await refusal(client.create(DEPLOYMENTS, deployment("f", 5)))).message
    await client.delete(f"{CONFIG_MAPS}/limits")
    assert "no params found" in (await refusal(client.create(DEPLOYMENTS, deployment("g", 5)))).message


async def test_bindings_that_cannot_be_used_are_reported_first(client: LocalClient) -> None:
    """Before the policies that ran and failed; and the name in the details is the one that was sent."""
    await policy(client, merged("Object{spec: Object.spec{replicas: object.nope}}"), name="a")
    await policy(client, patched("[JSONPatch{op: 'add', path: '/metadata/name', value: 'other'}]"), name="b")
    await policy(
        client,
        merged("Object{}"),
        name="c",
        binding={"paramRef": {"name": "none", "namespace": "default", "parameterNotFoundAction": "Deny"}},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    details = (await refusal(client.create(DEPLOYMENTS, deployment("d")))).status()["details"]
    assert details["name"] == "d"
    assert [cause["message"][:10] for cause in details["causes"]] == ["policy 'c'", "policy 'a'"]
    assert all(set(cause) == {"message"} for cause in details["causes"])


@pytest.mark.parametrize(("again", "expected"), [("Never", "a"), ("IfNeeded", "a-b")])
async def test_reinvocation(client: LocalClient, again: str, expected: str) -> None:
    """A policy runs a second time if it asks for that and a later one has changed the object."""
    see = "has(object.metadata.annotations) && 'b' in object.metadata.annotations ? 'a-b' : 'a'"
    first = f"Object{{metadata: Object.metadata{{annotations: {{'a': {see}}}}}}}"
    await policy(client, merged(first), name="a", reinvocationPolicy=again)
    await policy(client, merged("Object{metadata: Object.metadata{annotations: {'b': 'b'}}}"), name="b")
    made = await client.create(DEPLOYMENTS, deployment())
    assert made["metadata"]["annotations"] == {"a": expected, "b": "b"}


async def test_reinvocation_after_built_in_admission(client: LocalClient) -> None:
    """A policy runs again if built-in admission completes what it added: here the pull policy of a container."""
    containers = "Object.spec.containers"
    side = f"{containers}{{name: 'side', image: 'proxy'}}"
    count = "string(object.spec.containers.filter(c, has(c.imagePullPolicy)).size())"
    labels = f"metadata: Object.metadata{{labels: {{'pulled': {count}}}}}"
    change = merged(f"Object{{{labels}, spec: Object.spec{{containers: [{side}]}}}}")
    await policy(client, change, resource="pods", reinvocationPolicy="IfNeeded")
    assert (await client.create(PODS, pod()))["metadata"]["labels"] == {"pulled": "2"}


async def test_pods_are_completed_after_a_mutation(client: LocalClient) -> None:
    """What a policy adds gets defaults and built-in admission: pull policy, quality of service, service account."""
    containers = "Object.spec.containers"
    limits = f"resources: {containers}.resources{{limits: {{'cpu': '1', 'memory': '1Gi'}}}}"
    await policy(
        client,
        merged(f"Object{{spec: Object.spec{{containers: [{containers}{{name: 'c', {limits}}}]}}}}"),
        resource="pods",
    )
    made = await client.create(PODS, pod())
    (container,) = made["spec"]["containers"]
    assert made["status"]["qosClass"] == "Guaranteed"
    assert (container["image"], container["resources"]["requests"]) == ("nginx:1.25", {"cpu": "1", "memory": "1Gi"})
    assert len(container["volumeMounts"]) == 1


async def test_custom_resources(client: LocalClient) -> None:
    """Policies change custom objects too; what their schema does not have is dropped."""
    await client.create(DEFINITIONS, definition())
    await policy(client, merged("Object{spec: Object.spec{replicas: 7, nope: 1}}"), resource="crontabs")
    made = await client.create(TABS, tab("a"))
    assert made["spec"] == {"cron": "*", "replicas": 7}


async def test_what_the_user_may_do(client: LocalClient, api: ApiServer) -> None:
    """Expressions can ask what else the user of a request may do."""
    may = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
    annotations = f"{{'may': string({may}), 'own': string(authorizer.requestResource.check('create').allowed())}}"
    await policy(client, merged(f"Object{{metadata: Object.metadata{{annotations: {annotations}}}}}"))
    made = await client.create(DEPLOYMENTS, deployment("d"))
    assert made["metadata"]["annotations"] == {"may": "true", "own": "true"}
    edits = {"roleRef": {"kind": "ClusterRole", "name": "deployer", "apiGroup": "rbac.authorization.k8s.io"}}
    rules = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await client.create(f"{rbac}/clusterroles", {"metadata": {"name": "deployer"}, "rules": rules})
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    await client.create(f"{rbac}/clusterrolebindings", {"metadata": {"name": "d"}, **edits, "subjects": [subject]})
    made = await as_user(api, "jane").create(DEPLOYMENTS, deployment("e"))
    assert made["metadata"]["annotations"] == {"may": "false", "own": "true"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mutations": []}, "spec.mutations: Required value: mutations must contain at least one item"),
        ({"mutations": [{}]}, "spec.mutations[0].patchType: Required value"),
        (
            {"mutations": [{"patchType": "Merge"}]},
            '[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch"',
        ),
        (
            {"mutations": [{"patchType": "JSONPatch"}]},
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
        ),
        (
            {"mutations": [merged("object.spec")]},
            '[0].applyConfiguration.expression: Invalid value: "object.spec": must evaluate to Object but got dyn',
        ),
        (
            {"mutations": [patched("[]")]},
            '[0].jsonPatch.expression: Invalid value: "[]": must evaluate to list(JSONPatch) but got list(dyn)',
        ),
        (
            {"mutations": [patched("[JSONPatch{op: 1}]")]},
            "expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        ({"mutations": [merged("Foo{}")]}, "undeclared reference to 'Foo' (in container '')"),
        ({"reinvocationPolicy": "Often"}, 'spec.reinvocationPolicy: Unsupported value: "Often"'),
        (
            {"failurePolicy": "Often"},
            'spec.failurePolicy: Unsupported value: "Often": supported values: "Fail", "Ignore"',
        ),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"),
        (
            {"matchConstraints": {"resourceRules": [rule("pods", operations=["DELETE"])]}},
            'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE"',
        ),
        (
            {"variables": [{"name": "in", "expression": "1"}]},
            'spec.variables[0].name: Invalid value: "in": must be a valid',
        ),
        ({"variables": [{"name": "me", "expression": "variables.me"}]}, "undefined field 'me'"),
        (
            {"matchConditions": [{"name": "m", "expression": "variables.a"}]},
            "undeclared reference to 'variables' (in container '')",
        ),
    ],
)
async def test_policies_that_are_refused(client: LocalClient, spec: JSON, message: str) -> None:
    """A policy that cannot work is refused with upstream's words."""
    body = policy_object(merged("Object{}"))
    body["spec"] |= spec
    error = await refusal(client.create(f"{GROUP}/mutatingadmissionpolicies", body))
    assert error.code == 422
    assert message in error.message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.policyName: Required value"),
        (
            {"policyName": "p", "paramRef": {"parameterNotFoundAction": "Deny"}},
            "one of name or selector must be specified",
        ),
        ({"policyName": "p", "paramRef": {"name": "x"}}, "spec.paramRef.parameterNotFoundAction: Required value"),
        (
            {"policyName": "p", "matchResources": {"resourceRules": [rule("pods", operations=["DELETE"])]}},
            'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE"',
        ),
    ],
)
async def test_bindings_that_are_refused(client: LocalClient, spec: JSON, message: str) -> None:
    """A binding that cannot work is refused with upstream's words."""
    error = await refusal(
        client.create(f"{GROUP}/mutatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": spec})
    )
    assert message in error.message
