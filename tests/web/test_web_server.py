"""The page's server: who gets in, what the stream carries, and that names stay names."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from tests.web import sample

from kubesched.api import objects as api
from kubesched.testing import node, pod
from kubesched.web import placements
from kubesched.web.app import LOOPBACK, UiSettings, listen, serving
from kubesched.web.feed import EventFeeder, FailedScheduling
from kubesched.web.model import ClusterModel, delta
from kubesched.web.moments import MOST, Moment, Moments, What
from kubesched.web.placements import PlacementLog
from kubesched.web.security import Doorkeeper
from kubesched.web.server import STATIC
from kubesched.web.stream import RELOAD, Broadcaster

TOKEN = "a-secret"


class Page:
    """A running page and a client for it."""

    def __init__(self, base: str, client: aiohttp.ClientSession) -> None:
        self.base = base
        self.client = client

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.client.get(self.base + path, headers={"Authorization": f"Bearer {TOKEN}", **headers}) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text


@asynccontextmanager
async def page_of(tmp_path: Path, objects: dict[str, Any] | None = None) -> AsyncIterator[Page]:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(objects or sample.cluster(20, 0.3)))
    settings = UiSettings("test", files=[file], door=Doorkeeper(set(LOOPBACK), TOKEN))
    listening = listen("127.0.0.1", 0)
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with serving(settings, listening), aiohttp.ClientSession() as client:
        yield Page(base, client)


# --- who gets in ------------------------------------------------------------------------------------------------------


async def test_nothing_is_answered_without_the_token(tmp_path: Path) -> None:
    """The API wants the token; the link from the terminal turns it into a cookie and removes it from the address."""
    async with page_of(tmp_path) as page:
        async with page.client.get(page.base + "/api/nodes") as answer:
            assert answer.status == 401
        async with page.client.get(f"{page.base}/?token={TOKEN}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        async with page.client.get(page.base + "/api/nodes", headers={"Cookie": cookie.partition(";")[0]}) as answer:
            assert answer.status == 200
        async with page.client.get(f"{page.base}/?token=wrong", allow_redirects=False) as answer:
            assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
async def test_other_sites_are_refused_even_with_the_token(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    """A rebound host name, another origin and a cross-site request get nothing."""
    async with page_of(tmp_path) as page:
        assert (await page.get("/api/about", **headers))[0] == status


async def test_changes_need_a_header_that_other_sites_cannot_send(tmp_path: Path) -> None:
    """A form on another site can send the cookie's request at most, never this header."""
    async with page_of(tmp_path) as page:
        for headers, status in (({}, 403), ({"X-Kubesched": "1"}, 200)):
            async with page.client.post(
                page.base + "/api/configuration/check",
                json={"text": ""},
                headers={"Authorization": f"Bearer {TOKEN}", **headers},
            ) as answer:
                assert answer.status == status


async def test_the_token_is_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not even at the most verbose level, where other servers log every address."""
    caplog.set_level(logging.DEBUG)
    async with page_of(tmp_path) as page:
        async with page.client.get(f"{page.base}/?token={TOKEN}") as answer:
            assert answer.status == 200
        await page.get("/api/about")
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(Doorkeeper(set(), TOKEN))


async def test_what_cannot_be_answered_is_said(tmp_path: Path) -> None:
    """Errors are JSON with a sentence, and the server goes on."""
    async with page_of(tmp_path) as page:
        assert await page.get("/api/decision?pod=no/such") == (
            404,
            {"error": "the cluster has no pod 'no/such'; name it as NAMESPACE/NAME"},
        )
        status, body = await page.get("/api/decision?pod=shop/huge&requests=%7B%22cpu%22%3A%22x%22%7D")
        assert (status, "malformed" in body["error"]) == (400, True)
        assert (await page.get("/api/node?name=none"))[0] == 404
        assert (await page.get("/api/pending"))[1]["count"] > 0


async def test_bytes_that_are_not_http_leave_no_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They get 400, as at our other ports."""
    async with page_of(tmp_path) as page:
        for sent in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(page.base.rpartition(":")[2]))
            writer.write(sent + b"\r\n\r\n")
            assert b" 400 " in await reader.readline()
            writer.close()
    assert not caplog.records


