"""The page of `kubesched up`, in a process of its own, so that explanations take no time from the scheduler.

The parent listens and starts this process when a browser opens the page. It passes the listening socket, and the rest
on standard input, where no other user can read it. When the parent ends, standard input does too.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import msgspec

from kubesched.client.connection import resolve
from kubesched.client.kubeconfig import parse
from kubesched.framework.loading import load_place
from kubesched.web.app import LOOPBACK, UiSettings, serving
from kubesched.web.security import Doorkeeper


class ChildSettings(msgspec.Struct):
    """What the parent passes on standard input, as one line of JSON."""

    socket: int
    token: str
    title: str
    kubeconfig: str
    config: dict[str, Any]
    plugins: list[str]
    """Places of plugins, as --plugin has them."""
    scheduler: str = ""
    scheduler_authority: str = ""


async def run(given: ChildSettings) -> None:
    """Serve until standard input ends."""
    settings = UiSettings(
        title=given.title,
        connection=resolve(parse(given.kubeconfig.encode(), "the embedded cluster")),
        scheduler=given.scheduler,
        scheduler_authority=given.scheduler_authority.encode() or None,
        config=given.config,
        plugins=[found for place in given.plugins for found in load_place(place)],
        allow_changes=True,
        door=Doorkeeper(set(LOOPBACK), given.token),
    )
    async with serving(settings, socket.socket(fileno=given.socket)):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(sys.stdin.readline(), type=ChildSettings)))
