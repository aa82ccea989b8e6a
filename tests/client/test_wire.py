"""What the API server sends, decoded: also JSON that is deeper than the decoder can follow."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import objects as api
from kubesched.client.protocol import Malformed, WatchType
from kubesched.client.wire import MAX_DEPTH, _shallow, decode_line, decode_object, decode_page, error_of, raw_object


def deep(levels: int) -> str:
    return '{"a":[' * (levels // 2) + "]}" * (levels // 2)


def node(name: str, unread: str = "{}", taints: str = "[]") -> str:
    metadata = f'{{"name":"{name}","resourceVersion":"5","managedFields":{unread}}}'
    return f'{{"metadata":{metadata},"spec":{{"taints":{taints}}}}}'


@pytest.mark.parametrize("levels", [100, 1_200, 10_000, 200_000])
def test_a_deep_field_that_is_not_read_does_no_harm(levels: int) -> None:
    """An object with deep nesting in a field that scheduling ignores is read, and so are all others of its page."""
    text = node("a", deep(levels))
    found = decode_object(api.Node, text.encode())
    assert isinstance(found, api.Node)
    assert found.name == "a"
    event = decode_line(api.Node, f'{{"type":"ADDED","object":{text}}}'.encode())
    assert (event.change, event.resource_version, event.malformed) == (WatchType.ADDED, "5", None)
    page = decode_page(f'{{"metadata":{{"resourceVersion":"7"}},"items":[{node("b")},{text},{node("c")}]}}'.encode())
    names = [decode_object(api.Node, item).metadata.name for item in page.items or ()]  # type: ignore[union-attr]
    assert names == ["b", "a", "c"]
    assert page.metadata.resource_version == "7"
    assert raw_object(f'{{"type":"ADDED","object":{text}}}'.encode())


def test_a_deep_field_that_is_read_is_malformed() -> None:
    """An object that does not fit is reported by its name, however deep it is."""
    text = node("a", taints=deep(5_000))
    found = decode_object(api.Node, text.encode())
    assert isinstance(found, Malformed)
    assert found.key == "a"
    event = decode_line(api.Node, f'{{"type":"MODIFIED","object":{text}}}'.encode())
    assert event.malformed is not None
    assert (event.malformed.key, event.resource_version) == ("a", "5")


def test_deep_refusals() -> None:
    """A refusal with a deep body is a refusal."""
    assert error_of(500, deep(20_000).encode()).code == 500
    status = f'{{"kind":"Status","code":409,"reason":"Conflict","message":"m","more":{deep(20_000)}}}'
    assert error_of(500, status.encode()).code == 409


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3), ("0", 0), ("inf", 600), ("1e99", 600), ("nan", 0), ("-5", 0), ("Wed, 21 Oct", None), (None, 600)],
)
def test_the_longest_retry_after(header: str | None, seconds: float | None) -> None:
    """A Retry-After of hours or for ever, in the header or in the Status, means ten minutes."""
    details = {"retryAfterSeconds": 1e9} if header is None else {}
    status = {"kind": "Status", "code": 429, "details": details}
    assert error_of(429, json.dumps(status).encode(), header).retry_after == seconds


def pruned(value: Any, depth: int = 0) -> Any:
    """What must be left of a value."""
    if isinstance(value, dict | list) and depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {key: pruned(item, depth + 1) for key, item in value.items()}
    return [pruned(item, depth + 1) for item in value] if isinstance(value, list) else value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\{}[]é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\{}'), inner, max_size=3),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.integers(0, 8), st.booleans())
def test_only_what_is_too_deep_is_cut(value: Any, more: int, ascii_only: bool) -> None:
    """Whatever strings hold, everything above the limit stays and everything below it is null."""
    for _ in range(MAX_DEPTH - 4 + more):
        value = [value, "]"]
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert msgspec.json.decode(_shallow(text)) == pruned(value)