async def test_every_answer_has_the_security_headers(tmp_path: Path) -> None:
    """Scripts and styles come from files of this origin only, also on error pages."""
    async with page_of(tmp_path) as page:
        for path in ("/", "/static/js/app.js", "/api/about", "/nothing"):
            async with page.client.get(page.base + path, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["X-Frame-Options"] == "DENY"


def test_static_files_need_nothing_from_elsewhere_and_have_no_markup_from_strings() -> None:
    """The page works offline under its policy: no other host, no inline script, no markup made from strings."""
    for file in STATIC.rglob("*"):
        if file.suffix in (".js", ".html", ".css") and "vendor" not in file.parts:
            text = file.read_text()
            assert "innerHTML" not in text
            assert "dangerouslySetInnerHTML" not in text
            assert "http://" not in text.replace("http://www.w3.org", "")
            assert "https://" not in text
    assert "<script>" not in (STATIC / "index.html").read_text()
    assert {each.name for each in (STATIC / "vendor").glob("*.LICENSE")} == {
        "htm.LICENSE",
        "preact.LICENSE",
        "uPlot.LICENSE",
    }


# --- columns and deltas -----------------------------------------------------------------------------------------------


def shares_of(text: str) -> list[int]:
    return list(map(int, np.frombuffer(base64.b64decode(text), dtype="<u2")))


async def test_nodes_come_in_columns(tmp_path: Path) -> None:
    """One string per column, not one object per node."""
    async with page_of(tmp_path) as page:
        status, body = await page.get("/api/nodes")
    assert status == 200
    assert body["size"] == 20
    assert len(shares_of(body["shares"])) == 20 * len(body["resources"])
    assert not any(isinstance(each, dict) for value in body.values() if isinstance(value, list) for each in value)
    assert body["labels"]["topology.kubernetes.io/zone"] == 3


def test_a_delta_has_the_rows_that_differ() -> None:
    """One pod on 5,000 nodes changes one row, and the delta is small."""
    model = ClusterModel()
    for number in range(5000):
        model.set(node(f"n{number}", cpu="4", memory="8Gi"), initial=True)
    before = model.frame()
    model.set(pod("web", cpu="1", node="n7"))
    changed = delta(before, model.frame())
    assert changed is not None
    assert np.frombuffer(base64.b64decode(changed["rows"]), dtype="<u2").tolist() == [7]
    assert shares_of(changed["shares"])[0] == 250
    assert len(json.dumps(changed)) < 150
    assert delta(model.frame(), model.frame()) is None


async def test_a_slow_page_is_told_to_read_everything_anew() -> None:
    """Events do not pile up for a page that does not read them."""
    model = ClusterModel()
    model.set(node("n1", cpu="4"), initial=True)
    broadcaster = Broadcaster(model, dict)
    broadcaster.current()
    with broadcaster.page() as events:
        for number in range(200):
            model.set(pod(f"p{number}", cpu="10m", node="n1"))
            broadcaster.current()
        waiting = [events.get_nowait() for _ in range(events.qsize())]
    assert RELOAD in waiting
    assert len(waiting) <= 64


async def test_a_page_gets_moments_that_come_late() -> None:
    """An attempt is read after the binding that followed it. It is sent, and the binding not once more."""
    model = ClusterModel()
    broadcaster = Broadcaster(model, dict)
    sent = []
    broadcaster.start()
    try:
        with broadcaster.page() as events:
            for moment in (Moment(10.0, What.BOUND, "p"), Moment(9.0, What.PREEMPTED, "victim")):
                model.moments.add(moment)
                while not (event := await asyncio.wait_for(events.get(), timeout=30)).startswith(b"event: moments"):
                    pass
                sent.append(json.loads(event.partition(b"data: ")[2])["texts"])
    finally:
        await broadcaster.stop()
    assert sent == [["", "p"], ["", "victim"]]


def test_changes_are_taken_over_once() -> None:
    """The thread that explains gets each object once, in its newest state, and those that have gone."""
    model = ClusterModel()
    model.set(node("n1", cpu="4"))
    model.set(node("n1", cpu="8"))
    web = pod("web")
    model.set(web)
    taken = model.take_changes()
    assert [(type(obj), there) for obj, there in taken.values()] == [(api.Node, True), (api.Pod, True)]
    assert not model.take_changes()
    model.remove(web)
    assert list(model.take_changes().values()) == [(web, False)]


def test_what_came_and_went_is_not_kept() -> None:
    """A page that nobody looks at is asked nothing, so nobody takes changes, moments and placements over."""
    model = ClusterModel(clock=lambda: 100.0)
    model.set(node("n1", cpu="4"))
    model.take_changes()
    for number in range(30):
        web = pod(f"web-{number}", node="n1", labels={"own": str(number)})
        model.set(web)
        model.remove(web)
    assert not model.changes


def test_no_more_late_moments_are_kept_than_others() -> None:
    """Creations arrive late, with a time in whole seconds; without a page, nobody asks for all moments."""
    moments = Moments()
    moments.add(Moment(1e9, What.CREATED, "first"))
    for at in range(MOST + 10):
        moments.add(Moment(float(MOST + 10 - at), What.CREATED, "p"))
    assert len(moments._late) <= MOST


def test_requests_of_dropped_placements_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Placements that have ended go when there are too many, and with them requests that no other one has."""
    monkeypatch.setattr(placements, "MOST", 10)
    log = PlacementLog()
    log.placed("stays", 0, {"cpu": 7}, 1.0)
    for number in range(100):
        log.placed(str(number), 0, {"cpu": number + 10}, 1.0)
        log.ended(str(number), 2.0 + number)
    found = log.columns(("cpu",))
    assert len(found["requests"]) <= 10
    classes = np.frombuffer(base64.b64decode(found["classes"]), dtype="<u4")
    assert [found["requests"][classes[at]] for at in (0, -1)] == [[7.0], [109.0]]


async def test_tries_of_deleted_pods_go_with_their_events() -> None:
    """A pod's number of attempts is kept as long as the pod, or an event that tells of it."""
    model, tries = ClusterModel(), dict[str, int]()
    feeder = EventFeeder(model, tries)
    model.set(there := pod("there"))
    for uid, name in ((there.uid, "there"), ("gone", "gone")):
        event = FailedScheduling(involved_object=api.ObjectReference(namespace="default", name=name, uid=uid), count=3)
        feeder.on_add(event, False)
        assert tries[uid] == 3
        feeder.on_delete(event)
    assert tries == {there.uid: 3}


async def test_hostile_bodies_are_refused(tmp_path: Path) -> None:
    """Bodies that claim to be compressed, and a text that is the name of a file, which must not be read."""
    secret = tmp_path / "secret"
    secret.write_text("marker: {")
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Kubesched": "1"}
    async with page_of(tmp_path) as page:
        url = f"{page.base}/api/configuration/compare"
        async with page.client.post(url, data=b"null", headers=headers | {"Content-Encoding": "gzip"}) as answer:
            assert answer.status == 400
        for text in (str(secret), "/no/such", "x" * 5000, None):
            async with page.client.post(url, json={"text": text}, headers=headers) as answer:
                assert answer.status == 400
                assert "expected an object of kind" in (await answer.json())["error"]
