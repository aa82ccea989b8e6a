"""Random operations against a plain model, with a history that is soon forgotten.

Watchers come and go, start anywhere in the past, select, and ask for bookmarks; lists are read page by page while
objects change. What each of them sees has to be exactly what the model says happened, or 410 where, and only where, the
past may be forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.support import CONFIG_MAPS, PATIENCE, FixedClock, config_map, refusal

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.watching import BOOKMARK_SECONDS
from kubesched.apiserver.storage.store import Store
from kubesched.base.types import JSON

WINDOW = 6
"""At least this many events are kept, and at most twice as many."""
NAMES = ("a", "b", "c", "d", "e")
COLOURS = ("red", "blue")
Seen = tuple[str, str, int]
"""A line of a watch: the change, the object's name, the version."""


class Model:
    """What should be there, at every version, and what should have happened."""

    def __init__(self, version: int) -> None:
        self.history: list[tuple[int, str, str | None, str | None]] = []
        self.states: dict[int, dict[str, str]] = {version: {}}
        self.version = version

    @property
    def objects(self) -> dict[str, str]:
        return self.states[self.version]

    def record(self, version: int, name: str, colour: str | None) -> None:
        objects = dict(self.objects)
        self.history.append((version, name, objects.pop(name, None), colour))
        if colour is not None:
            objects[name] = colour
        self.states[version] = objects
        self.version = version

    def events(self, after: int, colour: str) -> list[Seen]:
        """What a watcher of one colour, or of all, sees after a version."""
        seen = []
        for version, name, before, now in self.history:
            was, is_ = wanted(before, colour), wanted(now, colour)
            if version > after and (was or is_):
                seen.append(("MODIFIED" if was and is_ else "ADDED" if is_ else "DELETED", name, version))
        return seen

    def count_after(self, version: int) -> int:
        """How many events there were since a version."""
        return sum(each[0] > version for each in self.history)


def wanted(colour: str | None, wish: str) -> bool:
    return colour is not None and wish in ("", colour)


