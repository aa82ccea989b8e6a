"""Kinds that plugins name by their resource."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from kubesched import Action, Object, on
from kubesched.api.custom import custom_kind
from kubesched.client.endpoints import endpoint_of


class Foo(Object, frozen=True):
    api_version: ClassVar[str] = "example.com/v1"
    plural: ClassVar[str] = "foos"


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("foos.v1.example.com", "/apis/example.com/v1/foos"),
        ("foos.v1alpha1.a.example.com", "/apis/a.example.com/v1alpha1/foos"),
        ("configmaps.v1.", "/api/v1/configmaps"),
    ],
)
def test_where_a_kind_is_served(resource: str, path: str) -> None:
    """Plural, version and group form the path; the same name returns the same class."""
    assert endpoint_of(custom_kind(resource)).path() == path
    assert custom_kind(resource) is custom_kind(resource)


@pytest.mark.parametrize("resource", ["Pod", "foos", "foos.v1", "example.com/v1/foos", "foos.example.com.v1", ""])
def test_other_names(resource: str) -> None:
    """A name of another form is an error that says what to write."""
    with pytest.raises(ValueError, match=r"write plural, version and group, as in 'foos\.v1\.example\.com'"):
        on(resource, Action.ADD)


def test_events() -> None:
    """Logs and metrics use upstream's label; a registration matches only its own kind."""
    registered = on("foos.v1.example.com", Action.ADD | Action.DELETE)
    assert on("foos.v1.example.com", Action.ADD).event.label == "foos.v1.example.comAdd"
    assert on(Foo, Action.UPDATE).event.label == "foos.v1.example.comUpdate"
    assert registered.event.matches(on("foos.v1.example.com", Action.ADD).event)
    assert not registered.event.matches(on("foos.v2.example.com", Action.ADD).event)


def test_objects() -> None:
    """An object has its spec, status and data as dictionaries; other fields are skipped."""
    kind = custom_kind("foos.v1.example.com")
    text = b'{"metadata": {"name": "a", "namespace": "b"}, "spec": {"x": [1]}, "other": 2}'
    found = msgspec.json.decode(text, type=kind)
    assert (found.key, found.spec, found.status, found.data) == ("b/a", {"x": [1]}, {}, {})
