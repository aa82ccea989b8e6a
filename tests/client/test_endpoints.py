"""Where kinds are at the API server, those made by others included."""

from __future__ import annotations

from typing import ClassVar

import pytest

from kubesched.api import objects as api
from kubesched.client.endpoints import endpoint_of


class Widget(api.Object, frozen=True):
    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Widget"
    plural: ClassVar[str] = "widgets"


class Gadget(Widget, frozen=True):
    api_version: ClassVar[str] = "v1"
    plural: ClassVar[str] = "gadgets"
    namespaced: ClassVar[bool] = False


class Nowhere(api.Object, frozen=True):
    kind: ClassVar[str] = "Nowhere"


def test_a_kind_names_its_own_path() -> None:
    """A kind of a plugin has the path of its group, version and plural, with or without a namespace."""
    assert endpoint_of(Widget).path("default", "w") == "/apis/example.com/v1/namespaces/default/widgets/w"
    assert str(endpoint_of(Widget)) == "widgets.example.com"
    assert endpoint_of(Gadget).path(name="g") == "/api/v1/gadgets/g"
    assert not endpoint_of(Gadget).namespaced


def test_a_kind_without_a_path_is_an_error() -> None:
    """A kind without a plural is an error that says what to add, before any request."""
    with pytest.raises(TypeError, match="Nowhere has no path at the API server; give it the class variables api_ver"):
        endpoint_of(Nowhere)
