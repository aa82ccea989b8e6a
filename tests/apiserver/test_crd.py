"""Custom resources: served when their definition is, checked by its schema, gone with it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import TABLE, refusal, take

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.crd.schema import Validator
from kubesched.apiserver.crd.values import whole_numbers
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.patch import STRATEGIC
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"

SPEC_SCHEMA: JSON = {
    "type": "object",
    "required": ["cron"],
    "properties": {
        "cron": {"type": "string", "pattern": "^[0-9*]"},
        "replicas": {"type": "integer", "default": 1, "minimum": 0, "maximum": 10},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "ports": {"type": "array", "items": {"x-kubernetes-int-or-string": True}},
    },
}

SCHEMA: JSON = {"type": "object", "properties": {"spec": SPEC_SCHEMA, "status": {"type": "object"}}}


def definition(**version: Any) -> JSON:
    """A definition of CronTabs."""
    body = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC_SCHEMA, "status": {"type": "object"}}}
        },
        **version,
    }
    names = {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"], "categories": ["all"]}
    spec = {"group": "stable.example.com", "scope": "Namespaced", "names": names, "versions": [body]}
    return {"metadata": {"name": "crontabs.stable.example.com"}, "spec": spec}


def tab(name: str = "a", **spec: Any) -> JSON:
    """A CronTab."""
    meta = {"name": name}
    return {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": meta, "spec": {"cron": "*", **spec}}


async def test_a_kind_comes_and_goes(client: LocalClient) -> None:
    """A definition is established at once, its objects live and watch like any, and go with it."""
    await client.create(DEFINITIONS, definition())
    made = await client.get(f"{DEFINITIONS}/crontabs.stable.example.com")
    assert {c["type"]: c["status"] for c in made["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    created = await client.create(TABS, tab("a"))
    assert (created["spec"]["replicas"], created["metadata"]["generation"]) == (1, 1)
    assert await take(client.watch(TABS), 1) == [("ADDED", "a")]
    found = await client.get("/apis/stable.example.com/v1")
    assert found["resources"][0]["shortNames"] == ["ct"]
    await client.delete(f"{DEFINITIONS}/crontabs.stable.example.com")
    assert (await refusal(client.get(TABS))).code == 404
    await client.create(DEFINITIONS, definition())
    assert (await client.get(TABS))["items"] == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"cron": 5}, 'spec.cron in body must be of type string: "integer"'),
        ({"replicas": 11}, "spec.replicas in body should be less than or equal to 10"),
        ({"mode": "odd"}, 'spec.mode: Unsupported value: "odd": supported values: "fast", "slow"'),
        ({"cron": "x"}, "spec.cron in body should match"),
        ({"ports": [1.5]}, "spec.ports[0]"),
    ],
)
async def test_schema_is_enforced(client: LocalClient, spec: JSON, text: str) -> None:
    """What breaks the schema is refused, with the field."""
    await client.create(DEFINITIONS, definition())
    error = await refusal(client.create(TABS, tab(**spec)))
    assert error.code == 422
    assert text in error.message


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"group": ""}, "spec.group: Required value"),
        ({"group": "apps"}, "should be a domain with at least one dot"),
        ({"group": "storage.k8s.io", "names": {"plural": "csinodes", "kind": "CSINode"}}, "is built into"),
        ({"names": {"plural": "crontabs"}}, "spec.names.kind: Required value"),
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy"'),
        ({"versions": []}, "must have exactly one version marked as storage version"),
        ({"names": {"plural": "others", "kind": "CronTab"}}, 'must be spec.names.plural+"."+spec.group'),
    ],
)
async def test_definitions_are_checked(client: LocalClient, change: JSON, text: str) -> None:
    """A definition that cannot be served, or would replace a built-in kind, is refused with the field."""
    body = definition()
    body["spec"] |= change
    error = await refusal(client.create(DEFINITIONS, body))
    assert error.code == 422
    assert text in error.message


async def test_unknown_fields_are_pruned(client: LocalClient) -> None:
    """Fields that a schema does not know are dropped with a warning, unless it says to keep them."""
    await client.create(DEFINITIONS, definition())
    body = tab("a", wrong=1, free={"any": {"thing": 1}})
    strict = await refusal(client.create(f"{TABS}?fieldValidation=Strict", tab("b", wrong=1)))
    assert 'unknown field "spec.wrong"' in strict.message
    response = await client.send("POST", TABS, body)
    assert response.warnings == ['unknown field "spec.wrong"']
    stored = (await client.get(f"{TABS}/a"))["spec"]
    assert ("wrong" in stored, stored["free"]) == (False, {"any": {"thing": 1}})


async def test_all_strict_problems_of_a_custom_object_are_reported(client: LocalClient) -> None:
    """Repeated fields come first, then the unknown ones of metadata and schema, sorted; for a patch too."""
    await client.create(DEFINITIONS, definition())
    body = tab("a", wrong=1, bad=2)
    body["metadata"]["foo"] = body["zz"] = 1
    words = ", ".join(f'unknown field "{path}"' for path in ("metadata.foo", "spec.bad", "spec.wrong", "zz"))
    strict = await refusal(client.create(f"{TABS}?fieldValidation=Strict", body))
    assert strict.message.endswith(f"strict decoding error: {words}")
    await client.create(TABS, tab("a"))
    patch = {"metadata": {"foo": 1}, "spec": {"wrong": 1, "bad": 2}, "zz": 1}
    assert words in (await refusal(client.patch(f"{TABS}/a?fieldValidation=Strict", patch))).message


async def test_subresources(client: LocalClient) -> None:
    """Status and scale are there when the definition asks for them."""
    await client.create(DEFINITIONS, definition(subresources={"status": {}, "scale": SCALE}))
    await client.create(TABS, {**tab("a"), "status": {"replicas": 9}})
    assert "status" not in await client.get(f"{TABS}/a")
    await client.patch(f"{TABS}/a/scale", {"spec": {"replicas": 4}})
    changed = await client.get(f"{TABS}/a")
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (4, 2)
    refused = await refusal(client.patch(f"{TABS}/a", {}, STRATEGIC))
    known = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    assert (refused.code, refused.message.rpartition(": ")[2]) == (415, known)


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


async def test_the_schema_also_holds_for_scale(client: LocalClient) -> None:
    """A scale beyond the schema's maximum is refused like any other write."""
    await client.create(DEFINITIONS, definition(subresources={"scale": SCALE}))
    await client.create(TABS, tab("a"))
    error = await refusal(client.patch(f"{TABS}/a/scale", {"spec": {"replicas": 50}}))
    assert error.code == 422
    assert "spec.replicas in body should be less than or equal to 10" in error.message
    assert (await client.get(f"{TABS}/a"))["spec"]["replicas"] == 1


