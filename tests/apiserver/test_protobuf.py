"""Reading protobuf: an encoder of the test's own, so that nothing is checked against itself."""

from __future__ import annotations

import pytest
from tests.apiserver.support import DEPLOYMENTS

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.schema import ObjectType, schemas, type_of
from kubesched.apiserver.wire import protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(number: int) -> bytes:
    """A number as it stands on the wire."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(number: int, value: str | bytes) -> bytes:
    """A field with text or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def integer(number: int, value: int) -> bytes:
    """A field with a number."""
    return varint(number << 3) + varint(value)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Kubernetes' wrapping of a message."""
    return b"k8s\x00" + text(1, text(1, api_version) + text(2, kind)) + text(2, raw)


def _deployment(replicas: int) -> bytes:
    labels = text(1, text(1, "app") + text(2, "d"))
    container = text(1, "c") + text(2, "nginx") + text(6, integer(3, 80) + text(4, "TCP"))
    requests = text(2, text(1, "cpu") + text(2, text(1, "100m")))
    container += text(8, requests)
    template = text(1, text(11, text(1, "app") + text(2, "d"))) + text(2, text(2, container))
    rolling = text(1, integer(1, 1) + text(3, "25%")) + text(2, integer(1, 0) + integer(2, 1))
    spec = (
        integer(1, replicas)
        + text(2, labels)
        + text(3, template)
        + text(4, text(1, "RollingUpdate") + text(2, rolling))
    )
    return envelope("apps/v1", "Deployment", text(1, text(1, "d") + text(5, "")) + text(2, spec))


async def test_a_deployment_as_kubectl_sends_it(client: LocalClient) -> None:
    """A whole object is read: nested messages, maps, quantities, numbers or text; zero replicas count."""
    response = await client.send("POST", DEPLOYMENTS, _deployment(0), content_type=PROTOBUF)
    assert response.status == 201
    spec = (await client.get(f"{DEPLOYMENTS}/d"))["spec"]
    assert (spec["replicas"], spec["selector"]) == (0, {"matchLabels": {"app": "d"}})
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": 1}
    container = spec["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["resources"]["requests"] == {"cpu": "100m"}


def test_inlined_messages_and_times() -> None:
    """Messages without a name in JSON are unfolded; times are text; zero times and empty text are left out."""
    probe = text(1, text(2, text(1, "/healthz") + text(2, integer(1, 0) + integer(2, 8080)))) + integer(3, 5)
    container = text(1, "c") + text(10, probe)
    volume = text(1, "v") + text(2, text(2, text(1, "")))
    spec = text(1, volume) + text(2, container) + text(3, "") + integer(4, 30)
    created = text(8, integer(1, 1_700_000_000))
    pod = envelope("v1", "Pod", text(1, text(1, "p") + text(4, "") + created) + text(2, spec))
    decoded = protobuf.decode(pod, _pod())
    assert decoded["metadata"] == {"name": "p", "creationTimestamp": "2023-11-14T22:13:20Z"}
    assert decoded["spec"]["containers"][0]["livenessProbe"] == {
        "httpGet": {"path": "/healthz", "port": 8080},
        "timeoutSeconds": 5,
    }
    assert decoded["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert decoded["spec"]["terminationGracePeriodSeconds"] == 30
    assert "restartPolicy" not in decoded["spec"]


def _pod() -> ObjectType:
    type_ = type_of("core.Pod")
    assert type_ is not None
    return type_


def test_negative_numbers_and_unknown_fields() -> None:
    """Numbers are signed; fields with unknown numbers are passed over."""
    spec = integer(5, -1) + text(999, "future")
    decoded = protobuf.decode(envelope("v1", "Pod", text(2, spec)), _pod())
    assert decoded["spec"] == {"activeDeadlineSeconds": -1}


@pytest.mark.parametrize(
    "data",
    [b"", b"json", b"k8s\x00\xff", b"k8s\x00" + text(2, b"\x0a\xff"), envelope("v1", "Pod", b"\x0f")],
)
def test_what_is_no_protobuf(data: bytes) -> None:
    """Garbage is refused, never guessed at."""
    with pytest.raises(protobuf.ProtobufError):
        protobuf.decode(data, _pod())


def test_every_field_has_a_number() -> None:
    """Each field of each described type can be read from protobuf, but for what the envelope carries."""
    missing = [
        f"{type_.name}.{field.name}"
        for type_ in schemas().types.values()
        for field in type_.fields.values()
        if not field.tag and field.name not in ("apiVersion", "kind")
    ]
    assert missing == []


def test_numbers_are_unique() -> None:
    """No two fields of a type share a number."""
    for type_ in schemas().types.values():
        tags = [field.tag for field in type_.fields.values() if field.tag]
        assert len(tags) == len(set(tags)), type_.name


def test_schemas_inside_schemas() -> None:
    """A definition's schema has schemas for items and other properties; the latter may also be yes or no."""
    type_ = type_of("apiextensions.JSONSchemaProps")
    assert type_ is not None
    inner = text(5, "string")
    raw = (
        text(5, "array") + text(24, text(1, inner)) + text(30, integer(1, 1) + text(2, inner)) + text(33, integer(1, 0))
    )
    assert protobuf.decode(envelope("x", "y", raw), type_) == {
        "apiVersion": "x",
        "kind": "y",
        "type": "array",
        "items": {"type": "string"},
        "additionalProperties": {"type": "string"},
        "additionalItems": False,
    }
