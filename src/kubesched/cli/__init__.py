"""The command line, and the way to put a scheduler with plugins of one's own into a program of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesched.framework.registry import PluginSource


def run(plugins: Iterable[PluginSource] = (), argv: Sequence[str] | None = None) -> int:
    """Run the scheduler as ``kubesched run`` does, with more plugins known; answers with the exit code.

    This is all that a ``main.py`` needs, as upstream's ``app.NewSchedulerCommand(app.WithPlugin(...))``::

        sys.exit(kubesched.cli.run(plugins=[MyPlugin]))

    `argv` are the flags; those of this process if there are none. Plugins still have to be enabled in a profile.
    """
    from kubesched.daemon import start  # not at the top: `kubesched --help` must not load a scheduler

    return start(argv, plugins=plugins)