async def test_the_schema_also_holds_inside_the_process(api: ApiServer, client: LocalClient) -> None:
    """A controller that writes without HTTP gets the same defaults, pruning and refusals."""
    await client.create(DEFINITIONS, definition())
    crontabs = api.resource("stable.example.com", "v1", "crontabs")
    with pytest.raises(StatusError, match="should be less than or equal to 10"):
        api.writer.create(crontabs, "default", tab("a", replicas=11))
    made = api.writer.create(crontabs, "default", tab("a", wrong=1)).load()
    assert made["spec"] == {"cron": "*", "replicas": 1}
    with pytest.raises(StatusError, match="should match"):
        api.writer.update(crontabs, "default", "a", lambda old: {**old, "spec": {"cron": "x"}})


async def test_a_status_without_its_spec_is_accepted(client: LocalClient) -> None:
    """A write to the status is judged with the spec that is stored, not with the one that was sent."""
    await client.create(DEFINITIONS, definition(subresources={"status": {}}))
    made = await client.create(TABS, tab("a"))
    sent = {**made, "spec": {}, "status": {}}
    assert (await client.replace(f"{TABS}/a/status", sent))["spec"]["cron"] == "*"


async def test_a_stricter_schema_does_not_trap_old_objects(client: LocalClient) -> None:
    """An object that broke a rule before the rule existed can still lose its finalizers; new mistakes are refused."""
    await client.create(DEFINITIONS, definition())
    held = tab("a", mode="fast")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(TABS, held)
    made = await client.get(f"{DEFINITIONS}/crontabs.stable.example.com")
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["mode"]["enum"] = ["slow"]
    await client.replace(f"{DEFINITIONS}/crontabs.stable.example.com", made)
    assert (await refusal(client.patch(f"{TABS}/a", {"spec": {"mode": "odd"}}))).code == 422
    await client.patch(f"{TABS}/a", {"metadata": {"finalizers": None}})
    await client.delete(f"{TABS}/a")


