"""/healthz, /livez and /readyz: named checks in upstream's text format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from aiohttp import web

from kubesched.base.log import Log
from kubesched.daemon.serving.pages import responses
from kubesched.logs.quoting import quote

Handler = Callable[[web.BaseRequest], web.Response]


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `problem` returns what is wrong; an empty string means that it passes."""

    name: str
    problem: Callable[[], str]
    only_failing: bool = False
    """Whether the page mentions it only when it fails."""


PING: Final = Check("ping", lambda: "")


class Observer(Protocol):
    """Is notified of the outcome of every check."""

    def observe(self, check: str, kind: str, passed: bool) -> None: ...


class Election(Protocol):
    """The part of a leader election that the watchdog uses."""

    def is_healthy(self) -> bool: ...


def watchdog(election: Election, lease: str) -> Check:
    """Fails when this process holds a lease that it should have renewed or released long ago."""
    message = f"failed election to renew leadership on lease {lease}"
    return Check("leaderElection", lambda: "" if election.is_healthy() else message)


def shutdown(is_stopping: Callable[[], bool]) -> Check:
    """Fails as soon as the process is asked to end."""
    return Check("shutdown", lambda: "process is shutting down" if is_stopping() else "")


def handler_sync(is_synced: Callable[[], bool]) -> Check:
    """Fails until all objects in the cluster have been processed once."""
    return Check("sched-handler-sync", lambda: "" if is_synced() else "handlers are not fully synchronized")


def informer_sync(unsynced: Callable[[], Sequence[str]]) -> Check:
    """Fails while some kinds have not been listed, and names them."""

    def problem() -> str:
        names = unsynced()
        return f"{len(names)} informers not started yet: [{' '.join(names)}]" if names else ""

    return Check("informer-sync", problem)


def plugin_check(problem: Callable[[], str]) -> Check:
    """Fails for a while after a plugin hung. Upstream's page has no such line, so it is there only then."""
    return Check("plugins", problem, only_failing=True)


def log_check(flush: Callable[[], None]) -> Check:
    """Passes when the log can be written."""

    def problem() -> str:
        try:
            flush()
        except (OSError, ValueError):
            return "logging blocked"
        return ""

    return Check("log", problem)


@dataclass(frozen=True, slots=True)
class HealthPage:
    """One of the three paths.

    `checks` make up the page. `alone` are further checks that are served only under their own paths: upstream's pages
    do not list them, and programs that parse those pages must still work.
    """

    name: str
    checks: Sequence[Check]
    observer: Observer
    log: Log
    alone: Sequence[Check] = ()

    def routes(self) -> Iterator[tuple[str, Handler]]:
        """The page and one path for each check."""
        yield f"/{self.name}", self.page
        for check in (*self.alone, *(self.checks or (PING,))):
            yield f"/{self.name}/{check.name}", partial(_single, check)

    def page(self, request: web.BaseRequest) -> web.Response:
        """Run all checks. The response lists them if the request asks for that, or if one fails."""
        excluded = set(request.query.getall("exclude", ()))
        lines: list[str] = []
        failed: dict[str, str] = {}
        for check in self.checks or (PING,):
            if check.name in excluded:
                excluded.discard(check.name)
                lines.append(f"[+]{check.name} excluded: ok\n")
                continue
            problem = check.problem()
            if check.only_failing and not problem:
                continue
            self.observer.observe(check.name, self.name, not problem)
            if problem:
                # Everybody may read this page, so the reason is only logged.
                lines.append(f"[-]{check.name} failed: reason withheld\n")
                failed[check.name] = problem
            else:
                lines.append(f"[+]{check.name} ok\n")
        if excluded:
            names = ",".join(map(quote, sorted(excluded)))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failed:
            details = "".join(f"[-]{name} failed: {problem}\n" for name, problem in failed.items())
            self.log(2, f"{','.join(failed)} check failed: {self.name}\n{details}")
            return responses.error(f"{''.join(lines)}{self.name} check failed", 500)
        body = f"{''.join(lines)}{self.name} check passed\n" if "verbose" in request.query else "ok"
        answer = responses.text(body)
        answer.headers.update(responses.NO_SNIFF)
        return answer


def _single(check: Check, _: web.BaseRequest) -> web.Response:
    problem = check.problem()
    return responses.error(f"internal server error: {problem}", 500) if problem else responses.text("ok")
