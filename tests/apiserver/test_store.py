"""The store: versions and history. `test_history` tests it with random operations."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.support import failing_observer

from kubesched.apiserver.kinds.fields import FIELDS, fields_reader
from kubesched.apiserver.storage.store import ChangeType, Store
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON


def _object(name: str, **labels: str) -> JSON:
    return {"metadata": {"name": name, "labels": labels}}


def test_versions_are_global() -> None:
    """Every change of any kind gets the next version."""
    store = Store()
    first = store.put("/pods", "a/x", _object("x"))
    second = store.put("/nodes", "n", _object("n"))
    assert second.version == first.version + 1
    assert second.load()["metadata"]["resourceVersion"] == str(second.version)


def test_deletion_bears_its_own_version() -> None:
    """The last state of a deleted object has the version of its removal."""
    store = Store()
    store.put("/pods", "a/x", _object("x"))
    gone = store.delete("/pods", "a/x")
    assert gone.load()["metadata"]["resourceVersion"] == str(store.version)
    assert store.get("/pods", "a/x") is None


def test_keys_come_in_order_and_by_namespace() -> None:
    """Lists are in the order of keys; a namespace is a prefix, not a beginning of a name."""
    store = Store()
    for key in ("b/x", "a/z", "a/y", "ab/y", "a-b/y"):
        store.put("/pods", key, _object("x"))
    assert [record.key for record in store.records("/pods")] == ["a-b/y", "a/y", "a/z", "ab/y", "b/x"]
    assert [record.key for record in store.records("/pods", "a")] == ["a/y", "a/z"]


def test_the_past_can_be_listed() -> None:
    """History played backwards gives the objects of an earlier version."""
    store = Store()
    store.put("/pods", "a", _object("a", v="1"))
    then = store.version
    store.put("/pods", "a", _object("a", v="2"))
    store.put("/pods", "b", _object("b"))
    store.delete("/pods", "a")
    past = store.shelf("/pods").at(then)
    assert [(key, record.labels) for key, record in past.items()] == [("a", {"v": "1"})]


def test_forgotten_history_is_410() -> None:
    """What is no longer in the window can neither be watched nor listed."""
    store = Store(max_events=4)
    for number in range(20):
        store.put("/pods", f"p{number}", _object("p"))
    shelf = store.shelf("/pods")
    with pytest.raises(StatusError) as watch:
        shelf.position_after(store.started_at)
    with pytest.raises(StatusError) as past:
        shelf.at(store.started_at)
    assert (watch.value.code, past.value.code) == (410, 410)
    assert shelf.position_after(store.version - 1) >= 0


def test_events_say_what_was_before() -> None:
    """An event carries the object before and after."""
    store = Store()
    store.put("/pods", "a", _object("a", v="1"))
    store.put("/pods", "a", _object("a", v="2"))
    event = store.shelf("/pods").events_from(1, 10)[0]
    assert event.change is ChangeType.MODIFIED
    assert event.previous is not None
    assert (event.previous.labels, event.record.labels) == ({"v": "1"}, {"v": "2"})


def test_versions_share_what_is_equal() -> None:
    """What stays the same from one version of an object to the next is in memory once."""
    store = Store()
    first = store.put("/pods", "a/x", _object("x", v="1"))
    second = store.put("/pods", "a/" + "x", _object("x", v="1"))
    third = store.put("/pods", "a/x", _object("x", v="2"))
    assert second.labels is first.labels
    assert second.key is first.key
    assert third.labels == {"v": "2"}


async def test_a_burst_is_one_wake_up() -> None:
    """Many writes while a watcher waits wake it once, with all of them."""
    store = Store()
    shelf = store.shelf("/pods")
    waiting = asyncio.create_task(shelf.wait(120))
    await asyncio.sleep(0)
    for number in range(50):
        store.put("/pods", f"p{number}", _object("p"))
    await waiting
    assert len(shelf.events_from(0, 100)) == 50


async def test_no_kind_overtakes_another() -> None:
    """A watcher of pods is not woken before a watcher of nodes that has missed an earlier change."""
    store = Store(coalesce=0.05)
    seen: list[str] = []

    async def follow(resource: str) -> None:
        shelf = store.shelf(resource)
        position = shelf.position_after(store.version)
        while True:
            await shelf.wait()
            events = shelf.events_from(position, 100)
            position += len(events)
            seen.extend(event.record.key for event in events)

    watchers = [asyncio.create_task(follow(resource)) for resource in ("/pods", "/nodes")]
    await asyncio.sleep(0)
    for resource, key in (("/nodes", "first"), ("/nodes", "second"), ("/pods", "pod")):
        store.put(resource, key, _object(key))
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    for watcher in watchers:
        watcher.cancel()
    assert seen == ["first", "second", "pod"]


async def test_a_failing_observer_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """An observer that raises is logged; the write succeeds, other observers and watchers see it."""
    store, seen = Store(), list[str]()
    shelf = store.shelf("/pods")
    shelf.observers += [failing_observer, lambda event: seen.append(event.record.key)]
    watching = asyncio.create_task(shelf.wait(120))
    await asyncio.sleep(0)
    assert store.put("/pods", "a/x", _object("x")).key == "a/x"
    await watching
    assert (seen, shelf.visible) == (["a/x"], store.version)
    assert "an observer of the store failed on ADDED a/x" in caplog.text
    assert "ZeroDivisionError" in caplog.text


_VALUES: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=3)
_PARTS = st.dictionaries(
    st.sampled_from(("phase", "podIP", "nodeName", "hostNetwork", "conditions")),
    st.recursive(_VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner)),
)


@given(spec=st.none() | _PARTS, before=st.none() | _PARTS, after=_PARTS)
def test_a_status_is_replaced_without_decoding_the_rest(spec: Any, before: Any, after: JSON) -> None:
    """A write of the status alone stores the same bytes, fields and labels as a write of the whole object."""
    obj: JSON = {"kind": "Pod", **_object("x", v="1"), **({} if spec is None else {"spec": spec}), "type": "t"}
    if before is not None:
        obj["status"] = before
    stored = []
    for only_status in (True, False):
        store = Store()
        store.shelf("/pods", fields_reader({**FIELDS["", "pods"], "type": ("type",)}))
        first = store.put("/pods", "a/x", copy.deepcopy(obj))
        changed = first.load_status() if only_status else first.load()
        changed["status"] = after
        stored.append(store.put("/pods", "a/x", changed, only_status=only_status))
    assert stored[0] == stored[1]