async def test_printed_columns(client: LocalClient) -> None:
    """The definition says what kubectl get prints."""
    columns = [
        {"name": "Cron", "type": "string", "jsonPath": ".spec.cron"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await client.create(DEFINITIONS, definition(additionalPrinterColumns=columns))
    await client.create(TABS, tab("a"))
    table = await client.get(TABS, headers=TABLE)
    assert table["rows"][0]["cells"] == ["a", "*", 1, "0s"]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 1, 0]


async def test_several_versions(client: LocalClient) -> None:
    """One object is seen in every version that is served; the newest stable one is preferred."""
    body = definition()
    first = body["spec"]["versions"][0]
    body["spec"]["versions"] = [
        {**first, "name": "v1beta1", "storage": False},
        first,
        {**first, "name": "v2alpha1", "storage": False},
    ]
    await client.create(DEFINITIONS, body)
    await client.create(TABS, tab("a"))
    other = await client.get("/apis/stable.example.com/v1beta1/namespaces/default/crontabs/a")
    assert other["apiVersion"] == "stable.example.com/v1beta1"
    group = await client.get("/apis/stable.example.com")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1", "v2alpha1"]


async def test_selectable_fields_of_several_versions(client: LocalClient) -> None:
    """Each version can be selected by its own fields."""
    body = definition()
    first = body["spec"]["versions"][0]
    body["spec"]["versions"] = [
        {**first, "selectableFields": [{"jsonPath": ".spec.mode"}]},
        {**first, "name": "v2", "storage": False, "selectableFields": [{"jsonPath": ".spec.replicas"}]},
    ]
    await client.create(DEFINITIONS, body)
    await client.create(TABS, tab("a", mode="fast", replicas=3))
    assert len((await client.get(TABS, query={"fieldSelector": "spec.mode=fast"}))["items"]) == 1
    assert (await client.get(TABS, query={"fieldSelector": "spec.mode=slow"}))["items"] == []
    other = "/apis/stable.example.com/v2/namespaces/default/crontabs"
    assert len((await client.get(other, query={"fieldSelector": "spec.replicas=3"}))["items"]) == 1


def test_without_a_schema_everything_goes() -> None:
    """A definition that says nothing about its objects accepts them as they are."""
    obj = {"spec": {"anything": [1, {"x": None}]}}
    validator = Validator({})
    assert (validator.prune(obj), validator.problems(obj), obj["spec"]) == ([], [], {"anything": [1, {"x": None}]})


def patterned(pattern: str) -> JSON:
    """A definition whose CronTabs have a string that must match."""
    spec = {"type": "object", "properties": {"cron": {"type": "string", "pattern": pattern}}}
    return definition(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})


async def test_patterns_are_those_of_go_in_linear_time(client: LocalClient) -> None:
    """A POSIX class is understood, and a pattern that would backtrack for ever answers at once."""
    await client.create(DEFINITIONS, patterned(r"^([[:lower:]]+)+\z"))
    await client.create(TABS, tab("good", cron="abc"))
    assert (await refusal(client.create(TABS, tab("bad", cron="a" * 5000 + "!")))).code == 422


async def test_a_pattern_that_go_does_not_have_is_refused(client: LocalClient) -> None:
    """The definition is invalid, and the message names the field."""
    refused = await refusal(client.create(DEFINITIONS, patterned("(?=lookahead)")))
    assert refused.code == 422
    assert "openAPIV3Schema.properties[spec].properties[cron].pattern: Invalid value" in refused.message


async def test_defaults_that_come_later_are_read(client: LocalClient) -> None:
    """An object that was stored before its schema had a default has it when it is read, listed or watched."""
    await client.create(DEFINITIONS, definition())
    await client.create(TABS, tab())
    schema = {**SPEC_SCHEMA, "properties": {**SPEC_SCHEMA["properties"], "zone": {"type": "string", "default": "UTC"}}}
    made = await client.get(f"{DEFINITIONS}/crontabs.stable.example.com")
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema
    await client.replace(f"{DEFINITIONS}/crontabs.stable.example.com", made)
    assert (await client.get(f"{TABS}/a"))["spec"]["zone"] == "UTC"
    assert [each["spec"]["zone"] for each in (await client.get(TABS))["items"]] == ["UTC"]


RULES: JSON = {
    **SPEC_SCHEMA,
    "properties": {
        **SPEC_SCHEMA["properties"],
        "least": {"type": "integer"},
        "most": {"type": "integer"},
        "up-to": {"type": "number", "x-kubernetes-validations": [{"rule": "self <= 1.5"}]},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.least) || !has(self.most) || self.least <= self.most",
            "messageExpression": "'least is ' + (self.least == 3 ? '3' : 'other')",
            "fieldPath": ".least",
        },
        {"rule": "!has(self.up__dash__to) || self.up__dash__to > 0.0", "reason": "FieldValueForbidden"},
    ],
}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"least": 3, "most": 2}, "spec.least: Invalid value: least is 3"),
        ({"up-to": 2}, "spec.up-to: Invalid value: 2: failed rule: self <= 1.5"),
        ({"up-to": 0}, "spec: Forbidden: failed rule: !has(self.up__dash__to) || self.up__dash__to > 0.0"),
    ],
)
async def test_rules_in_cel(client: LocalClient, spec: JSON, said: str) -> None:
    """An object that breaks a rule of its schema is refused with the rule's message at the rule's field."""
    schema = {"type": "object", "properties": {"spec": RULES}}
    await client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))
    assert said in (await refusal(client.create(TABS, tab(**spec)))).message


async def test_fields_that_are_named_like_words_of_cel(client: LocalClient) -> None:
    """A field whose name is a reserved word is spelt with underscores, as in the rules of the Gateway API."""
    rule = {"rule": "self.all(p, !has(p.__namespace__) || p.__namespace__ != 'bad')", "message": "a bad namespace"}
    parent = {"type": "object", "properties": {"namespace": {"type": "string"}}}
    parents = {"type": "array", "items": parent, "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"parents": parents}}}}
    await client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))
    error = await refusal(client.create(TABS, tab(parents=[{"namespace": "bad"}])))
    assert "spec.parents: Invalid value: a bad namespace" in error.message
    await client.create(TABS, tab(parents=[{"namespace": "good"}, {}]))


