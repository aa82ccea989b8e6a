"""What is served, over real TLS: texts, codes and headers as kube-scheduler 1.36 sends them."""

from __future__ import annotations

import json
import marshal
from typing import Any

import pytest
from tests.daemon.serving.support import Log, Running, insecure, running, served

from kubesched.config import dump
from kubesched.config.load import default
from kubesched.daemon.serving.pages.health import Check, handler_sync, informer_sync, log_check, shutdown, watchdog
from kubesched.scheduler.metrics import Metrics

ALL = ("/*",)


class Candidate:
    """A leader election whose health can be set."""

    healthy = True

    def is_healthy(self) -> bool:
        return self.healthy


def page(log: Log | None = None, *, synced: bool = True, **more: Any) -> Any:
    dog = watchdog(Candidate(), "kube-scheduler")
    ready = [dog, shutdown(lambda: False), handler_sync(lambda: synced)]
    return served(log, healthz=[dog], readyz=ready, **more)


GOLDEN = {
    "/healthz": (200, "ok"),
    "/healthz?verbose": (200, "[+]leaderElection ok\nhealthz check passed\n"),
    "/livez?verbose": (200, "[+]ping ok\nlivez check passed\n"),
    "/livez?verbose=false": (200, "[+]ping ok\nlivez check passed\n"),
    "/readyz": (
        500,
        "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
    ),
    "/readyz?exclude=sched-handler-sync": (200, "ok"),
    "/readyz?verbose&exclude=foo&exclude=shutdown": (
        500,
        "[+]leaderElection ok\n[+]shutdown excluded: ok\n[-]sched-handler-sync failed: reason withheld\n"
        'warn: some health checks cannot be excluded: no matches for "foo"\nreadyz check failed\n',
    ),
    "/readyz/sched-handler-sync": (500, "internal server error: handlers are not fully synchronized\n"),
    "/readyz/shutdown": (200, "ok"),
    "/healthz/leaderElection": (200, "ok"),
    "/healthz/nope": (404, "404 page not found\n"),
    "/nope": (404, "404 page not found\n"),
    "/": (404, "404 page not found\n"),
    "/debug/flags/v": (406, "unsupported http method\n"),
    "/metrics/resources": (200, ""),
}
"""Recorded from kube-scheduler 1.36, its handlers not yet synced."""


async def test_health_pages_are_upstreams_letter_for_letter() -> None:
    """Pages, single checks, exclusions and unknown paths answer as kube-scheduler does."""
    async with running(page(synced=False), allowed_paths=ALL) as server:
        assert {path: await server.get(path) for path in GOLDEN} == GOLDEN


async def test_headers_are_upstreams() -> None:
    """Responses are text, forbid content sniffing, and are private."""
    async with running(page(), allowed_paths=ALL) as server:
        _, _, headers = await server.ask("POST", "/healthz")
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-cache, private"
        assert headers["Server"] == "kubesched", "no version of anything"


async def test_why_a_check_fails_is_in_the_log_only() -> None:
    """The public page withholds the reason; the log has it."""
    log = Log()
    failing = served(log, readyz=[Check("database", lambda: "disk on fire")])
    async with running(failing, log=log) as server:
        _, text = await server.get("/readyz")
    assert "disk on fire" not in text
    assert "database check failed: readyz\n[-]database failed: disk on fire\n" in [line[1] for line in log.lines]


def test_checks_say_what_is_wrong() -> None:
    """Each check has upstream's words for what it watches over."""
    candidate = Candidate()
    dog = watchdog(candidate, "kube-scheduler")
    assert dog.problem() == ""
    candidate.healthy = False
    assert dog.problem() == "failed election to renew leadership on lease kube-scheduler"
    assert shutdown(lambda: True).problem() == "process is shutting down"
    assert informer_sync(lambda: ["pods", "nodes"]).problem() == "2 informers not started yet: [pods nodes]"
    assert informer_sync(list).problem() == ""

    def broken() -> None:
        raise OSError

    assert log_check(broken).problem() == "logging blocked"
    assert log_check(lambda: None).problem() == ""