class Watcher:
    """An open watch, read by a task of its own."""

    def __init__(self, client: LocalClient, version: int, colour: str, bookmarks: bool) -> None:
        self.version, self.colour, self.bookmarks = version, colour, bookmarks
        self.seen: list[Seen] = []
        self.read_up_to = version
        """Where the watch stood when it last said something."""
        self.expired = False
        query = {"resourceVersion": str(version), "allowWatchBookmarks": str(bookmarks).lower()}
        if colour:
            query["labelSelector"] = f"colour={colour}"
        self._task = asyncio.create_task(self._read(client, query))

    async def _read(self, client: LocalClient, query: dict[str, str]) -> None:
        async for event in client.watch(CONFIG_MAPS, **query):
            assert not self.expired, f"after its end the watch says {event}"
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 410
                self.expired = True
                continue
            meta = event["object"]["metadata"]
            self.read_up_to = int(meta["resourceVersion"])
            self.seen.append((event["type"], meta.get("name", ""), self.read_up_to))

    @property
    def news(self) -> list[Seen]:
        return [each for each in self.seen if each[0] != "BOOKMARK"]

    async def check(self, model: Model) -> None:
        expected = model.events(self.version, self.colour)
        await self._until(lambda: self.expired or self._task.done() or len(self.news) >= len(expected))
        if self.expired:
            assert self.news == expected[: len(self.news)]
            assert model.count_after(self.version) > WINDOW, "410 although the past is remembered"
        else:
            assert self.news == expected
        self._check_bookmarks(expected)

    def _check_bookmarks(self, expected: list[Seen]) -> None:
        """A bookmark promises that everything up to its version was said before it."""
        said = 0
        for change, _, version in self.seen:
            if change == "BOOKMARK":
                assert self.bookmarks
                assert sum(each[2] <= version for each in expected) == said
            else:
                said += 1

    async def check_bookmark(self, version: int) -> None:
        """Wait for the bookmark that is due."""
        if self.bookmarks and not self.expired:
            await self._until(lambda: ("BOOKMARK", "", version) in self.seen or self.expired)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        self._task.cancel()
        for outcome in await asyncio.gather(self._task, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome


class Pages:
    """A list that is read page by page."""

    def __init__(self, client: LocalClient, colour: str, limit: int) -> None:
        self._client = client
        self._colour = colour
        self._query = {"limit": str(limit), **({"labelSelector": f"colour={colour}"} if colour else {})}
        self._found: list[str] = []
        self._token = ""
        self._version = 0
        self.done = False

    async def turn(self, model: Model) -> None:
        """Read the next page; the last one completes the list as it was when the first was read."""
        if self._token and model.count_after(self._version) > WINDOW:
            # May be forgotten; beyond twice the window it must be.
            if model.count_after(self._version) > 2 * WINDOW:
                assert (await refusal(self._read())).code == 410
            self.done = True
            return
        page = await self._read()
        self._found += [item["metadata"]["name"] for item in page["items"]]
        version, self._token = int(page["metadata"]["resourceVersion"]), page["metadata"].get("continue", "")
        assert version == (self._version or model.version)
        self._version = version
        expected = sorted(name for name, held in model.states[version].items() if wanted(held, self._colour))
        self.done = not self._token
        assert self._found == (expected if self.done else expected[: len(self._found)])

    async def _read(self) -> JSON:
        query = {**self._query, **({"continue": self._token} if self._token else {})}
        return await self._client.get(CONFIG_MAPS, query=query)


class Run:
    """One sequence of operations on the server and on the model."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.api = ApiServer(Store(max_events=WINDOW), clock=self.clock, random=Random(1))
        self.client = LocalClient(self.api)
        self.model = Model(self.api.store.version)
        self.watchers: list[Watcher] = []
        self.pages: list[Pages] = []

    async def run(self, operations: list[tuple[str, str, int]]) -> None:
        for operation, text, number in operations:
            await getattr(self, operation)(text, number)
        await self.check("", 0)
        await self.tick("", 0)
        await self.check("", 0)
        for watcher in self.watchers:
            await watcher.close()

    async def put(self, name: str, number: int) -> None:
        colour = COLOURS[number % 2]
        obj = config_map(name, {"colour": colour}, n=str(self.model.version))
        if name in self.model.objects:
            answer = await self.client.replace(f"{CONFIG_MAPS}/{name}", obj)
        else:
            answer = await self.client.create(CONFIG_MAPS, obj)
        self.model.record(int(answer["metadata"]["resourceVersion"]), name, colour)

    async def delete(self, name: str, _: int) -> None:
        if name not in self.model.objects:
            assert (await refusal(self.client.delete(f"{CONFIG_MAPS}/{name}"))).code == 404
            return
        await self.client.delete(f"{CONFIG_MAPS}/{name}")
        self.model.record(self.api.store.version, name, None)

    async def watch(self, colour: str, number: int) -> None:
        """Watch from a version of some time ago; one that is certainly forgotten is 410 at once."""
        versions = [*self.model.states]
        version = versions[max(0, len(versions) - 1 - number // 2)]
        watcher = Watcher(self.client, version, colour, bookmarks=bool(number % 2))
        self.watchers.append(watcher)
        # It begins before anything else happens.
        await asyncio.sleep(0)
        await watcher.check(self.model)
        if self.model.count_after(version) > 2 * WINDOW:
            assert watcher.expired
            assert watcher.seen == []

    async def leave(self, _: str, number: int) -> None:
        if self.watchers:
            await self.watchers.pop(number % len(self.watchers)).close()

    async def tick(self, _: str, __: int) -> None:
        """Let so much time pass that every watch that wants one gets a bookmark."""
        await self.check("", 0)
        self.clock.time += BOOKMARK_SECONDS + 1
        await self.put("e", 0)
        for watcher in self.watchers:
            await watcher.check_bookmark(self.model.version)

    async def check(self, _: str, __: int) -> None:
        for watcher in self.watchers:
            await watcher.check(self.model)

    async def list(self, colour: str, limit: int) -> None:
        self.pages.append(Pages(self.client, colour, limit))
        await self.turn("", 0)

    async def turn(self, _: str, __: int) -> None:
        """Every list that is not complete gets its next page."""
        for pages in self.pages:
            await pages.turn(self.model)
        self.pages = [each for each in self.pages if not each.done]


_ANY = st.integers(0, 4 * WINDOW + 3)
_OPERATION = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), _ANY),
    st.tuples(st.just("put"), st.sampled_from(NAMES), _ANY),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), _ANY),
    st.tuples(st.just("watch"), st.sampled_from(("", *COLOURS)), _ANY),
    st.tuples(st.just("list"), st.sampled_from(("", *COLOURS)), st.integers(1, 3)),
    st.tuples(st.sampled_from(("leave", "check", "turn", "tick")), st.just(""), _ANY),
)


@given(st.lists(_OPERATION, max_size=60))
def test_everybody_sees_the_history(operations: list[tuple[str, str, int]]) -> None:
    """Watchers, bookmarks and pages show exactly what happened, or say 410 where the past may be forgotten."""
    asyncio.run(Run().run(operations))


def test_a_long_run() -> None:
    """The same with a thousand operations, so that history is forgotten again and again."""
    chance = Random(7)
    texts = {"put": NAMES, "delete": NAMES, "watch": ("", *COLOURS), "list": ("", *COLOURS)}
    kinds = ["put"] * 6 + ["delete", "watch", "watch", "watch", "list", "turn", "turn", "leave", "check", "tick"]
    operations = []
    for _ in range(1000):
        kind = chance.choice(kinds)
        limit = (1, 3) if kind == "list" else (0, 4 * WINDOW + 3)
        operations.append((kind, chance.choice(texts.get(kind, ("",))), chance.randint(*limit)))
    asyncio.run(Run().run(operations))