async def test_a_rule_that_cannot_be_evaluated(client: LocalClient) -> None:
    """A rule that fails for want of a field refuses the object, at the rule's own place and with its message."""
    rule = {"rule": "self.most > 3", "message": "too few", "reason": "FieldValueForbidden", "fieldPath": ".most"}
    schema = {"type": "object", "properties": {"spec": {**RULES, "x-kubernetes-validations": [rule]}}}
    await client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))
    error = await refusal(client.create(TABS, tab(least=1)))
    assert 'spec: Invalid value: "object": no such key: most evaluating rule: too few' in error.message


async def test_a_replacement_names_its_version(client: LocalClient) -> None:
    """A custom object cannot be replaced without saying which version, so that nothing is lost; a patch need not."""
    await client.create(DEFINITIONS, definition())
    made = await client.create(TABS, tab())
    error = await refusal(client.replace(f"{TABS}/a", tab(replicas=2)))
    assert (error.code, error.message) == (
        422,
        'crontabs.stable.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0:'
        " must be specified for an update",
    )
    made["spec"]["replicas"] = 2
    assert (await client.replace(f"{TABS}/a", made))["spec"]["replicas"] == 2


async def test_rules_about_changes(client: LocalClient) -> None:
    """They hold for updates only, and where there was a value before."""
    schema = {"type": "object", "properties": {"spec": RULES}}
    await client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))
    await client.create(TABS, tab())
    await client.patch(f"{TABS}/a", {"spec": {"fixed": "once"}})
    error = await refusal(client.patch(f"{TABS}/a", {"spec": {"fixed": "twice"}}))
    assert 'spec.fixed: Invalid value: "twice": is fixed' in error.message


TYPED: JSON = {
    "type": "object",
    "properties": {
        "wait": {"type": "string", "format": "duration"},
        "day": {"type": "string", "format": "date"},
        "key": {"type": "string", "format": "byte"},
        "fixed": {"type": "string"},
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.wait) || self.wait < duration('1h')", "message": "too long"},
        {"rule": "!has(self.day) || self.day.getFullYear() > 2000", "message": "too old"},
        {"rule": "!has(self.key) || self.key == b'key'", "message": "another key"},
        {
            "rule": "!has(self.fixed) || (oldSelf.hasValue() && has(oldSelf.value().fixed))",
            "message": "only later",
            "optionalOldSelf": True,
        },
    ],
}


async def test_rules_about_typed_texts_and_optional_old_values(client: LocalClient) -> None:
    """Durations, days and bytes are what their format says, and a rule may ask whether there was a value before."""
    schema = {"type": "object", "properties": {"spec": TYPED}}
    await client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))
    await client.create(TABS, tab(wait="59m", day="2026-11-18", key="a2V5"))
    for wrong, said in (
        ({"wait": "61m"}, "too long"),
        ({"day": "1999-01-01"}, "too old"),
        ({"key": "a2V5cw=="}, "another key"),
        ({"fixed": "now"}, "only later"),
    ):
        error = await refusal(client.create(TABS, tab("b", **wrong)))
        assert said in error.message
        assert "evaluating rule" not in error.message
    change = client.patch(f"{TABS}/a", {"spec": {"fixed": "once"}})
    assert "only later" in (await refusal(change)).message


async def test_a_rule_that_is_not_cel(client: LocalClient) -> None:
    """The definition is refused, with the place of the rule."""
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}
    error = await refusal(client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema})))
    assert "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value" in error.message
    assert "compilation failed" in error.message


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"rule": "self.spec.replica > 1"}, "compilation failed: ERROR: <input>:1:10: undefined field 'replica'"),
        ({"rule": "self.spec.replicas > '1'"}, "found no matching overload for '_>_' applied to '(int, string)'"),
        ({"rule": "self.spec.free.x == 1"}, "undefined field 'x'"),
        ({"rule": "self.metadata.labels.size() > 1"}, "undefined field 'labels'"),
        ({"rule": "self.spec.replicas"}, "cel expression must evaluate to a bool"),
        (
            {"rule": "true", "messageExpression": "self.spec.nam"},
            "messageExpression compilation failed: ERROR: <input>",
        ),
        ({"rule": "true", "messageExpression": "self.spec.replicas"}, "messageExpression must evaluate to a string"),
    ],
)
async def test_a_rule_that_does_not_fit_the_schema(client: LocalClient, rule: JSON, said: str) -> None:
    """The definition is refused: the rule would fail for every object. kube-apiserver says the same words."""
    spec = {"replicas": {"type": "integer"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    parts = {"spec": {"type": "object", "properties": spec}}
    schema = {"type": "object", "properties": parts, "x-kubernetes-validations": [rule]}
    error = await refusal(client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema})))
    assert said in error.message


