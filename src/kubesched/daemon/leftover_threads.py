"""Ends the process although threads that a plugin started still run. Python itself would wait for them for ever."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable

GRACE_SECONDS = 5.0


def end_without(before: Iterable[threading.Thread], code: int) -> None:
    """When the main thread has ended, give all threads that are not in `before` some time, then exit with `code`."""
    known = set(before)
    left = [each for each in threading.enumerate() if each not in known and not each.daemon]
    if left:
        threading.Thread(target=_end, args=(left, code), name="end", daemon=True).start()


def _end(left: list[threading.Thread], code: int) -> None:
    threading.main_thread().join()
    end = time.monotonic() + GRACE_SECONDS
    for each in left:
        each.join(max(0.0, end - time.monotonic()))
    names = ", ".join(each.name for each in left if each.is_alive())
    if names:
        sys.stderr.write(f"these threads still run, and end with the process: {names}; start them with daemon=True\n")
        sys.stderr.flush()
        os._exit(code)