async def test_checks_that_upstream_lacks_are_served_alone() -> None:
    """Extra checks have paths of their own and do not appear on the pages that scripts parse."""
    async with running(page(alone=[Check("log", lambda: "")]), allowed_paths=ALL) as server:
        assert await server.get("/livez/log") == (200, "ok")
        assert "log" not in (await server.get("/readyz?verbose"))[1]


async def test_slis_count_checks_and_can_be_reset() -> None:
    """/metrics/slis tells how checks turned out, by page, until it is reset."""
    async with running(page(synced=False), allowed_paths=ALL) as server:
        await server.get("/healthz")
        await server.get("/readyz")
        text = (await server.get("/metrics/slis"))[1]
        assert 'kubernetes_healthcheck{name="leaderElection",type="healthz"} 1\n' in text
        assert 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0\n' in text
        assert 'kubernetes_healthchecks_total{name="leaderElection",status="success",type="readyz"} 1\n' in text
        assert "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck." in text
        assert (await server.ask("DELETE", "/metrics/slis"))[:2] == (200, "metrics reset\n")
        after = (await server.get("/metrics/slis"))[1]
        assert "kubernetes_healthcheck" not in after
        assert "process_start_time_seconds" in after


async def test_metrics_can_be_reset() -> None:
    """DELETE of /metrics resets the counters, with the same response as upstream."""
    metrics = Metrics(process=False)
    metrics.attempt("scheduled", "default-scheduler", 0.1)
    endpoints = served(metrics=metrics.render, reset_metrics=metrics.reset)
    async with running(endpoints, allowed_paths=ALL) as server:
        assert "scheduler_schedule_attempts_total{" in (await server.get("/metrics"))[1]
        assert (await server.ask("DELETE", "/metrics"))[:2] == (200, "metrics reset\n")
        assert "scheduler_schedule_attempts_total{" not in (await server.get("/metrics"))[1]


async def test_metrics_are_the_schedulers() -> None:
    """/metrics renders what the scheduler counts, in the format that a scraper accepts."""
    metrics = Metrics(process=False)
    metrics.attempt("scheduled", "default-scheduler", 0.1)
    async with running(page(metrics=metrics.render), allowed_paths=ALL) as server:
        _, text, headers = await server.ask("GET", "/metrics")
        assert "scheduler_schedule_attempts_total{" in text
        assert headers["Content-Type"].startswith("text/plain")
        assert int(headers["Process-Start-Time-Unix"])


async def test_resource_metrics_are_the_leaders() -> None:
    """/metrics/resources shows what it is given, which for anybody but the leader is nothing."""
    async with running(page(resource_metrics=lambda: "x 1\n"), allowed_paths=ALL) as server:
        assert await server.get("/metrics/resources") == (200, "x 1\n")


async def test_configz_equals_the_dump() -> None:
    """/configz shows the configuration as it would be written to a file, under upstream's key."""
    config = default()
    async with running(page(config=lambda: dump.to_builtins(config)), allowed_paths=ALL) as server:
        _, text, headers = await server.ask("GET", "/configz")
        assert json.loads(text) == {"componentconfig": dump.to_builtins(config)}
        assert (
            headers["Content-Type"] == "application/json; charset=utf-8"
            or headers["Content-Type"] == "application/json"
        )


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("5", (200, "successfully set klog.logging.verbosity to 5\n")),
        ("0", (200, "successfully set klog.logging.verbosity to 0\n")),
        ("x", (400, 'strconv.ParseUint: parsing "x": invalid syntax\n')),
        ("-1", (400, 'strconv.ParseUint: parsing "-1": invalid syntax\n')),
        ("99999999999", (400, 'strconv.ParseUint: parsing "99999999999": value out of range\n')),
    ],
)
async def test_verbosity_is_put(body: str, answer: tuple[int, str]) -> None:
    """PUT /debug/flags/v changes how much is logged, and says so in upstream's words."""
    levels: list[int] = []
    async with running(page(set_verbosity=levels.append), allowed_paths=ALL) as server:
        assert (await server.ask("PUT", "/debug/flags/v", data=body))[:2] == answer
    assert levels == ([int(body)] if answer[0] == 200 else [])