@pytest.mark.parametrize(
    "rule",
    [
        *(
            "self.metadata.name != 'x' && self.kind != ''",
            "self.spec.a__dash__b",
            "oldSelf.spec.ratio < self.spec.ratio",
        ),
        *("self.spec.when < timestamp('2030-01-01T00:00:00Z')", "self.spec.list.all(x, x.startsWith('a'))"),
        *("self.spec.map.all(key, self.spec.map[key] > 1)", "self.spec.any == 1 || self.spec.any == 'x'"),
    ],
)
async def test_rules_that_fit_the_schema(client: LocalClient, rule: str) -> None:
    """Every kind of field can be used as what it is."""
    spec = {
        "a-b": {"type": "boolean"},
        "any": {"x-kubernetes-int-or-string": True},
        "list": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "ratio": {"type": "number"},
        "when": {"type": "string", "format": "date-time"},
    }
    parts = {"spec": {"type": "object", "properties": spec}}
    schema = {"type": "object", "properties": parts, "x-kubernetes-validations": [{"rule": rule}]}
    assert await client.create(DEFINITIONS, definition(schema={"openAPIV3Schema": schema}))


CONSTRAINED: JSON = {
    "any": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": True},
    "either": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": True},
    "all": {"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^x"}]},
    "nope": {"type": "string", "not": {"enum": ["bad"]}},
    "gt": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
    "lt": {"type": "number", "maximum": 10, "exclusiveMaximum": True},
    "mult": {"type": "integer", "multipleOf": 5},
    "tenths": {"type": "number", "multipleOf": 0.1},
    "open": {"type": "string", "anyOf": [], "oneOf": [], "allOf": [], "enum": []},
    "i32": {"type": "integer", "format": "int32"},
    "minp": {"type": "object", "minProperties": 2, "additionalProperties": {"type": "string"}},
    "maxp": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
    "maxi": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "x": {"type": "string"}}},
    },
    "emb": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
}
NO_FIELD = '<nil>: Invalid value: "": '


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"any": 5}, []),
        (
            {"any": True},
            [
                'spec.any: Invalid value: "boolean": spec.any in body must be of type integer,string: "boolean"',
                f'{NO_FIELD}"spec.any" must validate at least one schema (anyOf)',
                'spec.any: Invalid value: "boolean": spec.any in body must be of type integer: "boolean"',
            ],
        ),
        ({"one": {"a": "1"}}, []),
        (
            {"one": {}},
            [
                f'{NO_FIELD}"spec.one" must validate one and only one schema (oneOf). Found none valid',
                "spec.one.a: Required value",
            ],
        ),
        (
            {"one": {"a": "1", "b": "1"}},
            [f'{NO_FIELD}"spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        ({"either": {"a": "1", "b": "2"}}, []),
        (
            {"either": {}},
            [f'{NO_FIELD}"spec.either" must validate at least one schema (anyOf)', "spec.either.a: Required value"],
        ),
        ({"all": "xy"}, []),
        (
            {"all": "y"},
            [
                'spec.all: Invalid value: "y": spec.all in body should be at least 2 chars long',
                "spec.all: Invalid value: \"y\": spec.all in body should match '^x'",
                f'{NO_FIELD}"spec.all" must validate all the schemas (allOf). None validated',
            ],
        ),
        ({"nope": "bad"}, [f'{NO_FIELD}"spec.nope" must not validate the schema (not)']),
        ({"gt": 1}, ["spec.gt: Invalid value: 1: spec.gt in body should be greater than 1"]),
        ({"lt": 10}, ["spec.lt: Invalid value: 10: spec.lt in body should be less than 10"]),
        ({"tenths": 0.3}, []),
        ({"tenths": 0.35}, ["spec.tenths: Invalid value: 0.35: spec.tenths in body should be a multiple of 0.1"]),
        (
            {"tenths": 10**400},
            [f"spec.tenths: Invalid value: {10**400}: spec.tenths in body should be a multiple of 0.1"],
        ),
        ({"open": "x"}, []),
        ({"mult": 7}, ["spec.mult: Invalid value: 7: spec.mult in body should be a multiple of 5"]),
        ({"i32": 2**31}, [f"{NO_FIELD}Checked value must be of type integer with format int32 in spec.i32"]),
        ({"minp": {"a": "1"}}, ["spec.minp: Invalid value: 1: spec.minp in body should have at least 2 properties"]),
        ({"maxp": {"a": "1", "b": "2"}}, ["spec.maxp: Too many: 2: must have at most 1 item"]),
        ({"maxi": ["a", "b"]}, ["spec.maxi: Too many: 2: must have at most 1 item"]),
        ({"set": ["a", "a", "b"]}, ['spec.set[1]: Duplicate value: "a"']),
        ({"map": [{"name": "a"}, {"name": "a", "x": "1"}]}, ['spec.map[1]: Duplicate value: {"name":"a"}']),
        ({"emb": {}}, ["spec.emb.apiVersion: Required value", "spec.emb.kind: Required value"]),
    ],
)
def test_what_schemas_ask_for(value: JSON, words: list[str]) -> None:
    """Every part of a schema that upstream checks is checked, and the words are kube-apiserver's."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": CONSTRAINED}}}
    problems = Validator(schema).problems({"spec": value})
    assert [f"{problem.field}: {problem.message}" for problem in problems] == words


NO_INTEGER = 'x: Invalid value: "number": x in body must be of type integer: "number"'
CHECKED = '<nil>: Invalid value: "": Checked value must be of type integer'


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (
            {},
            1.5,
            [
                'x: Invalid value: "number": x in body must be of type integer: "number"',
                f"{CHECKED} (default format) in x",
            ],
        ),
        ({}, 1e16, ['x: Invalid value: "number": x in body must be of type integer: "number"']),
        (
            {"format": "int32"},
            1.5,
            [
                'x: Invalid value: "float64": x in body must be of type int32: "float64"',
                f"{CHECKED} with format int32 in x",
            ],
        ),
        ({"format": "int32"}, 3_000_000_000, [f"{CHECKED} with format int32 in x"]),
    ],
)
def test_numbers_that_are_no_integers(schema: JSON, value: float, words: list[str]) -> None:
    """The words are kube-apiserver's, which checks the type and the size."""
    problems = Validator({"type": "object", "properties": {"x": {"type": "integer", **schema}}}).problems({"x": value})
    assert [f"{problem.field}: {problem.message}" for problem in problems] == words


