"""The store: versions, history, and watchers that see exactly what happened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controlplane.support import CONFIG_MAPS, FixedClock, config_map

from kubesched.client.protocol import JSON
from kubesched.controlplane.apiserver import ApiServer
from kubesched.controlplane.local import LocalClient
from kubesched.controlplane.status import StatusError
from kubesched.controlplane.store import Change, Store


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
    assert event.change is Change.MODIFIED
    assert event.previous is not None
    assert (event.previous.labels, event.record.labels) == ({"v": "1"}, {"v": "2"})


async def test_a_burst_is_one_wake_up() -> None:
    """Many writes while a watcher waits wake it once, with all of them."""
    store = Store()
    shelf = store.shelf("/pods")
    waiting = asyncio.create_task(shelf.wait(5))
    await asyncio.sleep(0)
    for number in range(50):
        store.put("/pods", f"p{number}", _object("p"))
    await waiting
    assert len(shelf.events_from(0, 100)) == 50


# --- against a model --------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
COLOURS = ("red", "blue")

_OPERATION = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from(COLOURS)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("watch"), st.sampled_from(("", *COLOURS)), st.integers(0, 5).map(str)),
    st.tuples(st.just("check"), st.just(""), st.just("")),
    st.tuples(st.just("list"), st.sampled_from(("", *COLOURS)), st.integers(0, 3).map(str)),
)


class _Model:
    """What should be there and what should have happened."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.history: list[tuple[int, str, str | None, str | None]] = []

    def record(self, version: int, name: str, colour: str | None) -> None:
        self.history.append((version, name, self.objects.pop(name, None), colour))
        if colour is not None:
            self.objects[name] = colour

    def events(self, after: int, colour: str) -> list[tuple[str, str, int]]:
        """What a watcher of one colour (or of all) sees after a version."""
        seen = []
        for version, name, before, now in self.history:
            was, is_ = _wanted(before, colour), _wanted(now, colour)
            if version > after and (was or is_):
                kind = "MODIFIED" if was and is_ else "ADDED" if is_ else "DELETED"
                seen.append((kind, name, version))
        return seen


def _wanted(colour: str | None, wish: str) -> bool:
    return colour is not None and wish in ("", colour)


class _Watcher:
    """An open watch and from where it sees."""

    def __init__(self, client: LocalClient, version: int, colour: str) -> None:
        self.version, self.colour = version, colour
        query: dict[str, str] = {"resourceVersion": str(version)}
        if colour:
            query["labelSelector"] = f"colour={colour}"
        self._events = client.watch(CONFIG_MAPS, **query)

    async def check(self, model: _Model) -> None:
        expected = model.events(self.version, self.colour)
        for kind, name, version in expected:
            event = await asyncio.wait_for(anext(self._events), 5)
            meta = event["object"]["metadata"]
            assert (event["type"], meta["name"], int(meta["resourceVersion"])) == (kind, name, version)
            self.version = version

    async def close(self) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]  # an async generator


class _Run:
    """One sequence of operations on the server and on the model."""

    def __init__(self) -> None:
        self.api = ApiServer(clock=FixedClock())
        self.client = LocalClient(self.api)
        self.model = _Model()
        self.watchers: list[_Watcher] = []
        self.versions = [self.api.store.version]

    async def run(self, operations: list[tuple[str, str, str]]) -> None:
        for operation, first, second in operations:
            await getattr(self, operation)(first, second)
        await self.put("sentinel", "red")
        await self.put("sentinel", "blue")
        await self.check("", "")
        for watcher in self.watchers:
            await watcher.close()

    async def put(self, name: str, colour: str) -> None:
        obj = config_map(name, {"colour": colour}, n=str(len(self.versions)))
        if name in self.model.objects:
            answer = await self.client.replace(f"{CONFIG_MAPS}/{name}", obj)
        else:
            answer = await self.client.create(CONFIG_MAPS, obj)
        self._happened(int(answer["metadata"]["resourceVersion"]), name, colour)

    async def delete(self, name: str, _: str) -> None:
        if name not in self.model.objects:
            with pytest.raises(StatusError, match="not found"):
                await self.client.delete(f"{CONFIG_MAPS}/{name}")
            return
        await self.client.delete(f"{CONFIG_MAPS}/{name}")
        self._happened(self.api.store.version, name, None)

    async def watch(self, colour: str, back: str) -> None:
        version = self.versions[max(0, len(self.versions) - 1 - int(back))]
        self.watchers.append(_Watcher(self.client, version, colour))

    async def check(self, _: str, __: str) -> None:
        for watcher in self.watchers:
            await watcher.check(self.model)

    async def list(self, colour: str, limit: str) -> None:
        """List in pages while nothing changes; pages of a changing list have a test of their own."""
        query = {"limit": limit, **({"labelSelector": f"colour={colour}"} if colour else {})}
        found: list[Any] = []
        token = ""
        while True:
            page = await self.client.get(CONFIG_MAPS, query={**query, **({"continue": token} if token else {})})
            found += [item["metadata"]["name"] for item in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        expected = sorted(name for name, held in self.model.objects.items() if _wanted(held, colour))
        assert [name for name in found if name != "kube-root-ca.crt"] == expected

    def _happened(self, version: int, name: str, colour: str | None) -> None:
        self.model.record(version, name, colour)
        self.versions.append(version)


@settings(max_examples=150)
@given(st.lists(_OPERATION, max_size=40))
def test_watchers_see_exactly_the_history(operations: list[tuple[str, str, str]]) -> None:
    """Whatever is done in whatever order, each watcher sees what the model says happened, and nothing else."""
    asyncio.run(_Run().run(operations))
