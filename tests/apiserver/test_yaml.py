"""Answers as YAML, for clients that ask for it."""

from __future__ import annotations

import json

import pytest
import yaml
from tests.apiserver.support import CONFIG_MAPS

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.wire.negotiation import negotiate, wants_yaml
from kubesched.apiserver.wire.yaml_form import to_yaml

YAML = {"accept": "application/yaml"}
ENCODED = """\
amp: '&x'
code: 404
colon: 'a: b'
date: "2024-01-01"
e: ""
f: |-
  line1
    line2

  line4
float: "1e3"
hex: "0x1f"
inf: ".inf"
list:
- a: {}
- []
- true
- null
long: 'only the following media types are accepted: application/json;stream=watch,
  application/vnd.kubernetes.protobuf;stream=watch'
multi: |
  a
  b
"n": "null"
num: "1_000"
"on": "On"
quote: it's "q"
sixty: "1:30"
tab: "a\\tb"
tilde: "~"
trail: 'x '
uni: ünï☃
"y": "y"
"""
"""As kube-apiserver writes these texts."""


def test_texts_are_quoted_as_kubernetes_quotes_them() -> None:
    """What would be read as a number, a date or true without quotes has quotes, and nothing else that needs none."""
    assert to_yaml(json.dumps(yaml.safe_load(ENCODED), default=str).encode()).decode() == ENCODED


async def test_an_object_a_list_and_a_refusal(client: LocalClient) -> None:
    """Objects, lists, tables and refusals are YAML with the same content as in JSON."""
    await client.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    for path in (f"{CONFIG_MAPS}/c", CONFIG_MAPS, f"{CONFIG_MAPS}/none", "/apis/apps/v1", "/apis"):
        plain = await client.send("GET", path)
        answer = await client.send("GET", path, headers=YAML)
        assert (answer.status, answer.content_type) == (plain.status, "application/yaml")
        assert yaml.safe_load(answer.body) == yaml.safe_load(plain.body)
    table = await client.send("GET", CONFIG_MAPS, headers={"accept": f"{YAML['accept']};as=Table;v=v1;g=meta.k8s.io"})
    assert yaml.safe_load(table.body)["kind"] == "Table"


async def test_a_watch_is_never_yaml(client: LocalClient) -> None:
    """A watch as YAML is refused, in YAML."""
    answer = await client.send("GET", CONFIG_MAPS, query={"watch": "1"}, headers=YAML)
    assert (answer.status, answer.content_type) == (406, "application/yaml")
    assert yaml.safe_load(answer.body)["message"] == (
        "only the following media types are accepted: application/json;stream=watch,"
        " application/vnd.kubernetes.protobuf;stream=watch"
    )


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/yaml,application/json", True),
        ("application/json,application/yaml", False),
        ("application/json;q=0.5, application/yaml", True),
        ("application/yaml;as=Unknown;v=v1;g=meta.k8s.io, */*", False),
        ("*/*", False),
        ("", False),
        ("application/yaml;as=Unknown", False),
    ],
)
def test_the_best_of_several(accept: str, expected: bool) -> None:
    """The clause with the highest quality wins, and of equal ones the first."""
    assert wants_yaml(accept) is expected


async def test_nothing_acceptable(client: LocalClient) -> None:
    """A client that accepts none of the forms is told which there are."""
    await client.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    answer = await client.send("GET", f"{CONFIG_MAPS}/c", headers={"accept": "text/html, application/xml"})
    known = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    assert answer.status == 406
    assert yaml.safe_load(answer.body)["message"] == f"406: Not Acceptable\n\nAvailable representations: {known}"
    assert negotiate("text/html, application/json").kind == ""