def test_numbers_without_a_fraction_are_integers() -> None:
    """Go reads 1.0 and 1e3 as integers and writes them so; larger floats stay what they are."""
    assert repr(whole_numbers({"a": [1.0, {"b": 1e3, "c": 1.5}], "d": 1e20})) == (
        "{'a': [1, {'b': 1000, 'c': 1.5}], 'd': 1e+20}"
    )


@pytest.mark.parametrize(
    ("name", "fine", "wrong"),
    [
        ("date-time", "2020-01-01t00:00:00.5+02:00", "2020-01-01 00:00:00Z"),
        ("date", "2020-02-29", "2020-02-30"),
        ("duration", "1h30m", "5x"),
        ("duration", "2 days", "5"),
        ("uri", "http://x", "x"),
        ("email", "a@b", "x"),
        ("ipv4", "1.2.3.4", "::1"),
        ("ipv4", "01.2.3.4", "01.2.3"),
        ("ipv4", "::ffff:1.2.3.4", "1.2.3.4%eth0"),
        ("ipv6", "::1", "1.2.3.4"),
        ("ipv6", "::ffff:1.2.3.4", "fe80::1%eth0"),
        ("cidr", "10.0.0.1/8", "10.0.0.1"),
        ("cidr", "01.2.3.4/08", "1.2.3.4/255.255.255.0"),
        ("cidr", "::/128", "fe80::1%eth0/64"),
        ("cidr", f"1.2.3.4/{'0' * 5000}8", f"1.2.3.4/{'9' * 5000}"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "9780321751041", "0321751043"),
        ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
        ("rgbcolor", "rgb(255, 0,12)", "rgb(256,0,0)"),
        ("uuid", "12345678123412341234123456789012", "x"),
        ("byte", "YQ==", ""),
        ("hostname", "a.example", "1.2.3.4"),
        ("mac", "00:11:22:33:44:55", "00:11"),
        ("mac", "0011.2233.4455", "00:11-22:33:44:55"),
        ("mac", ":".join(["00"] * 20), ":".join(["00"] * 9)),
        ("uuid4", "12345678-1234-4234-8234-123456789012", "12345678-1234-3234-8234-123456789012"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A"),
        ("hexcolor", "#FFF", "#FFFF"),
        ("ssn", "123-45-6789", "1"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("no-such-format", "anything", ""),
    ],
)
def test_formats(name: str, fine: str, wrong: str) -> None:
    """A string has the format that the schema asks for, if upstream knows that."""
    validator = Validator({"type": "object", "properties": {"x": {"type": "string", "format": name}}})
    assert validator.problems({"x": fine}) == []
    found = [problem.message for problem in validator.problems({"x": wrong})]
    message = f'Invalid value: "{wrong}": x in body must be of type {name}: "{wrong}"'
    assert found == ([] if name == "no-such-format" else [message])


async def test_null_is_as_good_as_nothing(client: LocalClient) -> None:
    """A null in a field that is not nullable is dropped, or replaced by the default; a nullable field keeps it."""
    texts = {"plain": {"type": "string"}, "filled": {"type": "string", "default": "x"}}
    texts["kept"] = {"type": "string", "nullable": True}  # type: ignore[dict-item]
    spec = {**SPEC_SCHEMA, "properties": {**SPEC_SCHEMA["properties"], **texts}}
    await client.create(
        DEFINITIONS, definition(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})
    )
    made = await client.create(TABS, tab(plain=None, filled=None, kept=None))
    assert made["spec"] == {"cron": "*", "replicas": 1, "filled": "x", "kept": None}


async def test_rules_that_were_not_checked(client: LocalClient) -> None:
    """Rules in CEL are not evaluated on an object of the wrong form, which is said; a range is no obstacle."""
    rules = [{"rule": "self.cron != 'x'", "message": "not x"}]
    spec = {**SPEC_SCHEMA, "x-kubernetes-validations": rules}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    await client.create(DEFINITIONS, definition(schema=schema))
    wrong = await refusal(client.create(TABS, tab(mode="none")))
    assert [cause.field for cause in wrong.causes] == ["spec.mode", "<nil>"]
    assert "some validation rules were not checked because the object was invalid" in wrong.message
    both = await refusal(client.create(TABS, tab(cron="x", replicas=99)))
    assert [cause.field for cause in both.causes] == ["spec.cron", "spec.replicas", "spec"]


async def test_columns_with_filters(client: LocalClient) -> None:
    """A column can be a condition's status, as most operators have it."""
    paths = {
        "READY": '.status.conditions[?(@.type=="Ready")].status',
        "LAST": ".status.conditions[-1].type",
        "FIRST": ".status.conditions[*].type",
        "LABEL": ".metadata.labels['example\\.com/a']",
        "DOTTED": ".metadata.labels.example\\.com/a",
        "NONE": '.status.conditions[?(@.type=="Gone")].status',
    }
    shown = [{"name": name, "type": "string", "jsonPath": path} for name, path in paths.items()]
    open_status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC_SCHEMA, "status": open_status}}}
    made = definition(additionalPrinterColumns=shown, subresources={"status": {}}, schema=schema)
    await client.create(DEFINITIONS, made)
    body = tab()
    body["metadata"]["labels"] = {"example.com/a": "b"}
    await client.create(TABS, body)
    conditions = [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]
    await client.patch(f"{TABS}/a/status", {"status": {"conditions": conditions}})
    table = await client.get(f"{TABS}/a", headers=TABLE)
    assert table["rows"][0]["cells"] == ["a", "True", "Ready", "Synced", "b", "b", None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": "1", "a": 2}, ['{"a":2,"b":"1"}', None, None, None, None]),
        (["x"], ['["x"]', None, None, None, None]),
        (True, ["true", None, None, True, None]),
        (3, ["3", 3, 3, None, None]),
        (2.5, ["2.5", 2, 2.5, None, None]),
        ("7", ["7", None, None, None, "<invalid>"]),
    ],
)
async def test_columns_of_all_types(client: LocalClient, value: Any, expected: list[Any]) -> None:
    """Anything can be a string; what is not of another column's type is not shown."""
    types = ("string", "integer", "number", "boolean", "date")
    shown = [{"name": each, "type": each, "jsonPath": ".spec.free"} for each in types]
    free = {"x-kubernetes-preserve-unknown-fields": True}
    spec = {**SPEC_SCHEMA, "properties": {**SPEC_SCHEMA["properties"], "free": free}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    await client.create(DEFINITIONS, definition(additionalPrinterColumns=shown, schema=schema))
    await client.create(TABS, tab(free=value))
    table = await client.get(f"{TABS}/a", headers=TABLE)
    assert table["rows"][0]["cells"] == ["a", *expected]
    assert table["columnDefinitions"][1]["description"] == (
        "Custom resource definition column (in JSONPath format): .spec.free"
    )


async def test_columns_that_lead_nowhere(client: LocalClient) -> None:
    """A path with an absurd index shows nothing."""
    shown = [{"name": "X", "type": "string", "jsonPath": f".spec[{'9' * 5000}]"}]
    await client.create(DEFINITIONS, definition(additionalPrinterColumns=shown))
    await client.create(TABS, tab())
    assert (await client.send("GET", f"{TABS}/a", headers=TABLE)).status == 200


async def test_parts_of_a_schema_that_are_null(client: LocalClient) -> None:
    """They mean the same as missing ones, to objects and to those who read the schema."""
    parts = "anyOf oneOf allOf not enum minLength maxLength pattern format nullable minItems maxItems minimum maximum"
    parts += " multipleOf required properties items"
    free = {"x-kubernetes-preserve-unknown-fields": True, **dict.fromkeys(parts.split())}
    spec = {
        **SPEC_SCHEMA,
        "properties": {**SPEC_SCHEMA["properties"], "free": free, "large": {"type": "number", "maximum": 10**400}},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    await client.create(DEFINITIONS, definition(schema=schema))
    for number, value in enumerate(("x", 3, ["a"], {"a": 1})):
        body = tab(free=value)
        body["metadata"]["name"] = f"t{number}"
        assert (await client.create(TABS, body))["spec"]["free"] == value
    for version, path in (("v2", "v2"), ("v3", "v3/apis/stable.example.com/v1")):
        headers = {"accept": f"application/com.github.proto-openapi.spec.{version}.v1.0+protobuf"}
        assert (await client.send("GET", f"/openapi/{path}", headers=headers)).status == 200


async def test_a_custom_kind_that_is_named_like_a_definition(client: LocalClient) -> None:
    """Its objects are not looked through for what definitions have."""
    made = definition(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "string"}}}})
    made["spec"]["names"] |= {"kind": "CustomResourceDefinition"}
    await client.create(DEFINITIONS, made)
    body = {"apiVersion": "stable.example.com/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a"}}
    assert (await client.create(TABS, {**body, "spec": "text"}))["spec"] == "text"


