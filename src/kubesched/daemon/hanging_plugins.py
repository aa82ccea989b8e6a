"""Plugins that do not return: named with their stack while they hang, and interrupted.

Everything runs on one event loop, so a plugin that loops for ever would stop scheduling, health checks and SIGTERM. A
thread watches a heartbeat of the loop. When the loop stands still in the code of a plugin, the thread logs that
plugin's stack and sends the main thread a signal, whose handler raises `PluginTimeoutError` in the plugin. The attempt
fails as with any other exception of the plugin, and other pods go on. Built-in plugins and code of kubesched are never
interrupted: an exception at an arbitrary place could leave its state inconsistent.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType

import kubesched
from kubesched.base.log import ERROR, Log
from kubesched.framework.errors import source_of
from kubesched.framework.places import short_path
from kubesched.framework.plugin import Plugin, is_built_in

SIGNAL = signal.SIGALRM
AGAIN_SECONDS = 0.05
SHUTDOWN_LIMIT = 1.0
"""The limit, in seconds, once the process is asked to end."""
SHOWN_SECONDS = 300.0
"""How long the readiness page mentions a plugin that was interrupted."""
_OURS = str(Path(kubesched.__file__).parent)


class PluginTimeoutError(BaseException):
    """A plugin took longer than it may. Not an `Exception`, so that a plugin's own handlers do not catch it."""


class HangingPlugins:
    """Watches for plugins that hang, from `start` to `stop`. Both must be called in the main thread."""

    def __init__(self, plugins: Iterable[Plugin], limit: float, log: Log, folders: Iterable[str] = ()) -> None:
        """Any code in `folders` counts as a plugin: that of a new file runs before its plugins are known."""
        self._limit = limit
        self._folders = tuple(f"{Path(each).resolve()}/" for each in folders)
        self._log = log
        self._sources: dict[str, list[tuple[str, str]]] = {}
        for plugin in plugins:
            self._note(plugin)
        self._beaten = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="hanging plugins", daemon=True)
        self._last: tuple[float, str] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there are plugins that could be interrupted, and a limit."""
        return bool(self._sources or self._folders) and self._limit > 0

    def start(self) -> None:
        """Begin to watch."""
        signal.signal(SIGNAL, self._on_signal)
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()
        self._timer.cancel()
        signal.signal(SIGNAL, signal.SIG_DFL)

    def problem(self) -> str:
        """Which plugin hung last, for the readiness page; empty if that was long ago."""
        if self._last is None or time.monotonic() - self._last[0] > SHOWN_SECONDS:
            return ""
        return self._last[1]

    def hurry(self) -> None:
        """Wait for no plugin longer than a moment: the process is asked to end."""
        self._limit = min(self._limit, SHUTDOWN_LIMIT)

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        stalled = time.monotonic() - self._beaten
        if stalled > self._limit and (plugin := self._interruptible(frame)):
            raise PluginTimeoutError(f"plugin {plugin} did not return for {stalled:.1f}s and was interrupted")

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self._period, self._beat)

    @property
    def _period(self) -> float:
        return min(SHUTDOWN_LIMIT, self._limit) / 4

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        reported = 0.0
        wait = self._period
        while not self._stopped.wait(wait):
            wait = self._period
            beaten = self._beaten
            if time.monotonic() - beaten <= self._limit:
                continue
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            if (plugin := self._plugin_in(frame)) is None:
                continue
            if reported != beaten:
                reported = beaten
                self._report(plugin, frame)
            wait = AGAIN_SECONDS
            signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    def _report(self, plugin: str, frame: FrameType | None) -> None:
        self._last = (time.monotonic(), f"plugin {plugin} did not return for {self._limit:g}s and was interrupted")
        stack = "".join(traceback.format_list(_within(traceback.extract_stack(frame), self._is_known)))
        self._log(ERROR, "A plugin hangs and is interrupted", plugin=plugin, limit=f"{self._limit:g}s", stack=stack)

    # --- whose code a frame is ----------------------------------------------------------------------------------------

    def _note(self, plugin: Plugin) -> None:
        if is_built_in(type(plugin)):
            return
        source = source_of(plugin)
        try:
            file = inspect.getfile(source)  # type: ignore[arg-type]  # a class or a function
        except (TypeError, OSError):
            return
        self._sources.setdefault(file, []).append((plugin.name, getattr(source, "__qualname__", "")))

    def _plugin_in(self, frame: FrameType | None) -> str | None:
        """The plugin whose code is on a stack, the innermost one."""
        return next((name for each in _outwards(frame) if (name := self._name_of(each))), None)

    def _interruptible(self, frame: FrameType | None) -> str | None:
        """The same, unless the plugin has called code of kubesched, which must not be interrupted."""
        for each in _outwards(frame):
            if name := self._name_of(each):
                return name
            if each.f_code.co_filename.startswith(_OURS):
                return None
        return None

    def _name_of(self, frame: FrameType) -> str | None:
        file = frame.f_code.co_filename
        known = self._sources.get(file)
        if known is None:
            return short_path(file) if self._is_known(file) else None
        own = frame.f_code.co_qualname
        return next((name for name, source in known if own.startswith(source)), known[0][0])

    def _is_known(self, file: str) -> bool:
        return file in self._sources or str(Path(file).resolve()).startswith(self._folders)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _within(stack: traceback.StackSummary, is_known: Callable[[str], bool]) -> list[traceback.FrameSummary]:
    """The part of a stack from the plugin on."""
    first = next((index for index, each in enumerate(stack) if is_known(each.filename)), 0)
    return list(stack)[first:]
