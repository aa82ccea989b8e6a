"""The cache of decoded objects, and its indexes."""

from __future__ import annotations

import pytest

from kubesched.apiserver.storage.store import Store
from kubesched.reconcile.cache import Cache
from kubesched.reconcile.views import View


def by_label(calls: list[str], view: View) -> tuple[str, ...]:
    calls.append(view.metadata.name)
    return tuple(view.metadata.labels.values())


def put(store: Store, name: str, **labels: str) -> None:
    store.put("/things", name, {"metadata": {"name": name, "labels": labels}})


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