async def test_deprecated_versions_warn(client: LocalClient) -> None:
    """Every request for a deprecated version is warned, in the words of the definition if it has any."""
    made = definition()
    old = {**made["spec"]["versions"][0], "name": "v1beta1", "storage": False, "deprecated": True}
    made["spec"]["versions"] += [old, {**old, "name": "v1alpha1", "deprecationWarning": "use v1"}]
    await client.create(DEFINITIONS, made)
    listed = [await client.send("GET", TABS.replace("/v1/", f"/{name}/")) for name in ("v1", "v1beta1", "v1alpha1")]
    assert [response.warnings for response in listed] == [
        [],
        ["stable.example.com/v1beta1 CronTab is deprecated"],
        ["use v1"],
    ]


async def test_conversion_webhooks_warn(client: LocalClient) -> None:
    """A definition whose versions are converted by a webhook says that none is called here."""
    made = definition()
    reference = {"service": {"namespace": "x", "name": "y"}}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": reference}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    response = await client.send("POST", DEFINITIONS, made)
    assert response.status == 201
    assert response.warnings == [
        "spec.conversion: webhooks are not called in this cluster; objects have the same fields in every version"
    ]


def _listed(item: JSON, **limits: int) -> JSON:
    return {"type": "object", "properties": {"items": {"type": "array", "items": item, **limits}}}


