"""For processes that `kubesched up` starts: they end when the parent does, even if it was killed.

The parent holds the other end of standard input and never writes to it. When the parent is gone, however it ended, the
operating system closes the input.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

GRACE_SECONDS = 5.0
COMMAND = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'kubesched'\n"  # the name in messages and --help
    "from kubesched.local.child_process import end_with_parent; end_with_parent()\n"
    "from kubesched.cli.main import main; main()",
)
"""`kubesched` as a process that ends with its parent. Its standard input must be a pipe."""


def end_with_parent() -> None:
    """Terminate this process when its standard input ends."""
    threading.Thread(target=_wait, name="parent", daemon=True).start()


def _wait() -> None:
    # Not sys.stdin, whose lock would block the interpreter's shutdown.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