async def test_debugging_pages_go_with_profiling() -> None:
    """With profiling off there is neither /debug/pprof nor /debug/flags."""
    async with running(page(profiling=False), allowed_paths=ALL) as server:
        for path in ("/debug/flags/v", "/debug/flags", "/debug/pprof/", "/debug/pprof/profile"):
            assert (await server.get(path))[0] == 404


async def test_profiles() -> None:
    """Every profile on the index page can be had, in the formats it names; others are not found."""
    async with running(page(), allowed_paths=ALL) as server:
        status, _, headers = await server.ask("GET", "/debug/pprof")
        assert (status, headers["Location"]) == (302, "/debug/pprof/")
        index = (await server.get("/debug/pprof/"))[1]
        assert all(f"<a href='{name}'>" in index for name in ("cmdline", "goroutine", "heap", "profile"))
        assert ";asyncio." in (await server.get("/debug/pprof/profile?seconds=0.2"))[1]
        scope = json.loads((await server.get("/debug/pprof/profile?seconds=0.1&format=speedscope"))[1])
        assert scope["profiles"][0]["type"] == "sampled"
        assert (await server.get("/debug/pprof/profile?seconds=0.1&format=pprof"))[0] == 400
        assert "tasks: " in (await server.get("/debug/pprof/goroutine?debug=2"))[1]
        assert "threads: " in (await server.get("/debug/pprof/threadcreate"))[1]
        assert "allocated in the last 0.1 s" in (await server.get("/debug/pprof/heap?seconds=0.1"))[1]
        assert (await server.get("/debug/pprof/cmdline"))[0] == 200
        assert (await server.get("/debug/pprof/mutex"))[0] == 404
        await _exact_profile(server)


async def _exact_profile(server: Running) -> None:
    url = f"{server.url}/debug/pprof/profile?seconds=0.1&format=pstats"
    async with server.session.get(url, ssl=insecure()) as response:
        assert marshal.loads(await response.read())


async def test_flagz_and_statusz_as_text() -> None:
    """People get a text with upstream's heading, the flags in order, and what is served."""
    async with running(page(), allowed_paths=ALL) as server:
        flagz = (await server.get("/flagz"))[1]
        assert flagz.startswith("\nkube-scheduler flagz\nWarning: This endpoint is not meant to be machine parseable")
        assert flagz.endswith("config=\nv=2\n")
        statusz = (await server.get("/statusz"))[1]
        assert "\nUp: 0 hr 00 min 0" in statusz
        assert statusz.endswith("Paths: /configz /flagz /healthz /livez /metrics /readyz\n")


async def test_flagz_and_statusz_as_objects() -> None:
    """Programs that name the exact kind get it, as JSON or YAML; others are told what there is."""
    async with running(page(), allowed_paths=ALL) as server:
        wanted = {"Accept": "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"}
        _, text, headers = await server.ask("GET", "/flagz", headers=wanted)
        assert headers["Content-Type"] == "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
        assert json.loads(text)["flags"] == {"config": "", "v": "2"}
        old = {"Accept": "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz"}
        _, text, headers = await server.ask("GET", "/statusz", headers=old)
        assert "apiVersion: config.k8s.io/v1alpha1\n" in text
        assert "deprecated" in headers["Warning"]
        status, text, _ = await server.ask("GET", "/statusz", headers={"Accept": "application/json"})
        assert (status, json.loads(text)["reason"]) == (406, "NotAcceptable")


async def test_zpages_can_be_turned_off() -> None:
    """Without their feature gates /flagz and /statusz are not there."""
    async with running(page(flags=None, statusz=False), allowed_paths=ALL) as server:
        assert (await server.get("/flagz"))[0] == (await server.get("/statusz"))[0] == 404


async def test_a_page_that_fails_does_not_show_its_inside() -> None:
    """An error in a page is logged, and the client gets a bare 500."""

    def broken() -> Any:
        raise RuntimeError("secret plans")

    log = Log()
    async with running(page(log, config=broken), allowed_paths=ALL, log=log) as server:
        assert await server.get("/configz") == (500, "Internal Server Error\n")
    assert "secret plans" in log.text