TEXT: JSON = {"type": "string"}
SHORT: JSON = {"type": "string", "maxLength": 10}
NAMED: JSON = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
EACH = "self.items.all(x, self.items.exists(y, x == y))"


@pytest.mark.parametrize(
    ("rule", "schema", "factor"),
    [
        (EACH, _listed(TEXT), "more than 100x"),
        (EACH, _listed({"type": "integer"}), "more than 100x"),
        (EACH, _listed({"type": "integer"}, maxItems=1000), ""),
        (EACH, _listed(SHORT, maxItems=1000), "1.000600x"),
        (EACH, _listed({"type": "string", "enum": ["a", "b"]}, maxItems=5000), "17.5x"),
        ("self.items.all(x, x.name == 'a')", _listed(NAMED), ""),
        ("self.items.map(x, x.name).all(n, n.matches('^a+b*$'))", _listed({**NAMED, "required": []}), "2.1x"),
        ("self.items.map(x, x.name).all(n, n.matches('^a+b*$'))", _listed(NAMED), ""),
        (
            "self.items.all(x, x.all(k, k.size() < 3))",
            _listed({"type": "object", "additionalProperties": TEXT}),
            "more than 100x",
        ),
    ],
)
async def test_a_rule_that_may_cost_too_much(client: LocalClient, rule: str, schema: JSON, factor: str) -> None:
    """A definition is refused by what its rule costs for the largest object. kube-apiserver finds the same factors."""
    spec = {**schema, "x-kubernetes-validations": [{"rule": rule}]}
    body = definition(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})
    if not factor:
        await client.create(DEFINITIONS, body)
        return
    message = (await refusal(client.create(DEFINITIONS, body))).message
    where = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    start = f"{where}: Forbidden: estimated rule cost exceeds budget by factor of {factor} (try simplifying the rule"
    assert start in message


async def test_rules_that_cost_too_much_together(client: LocalClient) -> None:
    """A rule counts as often as the lists and maps around it may be long, and the most expensive ones are named."""
    parts = {"name": TEXT, "tags": {"type": "array", "items": SHORT, "maxItems": 10}}
    rules = [{"rule": "self.name.contains('x')", "messageExpression": "'bad ' + self.name"}]
    inner = {"type": "object", "properties": parts, "x-kubernetes-validations": rules}
    table = {"type": "object", "additionalProperties": inner, "maxProperties": 4}
    nested = {"type": "array", "items": table, "maxItems": 100}
    body = definition(
        schema={
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"l": nested}}},
            }
        }
    )
    message = (await refusal(client.create(DEFINITIONS, body))).message
    path = "spec.validation.openAPIV3Schema"
    rule = f"{path}.properties[spec].properties[l].items.additionalProperties.x-kubernetes-validations[0].rule"
    assert f"{rule}: Forbidden: estimated rule cost exceeds budget by factor of 12.6x" in message
    assert f"{rule}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire" in message
    assert f"{path}: Forbidden: x-kubernetes-validations estimated rule cost total for entire" in message
