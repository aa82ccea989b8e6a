"""Puts the page together: feed, model, questions, stream and server."""

from __future__ import annotations

import socket
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubesched.base.types import JSON
from kubesched.client.connection import Connection
from kubesched.config import dump
from kubesched.framework.registry import PluginSource
from kubesched.library.cluster import Cluster
from kubesched.library.configuration import Config, unknown_plugins
from kubesched.web.answers import About, PageAnswers
from kubesched.web.changes import ObjectEditor
from kubesched.web.configuring import Configuring
from kubesched.web.feed import FileFeed, LiveFeed
from kubesched.web.model import ClusterModel
from kubesched.web.questions import Questions
from kubesched.web.scheduler_link import SchedulerLink
from kubesched.web.security import Doorkeeper
from kubesched.web.server import UiServer
from kubesched.web.stream import Broadcaster

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(slots=True)
class UiSettings:
    """What to show, and to whom."""

    title: str
    connection: Connection | None = None
    """The cluster to watch; without one, `files`."""
    files: Sequence[Path] = ()
    decisions: Sequence[Path] = ()
    """Decision logs and databases."""
    scheduler: str = ""
    """The URL of a kubesched scheduler's secure port."""
    scheduler_authority: bytes | None = None
    config: Config = None
    plugins: Sequence[PluginSource] = ()
    allow_changes: bool = False
    door: Doorkeeper = field(default_factory=lambda: Doorkeeper(set(LOOPBACK)))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError if the address is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def link_to(host: str, port: int, token: str) -> str:
    """The link that opens the page."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


@asynccontextmanager
async def serving(settings: UiSettings, listening: socket.socket) -> AsyncIterator[UiServer]:
    """Serve the page on a socket that listens, until the end of the block."""
    link = None
    if settings.connection is not None and settings.scheduler:
        link = SchedulerLink(settings.connection, settings.scheduler, settings.scheduler_authority)
    try:
        async with _serving(settings, listening, link) as server:
            yield server
    finally:
        if link is not None:
            await link.close()


@asynccontextmanager
async def _serving(
    settings: UiSettings, listening: socket.socket, link: SchedulerLink | None
) -> AsyncIterator[UiServer]:
    model = ClusterModel()
    in_force = await link.configuration() if settings.config is None and link is not None else None
    configuring, empty, notes = _configured(settings, in_force)
    questions = Questions(model, empty, list(settings.decisions))
    editor: ObjectEditor | None = None
    feed: LiveFeed | FileFeed
    if settings.connection is not None:
        feed = LiveFeed(settings.connection, model, events=link is None)
        questions.tries = feed.tries
        editor = ObjectEditor(feed.client, allow_changes=settings.allow_changes)
        await editor.start()
    else:
        feed = FileFeed(settings.files, model)
    try:
        await feed.start()
        about = _about(settings, feed, [*notes, *feed.notes])
        answers = PageAnswers(about, model, questions, configuring, link, editor)

        async def ask_scheduler() -> None:
            if link is not None:
                await link.poll(model, questions)

        await ask_scheduler()
        answers.broadcaster = Broadcaster(model, answers.queue, ask_scheduler)
        server = UiServer(answers, answers.broadcaster, settings.door)
        await server.start(listening)
        try:
            yield server
        finally:
            await server.stop()
    finally:
        questions.close()
        await feed.stop()


def _configured(settings: UiSettings, in_force: JSON | None) -> tuple[Configuring, Cluster, list[str]]:
    """The configuration to decide with, an empty cluster that has it, and what visitors should know about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        configuring = Configuring(settings.config, settings.plugins)
        if in_force is not None:
            configuring = configuring.following(in_force)
        config = settings.config if in_force is None else dump.to_builtins(configuring.config)
        empty = Cluster(config=config, plugins=settings.plugins)
    unknown = [unknown_plugins(configuring.unknown)] if configuring.unknown else []
    return configuring, empty, [*unknown, *(str(each.message) for each in caught)]


def _about(settings: UiSettings, feed: LiveFeed | FileFeed, notes: list[str]) -> About:
    if isinstance(feed, LiveFeed):
        return About(settings.title, "live", notes)
    if feed.simulation:
        return About(feed.simulation, "simulation", notes)
    return About(settings.title, "files", notes)
