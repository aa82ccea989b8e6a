"""The cache of decoded objects, and its indexes."""

from __future__ import annotations

import pytest

from kubesched.api.decoding import decode_as
from kubesched.apiserver.storage.store import Store
from kubesched.base.types import JSON
from kubesched.reconcile.cache import Cache
from kubesched.reconcile.views import Pod, View


def by_label(calls: list[str], view: View) -> tuple[str, ...]:
    calls.append(view.metadata.name)
    return tuple(view.metadata.labels.values())


def put(store: Store, name: str, **labels: str) -> None:
    store.put("/things", name, {"metadata": {"name": name, "labels": labels}})


def test_changes_are_watched_from_a_moment_on() -> None:
    """A handler of changes alone is not called for what exists, and once for each change, however often it is added."""
    store, seen = Store(), list[str]()
    cache = Cache(store.shelf("/things"), View)
    put(store, "one")

    def note(_old: View | None, new: View | None) -> None:
        seen.append("" if new is None else new.metadata.name)

    cache.watch_changes(note)
    cache.watch_changes(note)
    put(store, "two")
    assert seen == ["two"]


def test_an_index_costs_nothing_until_it_is_read() -> None:
    """A cluster without Jobs must not pay for the indexes of the Job controller at every change of a pod."""
    store, calls = Store(), list[str]()
    index = Cache(store.shelf("/things"), View).index(lambda view: by_label(calls, view))
    put(store, "one", app="web")
    put(store, "one", app="db")
    assert not calls
    assert [each.metadata.name for each in index.get("db")] == ["one"]
    assert calls == ["one"]


def test_an_index_that_cannot_be_built_is_built_later() -> None:
    """A failure while an index is built does not leave an incomplete one."""
    store, fails = Store(), [True]
    put(store, "one", app="web")

    def by_value(view: View) -> tuple[str, ...]:
        if fails:
            raise ValueError("not yet")
        return tuple(view.metadata.labels.values())

    index = Cache(store.shelf("/things"), View).index(by_value)
    with pytest.raises(ValueError, match="not yet"):
        index.get("web")
    fails.clear()
    assert index.size("web") == 1


def test_an_index_follows_changes_after_it_is_read() -> None:
    """Objects that come, change their value and go are found where they are."""
    store = Store()
    put(store, "one", app="web")
    index = Cache(store.shelf("/things"), View).index(lambda view: tuple(view.metadata.labels.values()))
    assert index.size("web") == 1
    put(store, "two", app="web")
    put(store, "one", app="db")
    assert [each.metadata.name for each in index.get("web")] == ["two"]
    store.delete("/things", "two")
    assert not index.get("web")
    assert index.size("db") == 1


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        {"phase": None, "conditions": None},
        {},
    ],
)
def test_a_status_alone_gives_the_same_view(status: JSON) -> None:
    """What is taken over from before and what is decoded make the same view as the whole object."""
    store = Store()
    meta = {"name": "one", "uid": "1", "labels": {"a": "b"}}
    store.put("/pods", "one", {"metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": "Pending"}})
    cache = Cache(store.shelf("/pods"), Pod)
    before = cache.get("one")
    changed = next(store.records("/pods")).load_status()
    changed["status"] = status
    record = store.put("/pods", "one", changed, only_status=True)
    after = cache.get("one")
    assert before is not None
    assert after is not None
    assert after == decode_as(Pod, record.data)
    assert after.spec is before.spec


def test_a_status_that_cannot_be_decoded_removes_the_object() -> None:
    """A status of the wrong type is handled as in a write of the whole object."""
    store = Store()
    store.put("/pods", "one", {"metadata": {"name": "one"}, "spec": {}, "status": {}})
    cache = Cache(store.shelf("/pods"), Pod)
    changed = next(store.records("/pods")).load_status()
    changed["status"] = {"phase": 7}
    store.put("/pods", "one", changed, only_status=True)
    assert cache.get("one") is None
