"""The status of ValidatingAdmissionPolicies says what their expressions get wrong about the kinds that they name."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings, EmbeddedCluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
THINGS = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["things"]}
SPEC = {"type": "object", "properties": {"size": {"type": "integer"}, "any": {"x-kubernetes-int-or-string": True}}}
DEFINITION = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
            }
        ],
    },
}


def policy(*expressions: str, rules: tuple[JSON, ...] = (DEPLOYMENTS,), **more: Any) -> JSON:
    """A policy with these validations."""
    validations = [{"expression": each} for each in expressions]
    constraints = {"resourceRules": list(rules)}
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, "validations": validations, **more}}


async def status_of(clock: VirtualClock, *created: JSON) -> JSON:
    """The status of the last of these objects, a policy."""
    api = ApiServer(clock=clock)
    cluster = EmbeddedCluster(api, ClusterSettings(seed=1, control_plane=True))
    cluster.start()
    client = LocalClient(api)
    for body in created:
        await client.create(DEFINITIONS if "group" in body["spec"] else PATH, body)
        await clock.settle()
    found: JSON = (await client.get(f"{PATH}/p"))["status"]
    await cluster.stop()
    return found


@virtual_time
async def test_a_policy_without_mistakes(clock: VirtualClock) -> None:
    """It was looked at, and there is nothing to say: fields, maps, lists, times and old objects have their types."""
    right = (
        "object.spec.replicas > 1 && oldObject.spec.replicas > 1",
        "object.metadata.labels['a'] == 'b' || object.metadata.labels.c == 'd'",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('x') && has(c.resources.limits))",
        "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
        "object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '25%'",
    )
    assert await status_of(clock, policy(*right)) == {"observedGeneration": 1, "typeChecking": {}}


@virtual_time
async def test_a_field_that_does_not_exist(clock: VirtualClock) -> None:
    """The warning has the kind, the place and upstream's words; what is right has none."""
    status = await status_of(clock, policy("object.spec.replicas > 1", "object.spec.replicaz > 1"))
    warning = (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'\n"
        " | object.spec.replicaz > 1\n | ...........^\n"
    )
    assert status["typeChecking"]["expressionWarnings"] == [
        {"fieldRef": "spec.validations[1].expression", "warning": warning}
    ]


@virtual_time
async def test_values_of_the_wrong_type(clock: VirtualClock) -> None:
    """A number is compared with a text, in an expression and in a variable that it uses."""
    variables = [{"name": "few", "expression": "object.spec.replicas"}]
    status = await status_of(clock, policy("variables.few > '1'", variables=variables))
    (found,) = status["typeChecking"]["expressionWarnings"]
    assert "found no matching overload for '_>_' applied to '(int, string)'" in found["warning"]


@virtual_time
async def test_custom_resources(clock: VirtualClock) -> None:
    """The fields of a custom kind are those of its schema, and those that every object has."""
    expressions = (
        "object.spec.size > 1",
        "object.spec.any == 'x'",
        "object.metadata.name != ''",
        "object.spec.sizes > 1",
    )
    status = await status_of(clock, DEFINITION, policy(*expressions, rules=(THINGS,)))
    (found,) = status["typeChecking"]["expressionWarnings"]
    assert found["fieldRef"] == "spec.validations[3].expression"
    assert found["warning"].startswith("example.com/v1, Kind=Thing: ERROR: <input>:1:12: undefined field 'sizes'")


@virtual_time
async def test_kinds_that_are_not_named(clock: VirtualClock) -> None:
    """Patterns, subresources and kinds that are not served say nothing about fields."""
    rules = (
        {**DEPLOYMENTS, "resources": ["*"]},
        {**DEPLOYMENTS, "resources": ["deployments/scale"]},
        {**DEPLOYMENTS, "apiVersions": ["v9"]},
    )
    assert (await status_of(clock, policy("object.nothing == 1", rules=rules)))["typeChecking"] == {}
